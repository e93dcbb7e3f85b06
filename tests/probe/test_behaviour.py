# SPDX-License-Identifier: MIT
"""Delayed acknowledgements and slow start after idle, against peers that do the one or the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.model.nouns import ACK, FIN, RST, SYN, Observation, Packet, Segment, Trace
from configtron.probe.delayed_ack import PIECE_BYTES, SINGLE_MOST
from tests.support.played import MSS, MSS_OPTION, played, trace_of
from tests.support.timed_wire import TimedWire


class Server(TimedWire):
    """Doubles its window with each acknowledgement of a full one; after a silence it restarts, or does not."""

    def __init__(self, *, rtt_s: float = 0.05, icw: int = 10, page: int = 120, restarts: bool = True,
                 delay_s: float = 0.04, closes: bool = False, timeout_s: float = 0.2,
                 lost: int | None = None) -> None:  # fmt: skip
        super().__init__()
        self.rtt_s, self.icw, self.page, self.restarts = rtt_s, icw, page, restarts
        self.delay_s, self.closes, self.timeout_s, self.lost = delay_s, closes, timeout_s, lost
        self.window, self.left, self.number, self.acked, self.got = icw, 0, 0, 0, 1
        self.spoke_at, self.heads = 0.0, 0

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        at = self.now + self.rtt_s
        if segment.flags & SYN:
            self.say(at, Segment(SYN | ACK, ack=1, options=(MSS_OPTION,)))
        elif segment.length and segment.payload.startswith(b"HEAD"):
            self.heads, self.got = self.heads + 1, segment.end
            self.number += 1
            self.say(at, Segment(ACK, 1 + (self.number - 1) * MSS, segment.end, length=MSS))
        elif segment.length and segment.payload.startswith(b"GET"):
            self.got = segment.end
            for _ in range(int((at - self.spoke_at) / self.timeout_s) if self.restarts else 0):
                self.window = max(self.window // 2, self.icw)
            self.left = self.page
            self.burst(at)
        elif segment.length:
            self.got = segment.end
            self.say(at + (self.delay_s if self.heads >= 3 else 0.0), Segment(ACK, 1, segment.end))
            self.heads = 0
        elif segment.flags & ACK and not segment.flags & RST and (segment.ack - 1) // MSS > self.acked:
            full = self.number - self.acked >= self.window
            self.acked = (segment.ack - 1) // MSS
            self.window *= 2 if full else 1
            self.burst(at)
        return self.sent(segment)

    def burst(self, at: float) -> None:
        for _ in range(min(self.window, self.left)):
            flags = ACK | (FIN if self.closes and self.left == 1 else 0)
            came_at = at + (5 * self.rtt_s + 0.2 if self.number == self.lost else 0.0)
            self.say(came_at, Segment(flags, 1 + self.number * MSS, self.got, length=MSS))
            self.number, self.left, self.spoke_at = self.number + 1, self.left - 1, at


def verdict(trace: Trace) -> Observation:
    return next(o for o in read(trace) if o.knob in ("delayed_ack", "slow_start_after_idle"))


@pytest.mark.parametrize(
    ("server", "text"),
    [
        *(({"rtt_s": rtt_s, "icw": icw}, "on") for rtt_s, icw in ((0.001, 1), (0.05, 10), (0.4, 24))),
        *(({"rtt_s": s, "icw": n, "restarts": False}, "off") for s, n in ((0.001, 1), (0.05, 10), (0.4, 24))),
        ({"page": 8}, "- (unclear:no-growth)"),
        ({"closes": True}, "- (closed)"),
    ],
)
def test_a_window_that_shrinks_while_idle_is_reported(server: dict[str, Any], text: str) -> None:
    found = verdict(played("idle", Server(**server)))
    assert found.text == text, found.details


@pytest.mark.parametrize(
    ("server", "never"),
    [
        # halved once, it was not kept
        *(({"rtt_s": rtt_s, "page": 100, "timeout_s": s}, "off") for rtt_s, s in ((0.05, 0.5), (0.4, 0.5), (0.4, 2.6))),
        # a timeout shrank it, not the silence
        ({"restarts": False, "lost": 119}, "on"),
    ],
)
def test_no_verdict_overclaims(server: dict[str, Any], never: str) -> None:
    found = verdict(played("idle", Server(**server)))
    assert found.value != never, found.details


@pytest.mark.parametrize("rtt_s", [0.001, 0.05, 0.4])
@pytest.mark.parametrize("delay_s", [0.04, 0.2])
def test_the_wait_of_a_lone_segment(rtt_s: float, delay_s: float) -> None:
    found = verdict(played("delayed_ack", Server(rtt_s=rtt_s, delay_s=delay_s)))
    assert found.value == pytest.approx(delay_s, abs=1e-6)


def test_a_server_that_never_waits_has_no_delay() -> None:
    trace = played("delayed_ack", Server(delay_s=0.0))
    assert verdict(trace).reason == "unclear:no-ack"
    pieces = [p for p in trace.packets if p.way == "out" and p.segment.length == PIECE_BYTES]
    assert len(pieces) == SINGLE_MOST, "one that is late is looked for to the end"


@pytest.mark.parametrize(("length", "value"), [(200, None), (MSS, "on")])
def test_a_head_that_comes_alone_is_no_small_window(length: int, value: str | None) -> None:
    trace = played("idle", Server(icw=1))
    asked = [n for n, p in enumerate(trace.packets) if p.way == "out" and p.segment.length][-1]
    answer = next(p for p in trace.packets[asked:] if p.way == "in" and p.segment.length)
    alone = answer._replace(segment=answer.segment._replace(length=length))
    assert verdict(replace(trace, packets=(*trace.packets[: asked + 1], alone))).value == value


def test_small_segments_fill_a_window_like_large_ones() -> None:
    """A server that lets 40 bytes fall every 20 ms grows a window of many packets, and halves it while it is idle."""
    rows = [Packet(0.0, "out", Segment(SYN)), Packet(0.05, "in", Segment(SYN | ACK, ack=1))]
    at, seq, ask = 0.05, 1, 75
    for many in (10, 20, 40, 80, 160, 200, 180):
        idle_s = 4.0 if many == 180 else 0.0
        stated = Segment(ACK, 1 + ask * (many == 180), seq, length=ask * (many in (10, 180)))
        rows.append(Packet(at + idle_s, "out", stated))
        at += idle_s + 0.05
        for n in range(many):
            size = MSS if seq == 1 else 40
            rows.append(Packet(at + 0.02 * n, "in", Segment(ACK, seq, 1 + ask, length=size)))
            seq += size
        at = rows[-1].at + 0.03
    found = verdict(trace_of(rows, "idle"))
    assert (found.detail("before"), found.detail("after")) == ((10, 20, 40, 80, 160, 200), 180)
    assert found.value is None, found.details


def test_a_body_that_came_late_and_was_repeated_is_no_first_window() -> None:
    """A head is flushed and acknowledged; the body comes in our silence, so a timer repeats its first segment, once
    more after the second request. A window of one segment was not seen."""
    head, size = 82, 10
    rows = [Packet(0.0, "out", Segment(SYN)), Packet(0.02, "in", Segment(SYN | ACK, ack=1))]
    rows.append(Packet(0.02, "out", Segment(ACK, 1, 1, length=75)))
    rows.append(Packet(0.04, "in", Segment(ACK, 1, 76, length=head)))
    rows += [Packet(at, "out", Segment(ACK, 76, 1 + head)) for at in (0.1, 0.6)]
    rows += [Packet(0.625, "in", Segment(ACK, 1 + head + n * MSS, 76, length=MSS)) for n in range(size)]
    rows += [Packet(at, "in", Segment(ACK, 1 + head, 76, length=MSS)) for at in (0.85, 1.3, 2.2)]
    rows.append(Packet(4.6, "out", Segment(ACK, 76, 1 + head, length=75)))
    rows.append(Packet(4.7, "in", Segment(ACK, 1 + head, 151, length=MSS)))
    found = verdict(trace_of(rows, "idle"))
    assert (found.value, found.detail("before")) == (None, (1, size)), found.details


def test_a_segment_that_the_network_doubles_is_no_retransmission() -> None:
    trace = played("idle", Server(icw=4))
    doubled = [copy for p in trace.packets for copy in ((p, p) if p.way == "in" and p.segment.length else (p,))]
    assert verdict(replace(trace, packets=tuple(doubled))).value == "on"
