# SPDX-License-Identifier: MIT
"""Asking through narrow windows, and what a burst and its timers look like when segments are lost or repeated."""

from __future__ import annotations

import pytest

from configtron.fingerprint import icw
from configtron.fingerprint.stream import Flight
from configtron.model.nouns import ACK, OPT_MSS, OPT_SACK_PERMITTED, PSH, RST, SYN, Packet, Segment, Target, Trace
from configtron.probe.icw import LONG_PATH_BYTES, lengthened
from configtron.probe.withhold import Asking, _ask_again, asking

DATA = b"0123456789"
TARGET = Target("site.example", "192.0.2.1")


def test_a_request_goes_at_once_where_the_window_allows() -> None:
    ask = asking(DATA, Segment(SYN | ACK, ack=1, window=64240, options=((OPT_MSS, b"\x05\xb4"),)), (), None)
    assert [(s.seq, s.payload) for s in ask.due()] == [(1, DATA)]
    assert ask.due() == [] and ask.end == 11


def test_a_narrow_window_takes_it_in_parts() -> None:
    ask = Asking(DATA, seq=1, ack=1, mss=1000, window=4)
    assert [s.payload for s in ask.due()] == [b"0123"]
    ask.hear(Segment(ACK, ack=5, window=2))
    assert [s.payload for s in ask.due()] == [b"45"]
    ask.hear(Segment(ACK, ack=7, window=0))
    assert ask.due() == [] and ask.again().payload == b"6", "a closed window is probed with a byte"
    ask.hear(Segment(ACK, ack=8, window=100))
    assert [s.payload for s in ask.due()] == [b"789"] and ask.pending
    ask.hear(Segment(ACK, ack=11, window=100))
    assert not ask.pending


def test_a_small_segment_size_cuts_it() -> None:
    ask = asking(DATA, Segment(SYN | ACK, ack=1, window=64240, options=((OPT_MSS, b"\x00\x04"),)), (), None)
    assert [s.payload for s in ask.due()] == [b"0123", b"4567", b"89"]
    assert ask.again().payload == b"0123"


def test_windows_after_the_handshake_are_scaled() -> None:
    synack = Segment(SYN | ACK, ack=1, window=1, options=((OPT_MSS, b"\x05\xb4"), (3, b"\x03")))
    ask = asking(DATA, synack, (), 7)
    assert len(ask.due()[0].payload) == 1
    ask.hear(Segment(ACK, ack=2, window=1))
    assert len(ask.due()[0].payload) == 8


@pytest.mark.parametrize("path", ["/", "/a/b?c=d", "/index.html"])
def test_a_longer_path_has_its_length_and_its_folder(path: str) -> None:
    longer = lengthened(path)
    assert len(longer) == LONG_PATH_BYTES and longer.startswith(path.rpartition("/")[0])


def trace_of(*packets: tuple[float, str, Segment]) -> Trace:
    heard = tuple(Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(packets))
    return Trace("t", TARGET, "here", "icw", packets=heard)


OFFER = Segment(SYN, options=((OPT_MSS, b"\x02\x18"), (OPT_SACK_PERMITTED, b"")))
ANSWER = Segment(SYN | ACK, ack=1, options=((OPT_MSS, b"\x05\xb4"), (OPT_SACK_PERMITTED, b"")))
ASK = Segment(ACK | PSH, 1, 1, length=50)


def data(number: int) -> Segment:
    return Segment(ACK, 1 + 536 * number, 51, length=536)


def test_a_lost_synack_is_not_taken_for_a_long_path() -> None:
    """Its repeat comes after a second; the request shows that the path is 20 ms, so the probe is seen as one."""
    trace = trace_of(
        (0.0, "out", OFFER), (1.03, "in", ANSWER), (1.03, "out", ASK),
        *((1.05, "in", data(n)) for n in range(10)),
        (2.07, "in", data(10)), (2.15, "out", Segment(ACK, 51, 1 + 536 * 11)), (2.17, "in", data(11)),
    )  # fmt: skip
    (seen,) = icw.infer(trace)
    assert (seen.text, seen.detail("proof")) == (">= 10", "no-round-trip")


def test_a_window_of_one_after_a_repeated_syn_shows_nothing() -> None:
    again = ((1.4, "out", OFFER), (1.42, "in", ANSWER), (1.42, "out", ASK), (1.44, "in", data(0)))
    trace = trace_of((0.0, "out", OFFER), *again)
    (seen,) = icw.infer(trace)
    assert seen.reason == "synack-repeated"


def test_what_follows_a_gap_after_the_ack_is_no_proof() -> None:
    """The last segment of the flight may have been lost, or the first of the fresh data: which, is unknown."""
    trace = trace_of(
        (0.0, "out", OFFER), (0.02, "in", ANSWER), (0.02, "out", ASK),
        *((0.04, "in", data(n)) for n in range(9)),
        (0.2, "out", Segment(ACK, 51, 1 + 536 * 9)), (0.22, "in", data(10)),
    )  # fmt: skip
    (seen,) = icw.infer(trace)
    assert (seen.text, seen.detail("proof")) == (">= 9", "unverified")


