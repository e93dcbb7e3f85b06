# SPDX-License-Identifier: MIT
"""Asking through narrow windows, and what a burst and its timers look like when segments are lost or repeated."""

from __future__ import annotations

import pytest

from configtron.fingerprint import icw
from configtron.fingerprint.stream import Flight
from configtron.model.nouns import ACK, OPT_MSS, OPT_SACK_PERMITTED, PSH, RST, SYN, Packet, Segment
from configtron.probe.icw import LONG_PATH_BYTES, lengthened
from configtron.probe.withhold import Asking, _ask_again, asking
from tests.support.played import trace_of

DATA = b"0123456789"


def asked(window: int, mss: int, *more: tuple[int, bytes], ours: int | None = None) -> Asking:
    """A request to a server whose SYN-ACK says so."""
    options = ((OPT_MSS, mss.to_bytes(2, "big")), *more)
    return asking(DATA, Segment(SYN | ACK, ack=1, window=window, options=options), (), ours)


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
    ask = asked(64240, 4)
    assert [s.payload for s in ask.due()] == [b"0123", b"4567", b"89"]
    assert ask.again().payload == b"0123"


def test_windows_after_the_handshake_are_scaled() -> None:
    ask = asked(1, 1460, (3, b"\x03"), ours=7)
    assert len(ask.due()[0].payload) == 1
    ask.hear(Segment(ACK, ack=2, window=1))
    assert len(ask.due()[0].payload) == 8


@pytest.mark.parametrize("path", ["/", "/a/b?c=d", "/index.html"])
def test_a_longer_path_has_its_length_and_its_folder(path: str) -> None:
    longer = lengthened(path)
    assert len(longer) == LONG_PATH_BYTES and longer.startswith(path.rpartition("/")[0])


Said = tuple[float, str, Segment]
OFFER = Segment(SYN, options=((OPT_MSS, b"\x02\x18"), (OPT_SACK_PERMITTED, b"")))
ANSWER = Segment(SYN | ACK, ack=1, options=((OPT_MSS, b"\x05\xb4"), (OPT_SACK_PERMITTED, b"")))
ASK = Segment(ACK | PSH, 1, 1, length=50)
TAKEN = (0.04, "in", Segment(ACK, 1, 51))
OPENING: tuple[Said, ...] = ((0.0, "out", OFFER), (0.02, "in", ANSWER), (0.02, "out", ASK))
PLAIN: tuple[Said, ...] = ((0.0, "out", OFFER._replace(options=OFFER.options[:1])), *OPENING[1:])


def data(at: float, *numbers: int) -> tuple[Said, ...]:
    return tuple((at, "in", Segment(ACK, 1 + 536 * number, 51, length=536)) for number in numbers)


def ack(at: float, count: int) -> Said:
    return (at, "out", Segment(ACK, 51, 1 + 536 * count))


# Acknowledged after a probe of the tail.
EDGE: tuple[Said, ...] = (*OPENING, TAKEN, *data(0.04, *range(10)), *data(0.1, 10), ack(0.13, 11))


@pytest.mark.parametrize(
    ("said", "text", "proof"),
    [
        # Its repeat comes after a second; the request shows that the path is 20 ms, so the probe is seen as one.
        (((0.0, "out", OFFER), (1.03, "in", ANSWER), (1.03, "out", ASK), *data(1.05, *range(10)), *data(2.07, 10),
          ack(2.15, 11), *data(2.17, 11)), ">= 10", "no-round-trip"),
        # The last segment of the flight may have been lost, or the first of the fresh data: which, is unknown.
        ((*OPENING, *data(0.04, *range(9)), ack(0.2, 9), *data(0.22, 10)), ">= 9", "unverified"),
        # An edge stands though the ACK or fresh data are lost; without fresh data it is a bound.
        ((*EDGE, *data(0.15, 11)), "10", "edge"),
        ((*EDGE, *data(0.15, 12)), "10", "edge"),
        ((*EDGE, ack(0.205, 11), *data(0.225, 11)), "10", "edge"),
        (EDGE, ">= 10", "unverified"),
        ((*EDGE, *data(0.3, 11)), ">= 10", "server-paced"),
        # A server that drips hides its probe, which looks like one more of its own: one is taken off the bound.
        ((*OPENING, *(data(0.04 + 0.02 * n, n)[0] for n in range(11)), *data(0.6, 0), ack(0.6, 11), *data(0.62, 11)),
         ">= 10", "uneven"),
        # A long silence may be the timer's copies lost: what the ACK lets out may be the flight's own tail again.
        ((*PLAIN, *data(0.04, *range(8)), ack(0.14, 8), *data(0.16, 8)), "8", "before-timer"),
        ((*PLAIN, *data(0.04, *range(8)), ack(6.04, 8), *data(6.06, 8)), ">= 8", "after-timer"),
        # A server that was silent for its timeout may begin with another window.
        ((*OPENING, TAKEN, *data(0.08, *range(10)), ack(0.18, 10), *data(0.2, 10)), "10", "before-timer"),
        ((*OPENING, TAKEN, *data(0.32, *range(10)), ack(0.42, 10), *data(0.44, 10)), ">= 10", "after-idle"),
    ],
)  # fmt: skip
def test_what_proves_a_window(said: tuple[Said, ...], text: str, proof: str) -> None:
    (seen,) = icw.infer(trace_of([Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(said)], "icw"))
    assert (seen.text, seen.detail("proof")) == (text, proof)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        # a window of one after a repeated SYN
        (((0.0, "out", OFFER), (1.4, "out", OFFER), (1.42, "in", ANSWER), (1.42, "out", ASK), *data(1.44, 0)),
         "- (synack-repeated)"),
        # a probe after a flight that was lost whole is not counted
        ((*OPENING, *data(0.3, 1), ack(0.7, 2), *data(0.72, 2)), ">= 1"),
        ((*OPENING, (0.04, "in", Segment(RST, 1))), "- (reset)"),
    ],
)  # fmt: skip
def test_what_shows_no_window(said: tuple[Said, ...], text: str) -> None:
    (seen,) = icw.infer(trace_of([Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(said)], "icw"))
    assert seen.text == text


@pytest.mark.parametrize(("rtt_s", "times"), [(0.02, (0.075, 1.075, 2.075)), (0.4, (0.55, 1.55, 2.55))])
def test_a_lost_request_is_repeated_before_the_server_is_idle(rtt_s: float, times: tuple[float, ...]) -> None:
    """Linux is idle after its timeout: a round trip and at least 0.2 s or two round trips."""
    assert _ask_again(rtt_s) == pytest.approx(times)
    assert rtt_s + times[0] < rtt_s + max(0.2, 2 * rtt_s)


@pytest.mark.parametrize(
    ("asked_at", "heard_at", "rtt_s", "sampled"), [((2.0,), 2.1, 0.1, True), ((2.0, 3.0), 3.01, 1.0, False)]
)
def test_the_round_trip_is_the_shorter_one_and_not_sampled_from_a_repeat(
    asked_at: tuple[float, ...], heard_at: float, rtt_s: float, sampled: bool
) -> None:
    flight = Flight(1.0)
    for at in asked_at:
        flight.ask(Packet(at, "out", ASK))
    flight.hear(Packet(heard_at, "in", Segment(ACK, 1, 51)))
    assert flight.rtt_s == pytest.approx(rtt_s) and flight.sampled is sampled
