# SPDX-License-Identifier: MIT
"""A TCP server in virtual time: a `Wire` whose other end behaves as Linux does towards a client that acknowledges
nothing.

It stands beside real servers (tests/probe/wire, tests/lab), never instead of them: it makes the cases that are tedious
to set up (a page one byte longer than the window, a probe of the tail, a lost first segment) cheap and exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from configtron.model import nouns
from configtron.model.protocols import Wire
from configtron.probe.icw import icw
from configtron.probe.play import play
from tests.support.timed_wire import TimedWire

TARGET = nouns.Target("site.example", "192.0.2.1")


@dataclass
class FakeServer(TimedWire):
    """Settings first (times in s, sizes in bytes), then its state.

    `timer` is what the data timer is made of: Linux's "sum" of the round trip and the larger of minimum and two round
    trips, "larger" of the minimum and three round trips, or the "constant" minimum. `drop` names data segments
    (by number, from 0) lost once.
    """

    icw: int = 10
    rtt_s: float = 0.05
    page: int = 100_000
    synack_rto_s: float = 1.0
    synack_retries: int = 5
    rto_min_s: float = 0.2
    timer: str = "sum"
    window: int = 64240
    sack: bool = False
    header: int = 0
    closes: bool = True
    greeting: bytes = b"HTTP/1.1 200 OK\r\n\r\n"
    refuse: bool = False
    silent: bool = False
    think_after: int = 0
    think_s: float = 0.0
    options: tuple[tuple[int, bytes], ...] = ((nouns.OPT_MSS, (1460).to_bytes(2, "big")),)
    drop: frozenset[int] = frozenset()

    _mss: int = 536
    _tlp: bool = False
    _established: bool = False
    _answered_at: float = 0.0
    _trip_s: float = 0.0
    _asked: bool = False
    _heard: int = 1
    _sent: int = 0
    _acked: int = 0
    _data_segments: int = 0
    _paused_at: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def send(self, segment: nouns.Segment, tos: int = 0) -> nouns.Packet:
        """The script speaks; the server hears it half a round trip later and plans its answers."""
        arrival = self.now + self.rtt_s / 2
        if segment.flags & nouns.RST:
            self.due.clear()
        elif segment.flags & nouns.SYN:
            self._syn(segment, arrival)
            return self.sent(segment)
        self._trip_s = self._trip_s or arrival - self._answered_at
        if segment.length:
            self._heard = max(self._heard, segment.end)
            self._request(arrival)
        elif segment.flags & nouns.ACK:
            self._ack(segment, arrival)
        return self.sent(segment)

    def _plan(self, leaves: float, segment: nouns.Segment, kind: str = "") -> None:
        self.say(leaves + self.rtt_s / 2, segment, kind)

    def _syn(self, segment: nouns.Segment, at: float) -> None:
        if self.silent:
            return
        if self.refuse:
            self._plan(at, nouns.Segment(nouns.RST | nouns.ACK, ack=1))
            return
        self._answered_at = at
        self._mss = segment.mss or 536
        self._tlp = self.sack and segment.option(nouns.OPT_SACK_PERMITTED) is not None
        options = self.options + (((nouns.OPT_SACK_PERMITTED, b""),) if self._tlp else ())
        options += ((nouns.OPT_WSCALE, b"\x07"),) if segment.wscale is not None else ()
        answer = nouns.Segment(nouns.SYN | nouns.ACK, ack=1, window=self.window, options=options)
        self._plan(at, answer)
        delay = 0.0
        for n in range(self.synack_retries):
            delay += self.synack_rto_s * 2**n
            self._plan(at + delay, answer, "synack")

    def _request(self, at: float) -> None:
        self.cancel("synack")
        self._established = True
        if self._asked:
            return
        self._asked = True
        self._plan(at, nouns.Segment(nouns.ACK, seq=1, ack=self._heard))
        trip_s, least_s = self._trip_s, self.rto_min_s
        timers = {"sum": trip_s + max(least_s, 2 * trip_s), "larger": max(least_s, 3 * trip_s), "constant": least_s}
        rto = timers[self.timer]
        pause_s = self.think_s if self.think_after else 0.0
        fresh = self._burst(at, self.icw)
        if self._sent < self.header:
            # what the window left of the header lies in the tail that the body is appended to (tcp_sendmsg_locked())
            self.header = 0
        if not fresh:
            return
        if self._tlp and pause_s > 2 * self.rtt_s:
            # Nothing fresh to probe with while the server thinks: the last segment again.
            self._plan(at + 2 * self.rtt_s, self._piece(self._paused_at - self._mss, self._mss), "timer")
        elif self._tlp and self._sent < self.page:
            # After a single segment it waits as long as the retransmission timer (tcp_schedule_loss_probe), which is
            # set anew when it goes out (tcp_send_loss_probe).
            probed = pause_s + (rto if fresh == 1 else 2 * self.rtt_s)
            self._plan(at + probed, self._piece(self._sent, self._mss), "timer")
            at += probed
        first = self._piece(0, self._first_size())
        for n in range(4):
            self._plan(at + rto * (2 ** (n + 1) - 1), first, "timer")

    def _first_size(self) -> int:
        return (
            min(self.header % self._mss or self._mss, self.page)
            if 0 < self.header < self._mss
            else min(self._mss, self.page)
        )

    def _burst(self, at: float, segments: int) -> int:
        """Send up to so many segments; the header, if any, is written apart and ends in a short segment."""
        count = 0
        while count < segments and self._sent < self.page:
            if self.think_after and self._sent >= self.think_after:
                at, self.think_after, self._paused_at = at + self.think_s, 0, self._sent
            room = self.header - self._sent if self._sent < self.header else self.page - self._sent
            size = min(self._mss, room)
            piece = self._piece(self._sent, size)
            if self._data_segments not in self.drop:
                self._plan(at, piece, "data")
            self._data_segments += 1
            self._sent += size
            count += 1
        return count

    def _piece(self, offset: int, size: int) -> nouns.Segment:
        size = min(size, self.page - offset)
        end = offset + size
        written = end >= self.page or end == self.header or 0 < self.think_after <= end
        flags = nouns.ACK | nouns.PSH * written | (nouns.FIN if self.closes and end >= self.page else 0)
        payload = (self.greeting if offset == 0 else b"")[:size]
        return nouns.Segment(flags, seq=1 + offset, ack=self._heard, payload=payload, length=size)

    def _ack(self, segment: nouns.Segment, at: float) -> None:
        self.cancel("synack")
        self._established = True
        if segment.ack > 1:
            self.cancel("timer")
            if segment.ack - 1 >= self._sent:
                self._burst(at, 2)


def probed(wire: Wire, **params: Any) -> nouns.Trace:
    """Return what the probe of the initial window hears over the wire."""
    packets, ending = play(icw(TARGET, "agent", **params), wire)
    return nouns.Trace(
        "t", TARGET, "here", "icw", tuple(sorted({"mss": 536, **params}.items())), 0, packets, ending=ending
    )
