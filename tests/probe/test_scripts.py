# SPDX-License-Identifier: MIT
"""The scripts against a server in virtual time: every verdict is known beforehand, and replays to the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from configtron.fingerprint import icw
from configtron.fingerprint.merge import merge
from configtron.model.errors import Diverged
from configtron.model.nouns import ACK, PSH, SYN, Packet, Segment
from configtron.probe.icw import icw as icw_script
from configtron.probe.play import Recorded, play
from configtron.probe.profiles import CLEAR
from tests.support.fake_server import FakeServer
from tests.support.played import TARGET, played, seen, trace_of


@pytest.mark.parametrize(("mss", "icw"), [(64, 100), (536, 1), (536, 2), (536, 10), (1460, 1), (1460, 32)])
@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("header", [0, 240])
def test_icw_is_exact_on_a_page_that_is_long_enough(mss: int, icw: int, sack: bool, header: int) -> None:
    settings: Any = {"icw": icw, "sack": True, "page": 200_000, "header": header}
    found = seen("icw", FakeServer(**settings), mss=mss, sack=sack, wscale=7)
    assert (found["icw"].value, found["icw"].grade) == (icw, "C" if sack else "L"), found["icw"]
    assert found["icw"].detail("proof") == ("edge" if sack else "after-timer")
    found = seen("icw", FakeServer(**settings), mss=mss, sack=sack, wscale=7, early=True)
    # A burst that ends in a short segment may have been all that the server had to say yet.
    short = header and icw == -(-header // mss) and header % mss
    assert (found["icw"].value, found["icw"].detail("proof")) == (icw, "short-end" if short else "before-timer")


@pytest.mark.parametrize("rtt_s", [0.0001, 0.02, 0.4])
def test_data_rto_is_the_time_between_the_two_copies(rtt_s: float) -> None:
    found = seen("icw", FakeServer(rtt_s=rtt_s))
    trip_s = max(rtt_s, 0.02)
    assert found["data_rto"].value == pytest.approx(trip_s + max(0.2, 2 * trip_s), abs=1e-6)


@pytest.mark.parametrize("segments", [1, 3, 9, 10])
@pytest.mark.parametrize("closes", [True, False])
def test_a_page_no_longer_than_the_window_gives_a_bound(segments: int, closes: bool) -> None:
    found = seen("icw", FakeServer(icw=10, page=segments * 536, closes=closes))
    assert found["icw"].grade == "L"
    assert found["icw"].value == segments


def test_one_byte_more_than_the_window_is_proof() -> None:
    found = seen("icw", FakeServer(icw=10, page=10 * 536 + 1), early=True)
    assert (found["icw"].value, found["icw"].grade) == (10, "C")


def thinking(think_s: float, after: int, **settings: Any) -> FakeServer:
    return FakeServer(icw=10, sack=True, think_after=after * 536, think_s=think_s, header=after * 536, **settings)


@pytest.mark.parametrize("think_s", [0.2, 0.9, 2.5])
@pytest.mark.parametrize("params", [{}, {"sack": True}, {"early": True}])
def test_one_run_does_not_overclaim_a_server_that_pauses(think_s: float, params: dict[str, Any]) -> None:
    found = seen("icw", thinking(think_s, 4, rto_min_s=9.0), **params)
    assert found["icw"].value == 10 or found["icw"].grade == "L", found["icw"]


@pytest.mark.parametrize("think_ms", [20, 60, 180, 220, 400, 900])
@pytest.mark.parametrize("after", [1, 4])
def test_no_verdict_overclaims_a_server_that_pauses(think_ms: int, after: int) -> None:
    """A pause may look like one round trip, by chance, in one run; not in all the runs of a profile."""
    rows = [dict(params) for probe, params in CLEAR["standard"] if probe == "icw"]
    trials = [seen("icw", thinking(think_ms / 1000, after), **{**row, "mss": 536})["icw"] for row in rows]
    verdict = merge(trials)
    assert verdict.value == 10 or verdict.grade in ("C", "L"), [(t.text, t.detail("proof")) for t in trials]


def test_an_unscaled_window_cannot_show_more_than_it_holds() -> None:
    found = seen("icw", FakeServer(icw=60, page=200_000), mss=1460, early=True)
    assert found["icw"].grade == "L"


@pytest.mark.parametrize("drop", [{4}, {1, 5}, {9}, {8, 9}, {0}, {3, 9}])
def test_lost_segments_are_counted_up_to_the_probe(drop: set[int]) -> None:
    """The start of the tail loss probe is the edge of the window, whatever was lost before it."""
    found = seen("icw", FakeServer(icw=10, sack=True, drop=frozenset(drop)), sack=True)
    assert (found["icw"].value, found["icw"].detail("proof")) == (10, "edge")


def test_a_server_that_drips_hides_its_probe() -> None:
    """Its probe looks like one more of its own segments, so one is taken off the bound."""
    packets = (
        Packet(0.0, "out", Segment(SYN, options=((2, b"\x02\x18"), (4, b"")))),
        Packet(0.02, "in", Segment(SYN | ACK, ack=1, options=((2, b"\x05\xb4"), (4, b""))), 1),
        Packet(0.02, "out", Segment(ACK | PSH, 1, 1, length=50), 2),
        *(Packet(0.04 + 0.02 * n, "in", Segment(ACK, 1 + 500 * n, 51, length=500), 3 + n) for n in range(11)),
        Packet(0.6, "in", Segment(ACK, 1, 51, length=500), 14),
        Packet(0.6, "out", Segment(ACK, 51, 5501), 15),
        Packet(0.62, "in", Segment(ACK, 5501, 51, length=500), 16),
    )
    (found,) = icw.infer(trace_of(packets, "icw"))
    assert (found.text, found.detail("proof")) == (">= 10", "uneven")


@pytest.mark.parametrize(
    ("settings", "reason"), [({"silent": True}, "no-synack"), ({"refuse": True}, "refused"), ({"page": 0}, "no-data")]
)
def test_failures_are_named(settings: dict[str, Any], reason: str) -> None:
    assert seen("icw", FakeServer(**settings))["icw"].reason == reason


def test_a_recording_of_another_question_diverges() -> None:
    trace = played("icw", FakeServer())
    with pytest.raises(Diverged):
        play(icw_script(TARGET, "agent", mss=1460), Recorded(trace.packets))
