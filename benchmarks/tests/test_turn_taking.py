# SPDX-License-Identifier: MIT
"""Turn-taking TLS: the judge finds what is planted; of real programs no exact window is wrong or has no proof."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.turn_taking import MERGED, SCENARIOS, Judged, judge, run, stand, table
from benchmarks.turns.captures import Capture, split, unproven
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.model.nouns import ACK, Observation
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, RTT_S, Conversation
from tests.support.read_capture import reports

ASKED, FLIGHT = RTT_S + 0.001, 2 * RTT_S + 0.001


def captured(conversation: Conversation, folder: Path) -> tuple[Capture, ConnectionReport]:
    path = folder / "all.pcap"
    path.write_bytes(write.pcap(sorted(conversation.frames), nano=True))
    (capture,) = split(path)
    (one,), _ = reports(capture.path)
    return capture, one


def flight(sizes: list[int], follows: int, *, spoken: int = 0) -> Conversation:
    """A flight of those sizes, the client's ACK with so many bytes, and what the ACK brings."""
    conversation = Conversation()
    seq = 1
    for n, size in enumerate(sizes):
        conversation.send(1, FLIGHT + n / 10_000, ACK, seq, 101, size, echo_s=ASKED)
        seq += size
    conversation.send(0, FLIGHT + 0.002, ACK, 101, seq, spoken)
    conversation.send(1, FLIGHT + RTT_S + 0.002, ACK, seq, 101 + spoken, follows, echo_s=FLIGHT + 0.002)
    return conversation


def window(one: ConnectionReport) -> Observation:
    return next(o for o in one.observations if o.knob == "icw")


def test_a_proven_window_is_exact_and_another_truth_makes_it_wrong(tmp_path: Path) -> None:
    capture, one = captured(flight([FULL] * 3, FULL), tmp_path)
    assert [j.stands for j in judge("x", SCENARIOS[0]._replace(window=3), capture, one)] == ["exact"]
    assert [j.stands for j in judge("x", SCENARIOS[0]._replace(window=4), capture, one)] == ["wrong"]


@pytest.mark.parametrize(
    ("sizes", "follows", "spoken", "why"),
    [
        ([FULL] * 3, FULL, 0, ""),
        ([FULL, 500, FULL], FULL, 0, "a segment of the flight is not full"),
        ([900], 242, 126, "a segment of the flight is not full"),
        ([FULL] * 3, 500, 0, "what followed is not full"),
        ([FULL] * 3, FULL, 126, "the client spoke"),
    ],
)
def test_what_has_no_proof_is_found_though_a_reader_calls_it_exact(
    sizes: list[int], follows: int, spoken: int, why: str, tmp_path: Path
) -> None:
    capture, one = captured(flight(sizes, follows, spoken=spoken), tmp_path)
    assert unproven(capture, replace(window(one), grade="C")) == why
    assert (window(one).grade == "C") == (not why)


@pytest.mark.parametrize(
    ("value", "grade", "wanted"), [(10, "C", "exact"), (9, "C", "wrong"), (9, "L", "bounds"), (10, "L", "tight"),
                                   (11, "L", "wrong"), (None, "N", "reasons"), (11, "A", "wrong")],
)  # fmt: skip
def test_how_a_verdict_stands(value: int | None, grade: str, wanted: str) -> None:
    assert stand(Observation("icw", value, None if value else "no-data", "", "", grade, "t", ()), 10) == wanted


def test_the_table_counts_captures() -> None:
    verdict = Observation("icw", 10, None, "", "", "C", "t", ())
    made = [Judged(name, SCENARIOS[0], Path("x"), verdict, "exact") for name in ("go", "go", MERGED)]
    rows = {line.split("  ")[0]: line.split()[-7:] for line in table(made).splitlines()}
    assert rows["all"][:2] == rows["go"][:2] == ["2", "2"] and rows[MERGED][:2] == ["1", "1"]


@pytest.mark.root
@pytest.mark.skipif(not Path("/dev/net/tun").exists() or not shutil.which("openssl"), reason="needs TUN and openssl")
def test_real_programs_take_turns(tmp_path: Path) -> None:
    """Two windows, whatever of three servers is installed; `python -m benchmarks.turn_taking` has all."""
    found = run(tmp_path, tmp_path / "captures", ["s_server", "python-buffer", "nginx"], (SCENARIOS[1], SCENARIOS[-1]))
    assert len({one.capture for one in found}) >= 12
    assert [one for one in found if one.stands in ("wrong", "unproven")] == []
    assert any(one.stands in ("exact", "tight") for one in found)
