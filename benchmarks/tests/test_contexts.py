# SPDX-License-Identifier: MIT
"""Contexts of links with known delay, loss and rate, in the lab's kernel; the kernel's beside those of `ss`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from benchmarks.contexts import FORMS, LINKS, measured, numbers, ss_says, wrong
from configtron.lab.uml.user_mode_linux import UmlVirtual

NAMES = ("dsl", "3g")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    folder: Path = tmp_path_factory.mktemp("guest")
    return measured(NAMES, folder)


@pytest.mark.root
@pytest.mark.lab
def test_both_witnesses_say_what_the_link_is(found: list[dict[str, Any]]) -> None:
    assert [one["link"]["name"] for one in found] == list(NAMES)
    assert [text for one in found for text in wrong(one)] == []
    for one in found:
        size = one["link"]["size"]
        for form in ("live", "socket"):
            assert one[form]["bytes_out"] == size and one[form]["way"] == "out"
            assert one[form]["context"]["prefix"] == "10.9.2.0/24"
        # Not much below the link's rate either, where little is lost.
        if one["link"]["loss_percent"] == 0:
            assert numbers(one["live"])[5] > 0.85 * one["link"]["rate_kbps"]


@pytest.mark.root
@pytest.mark.lab
def test_both_show_the_same_load(found: list[dict[str, Any]]) -> None:
    """Queue and window by packets are the kernel's; what only one of them can have is unknown to the other."""
    for one in found:
        live, socket = (one[form]["context"] for form in ("live", "socket"))
        # The kernel smooths its round trips (a new one counts an eighth), a capture averages all of them: where packets
        # are lost, one late round trip moves the kernel's by an eighth of a queue that holds up to two round trips.
        most = max(5.0, 0.1 * one["link"]["rtt_ms"])
        assert live["queue_ms"] == pytest.approx(socket["queue_ms"], rel=0.2, abs=most), one["link"]["name"]
        assert live["window_bytes"] == pytest.approx(socket["window_bytes"], rel=0.2)
        assert live["ack_gap_ms"] > 0 and 0 < live["delivery_share"] <= 1 and socket["reordering"] >= 3
        assert ("loss_run" in live) == (live["loss"] > 0) and live.get("loss_run", 1) >= 1
        assert one["live"]["unknown"]["reordering"] == "kernel-only"
        assert one["socket"]["unknown"]["loss_run"] == "packets-only"


@pytest.mark.root
@pytest.mark.lab
def test_a_wrong_figure_is_seen(found: list[dict[str, Any]]) -> None:
    for form in FORMS[:2]:
        for name, factor in (("min_rtt_ms", 0.9), ("bandwidth_kbps", 2.5), ("loss", 50)):
            bent = copy.deepcopy(found[0])
            bent[form]["context"][name] *= factor
            assert wrong(bent), (form, name)
    bent = copy.deepcopy(found[0])
    bent["socket"]["context"]["delivery_kbps"] *= 1.01
    assert wrong(bent)


def test_ss_lines_are_read() -> None:
    line = (
        "ESTAB 0 0 10.9.1.2:8080 10.9.2.2:33260 cubic wscale:7,7 rto:312 rtt:78.6/0.33 mss:1448 bytes_sent:3014480"
        " bytes_retrans:14480 data_segs_out:2082 delivery_rate 7.65Mbps delivered:2073 retrans:0/10 dsack_dups:4"
        " minrtt:40.1"
    )
    assert ss_says(line) == {
        "rtt_ms": 78.6, "jitter_ms": 0.33, "min_rtt_ms": 40.1, "loss": 6 / 2082, "delivery_kbps": 7650.0
    }  # fmt: skip
    assert len({link.name for link in LINKS}) == len(LINKS)