def edge_run(*after: tuple[float, str, Segment]) -> Trace:
    opening = ((0.0, "out", OFFER), (0.02, "in", ANSWER), (0.02, "out", ASK), (0.04, "in", Segment(ACK, 1, 51)))
    flight = [(0.04, "in", data(n)) for n in range(10)]
    return trace_of(*opening, *flight, (0.1, "in", data(10)), (0.13, "out", Segment(ACK, 51, 1 + 536 * 11)), *after)


@pytest.mark.parametrize(
    "after",
    [
        [(0.15, "in", data(11))],
        [(0.15, "in", data(12))],
        [(0.205, "out", Segment(ACK, 51, 1 + 536 * 11)), (0.225, "in", data(11))],
    ],
)
def test_an_edge_stands_though_the_ack_or_fresh_data_are_lost(after: list[tuple[float, str, Segment]]) -> None:
    (seen,) = icw.infer(edge_run(*after))
    assert (seen.value, seen.detail("proof")) == (10, "edge")


@pytest.mark.parametrize(("waited_s", "proof"), [(0.1, "before-timer"), (6.0, "after-timer")])
def test_a_long_silence_may_be_the_timers_copies_lost(waited_s: float, proof: str) -> None:
    """What the ACK lets out may then be the flight's own tail, sent again."""
    at = 0.04 + waited_s
    flight = [(0.04, "in", data(n)) for n in range(8)]
    trace = trace_of(
        (0.0, "out", OFFER._replace(options=OFFER.options[:1])), (0.02, "in", ANSWER), (0.02, "out", ASK), *flight,
        (at, "out", Segment(ACK, 51, 1 + 536 * 8)), (at + 0.02, "in", data(8)),
    )  # fmt: skip
    (seen,) = icw.infer(trace)
    assert (seen.value, seen.detail("proof")) == (8, proof)


def test_an_edge_without_fresh_data_is_a_bound() -> None:
    assert icw.infer(edge_run())[0].detail("proof") == "unverified"
    assert icw.infer(edge_run((0.3, "in", data(11))))[0].detail("proof") == "server-paced"


def test_a_probe_after_a_flight_that_was_lost_whole_is_not_counted() -> None:
    trace = trace_of(
        (0.0, "out", OFFER), (0.02, "in", ANSWER), (0.02, "out", ASK), (0.3, "in", data(1)),
        (0.7, "out", Segment(ACK, 51, 1 + 536 * 2)), (0.72, "in", data(2)),
    )  # fmt: skip
    (seen,) = icw.infer(trace)
    assert seen.text == ">= 1"


@pytest.mark.parametrize(("came_s", "proof"), [(0.06, "before-timer"), (0.3, "after-idle")])
def test_a_server_that_was_silent_for_its_timeout_may_begin_with_another_window(came_s: float, proof: str) -> None:
    at = 0.02 + came_s
    trace = trace_of(
        (0.0, "out", OFFER), (0.02, "in", ANSWER), (0.02, "out", ASK), (0.04, "in", Segment(ACK, 1, 51)),
        *((at, "in", data(n)) for n in range(10)),
        (at + 0.1, "out", Segment(ACK, 51, 1 + 536 * 10)), (at + 0.12, "in", data(10)),
    )  # fmt: skip
    (seen,) = icw.infer(trace)
    assert (seen.value, seen.detail("proof"), seen.grade) == (10, proof, "C" if proof == "before-timer" else "L")


@pytest.mark.parametrize(("rtt_s", "times"), [(0.02, (0.075, 1.075, 2.075)), (0.4, (0.55, 1.55, 2.55))])
def test_a_lost_request_is_repeated_before_the_server_is_idle(rtt_s: float, times: tuple[float, ...]) -> None:
    """Linux is idle after its timeout: a round trip and at least 0.2 s or two round trips."""
    assert _ask_again(rtt_s) == pytest.approx(times)
    assert rtt_s + times[0] < rtt_s + max(0.2, 2 * rtt_s)


def test_the_round_trip_is_the_shorter_one_and_not_sampled_from_a_repeat() -> None:
    flight = Flight(1.0)
    flight.ask(Packet(2.0, "out", ASK))
    flight.hear(Packet(2.1, "in", Segment(ACK, 1, 51)))
    assert flight.rtt_s == pytest.approx(0.1) and flight.sampled
    flight = Flight(1.0)
    flight.ask(Packet(2.0, "out", ASK))
    flight.ask(Packet(3.0, "out", ASK))
    flight.hear(Packet(3.01, "in", Segment(ACK, 1, 51)))
    assert flight.rtt_s == 1.0 and not flight.sampled


def test_a_reset_ends_the_flight() -> None:
    trace = trace_of((0.0, "out", OFFER), (0.02, "in", ANSWER), (0.02, "out", ASK), (0.04, "in", Segment(RST, 1)))
    (seen,) = icw.infer(trace)
    assert seen.reason == "reset"
