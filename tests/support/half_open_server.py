# SPDX-License-Identifier: MIT
"""A listening socket in virtual time, as Linux keeps half-open connections, behind a path that loses packets by seed.

timer      base << number of timeouts, up to an eighth late (the wheel); a repeated SYN is answered and starts it
           anew
forgetting after the last retry's wait, without a word; or by a RST
cookies    nothing is kept; the sequence number is computed from the SYN and the minute
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from random import Random

from configtron.model.nouns import ACK, OPT_MSS, RST, SYN, Packet, Segment
from tests.support.timed_wire import TimedWire


@dataclass
class HalfOpenServer(TimedWire):
    """Settings first (times in s, losses as shares), then its state."""

    rtt_s: float = 0.05
    rto_s: float = 1.0
    retries: int = 5
    linear: bool = False
    cookies: bool = False
    copies: int = 1
    resets: bool = False
    loss: float = 0.0
    wheel: float = 0.06
    random: Random = field(default_factory=lambda: Random(1))
    begun: float = 0.0

    _alive: bool = False
    _number: int = 0
    _generation: int = 0
    _timeouts: int = 0
    synacks: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.begun)

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        if self.random.random() >= self.loss:
            self.say(self.now + self.rtt_s / 2, segment, "in")
        return self.sent(segment)

    def receive(self, until: float) -> Packet | None:
        while self.due and self.due[0][0] <= until:
            at, _, kind, segment, _ = heapq.heappop(self.due)
            self.now = max(self.now, at)
            if kind == "out":
                return self.heard(at, segment)
            if kind == "in":
                self._hear(segment, at)
            elif kind == str(self._generation):
                self._timeout(at)
        self.now = max(self.now, until)
        return None

    def _hear(self, segment: Segment, at: float) -> None:
        if segment.flags & RST:
            self._alive = False
            self._generation += 1
        elif segment.flags & SYN and self.cookies:
            self._number = int(at / 60) * (1 << 24)
            self._answer(at)
        elif segment.flags & SYN:
            if not self._alive:
                self._number = int(at * 1e6)
                self._alive, self._timeouts = True, 0
            self._answer(at)
            self._arm(at)

    def _arm(self, at: float) -> None:
        self._generation += 1
        wait_s = self.rto_s * (1 if self.linear else 2**self._timeouts)
        late = 1 + self.random.random() * self.wheel
        self.say(at + wait_s * late, Segment(SYN), str(self._generation))

    def _timeout(self, at: float) -> None:
        if self._timeouts == self.retries:
            self._alive = False
            if self.resets:
                self._answer_with(at, Segment(RST | ACK, seq=1, ack=1))
            return
        self._timeouts += 1
        self._answer(at)
        self._arm(at)

    def _answer(self, at: float) -> None:
        options = ((OPT_MSS, (1460).to_bytes(2, "big")),)
        self.synacks += 1
        for n in range(self.copies):
            self._answer_with(at + 0.02 * n, Segment(SYN | ACK, seq=self._number, ack=1, options=options))

    def _answer_with(self, at: float, segment: Segment) -> None:
        if self.random.random() >= self.loss:
            self.say(at + self.rtt_s / 2, segment, "out")


class Relative:
    """The wire around it: numbers relative to the first SYN-ACK heard, as `probe/wire/frames.py` makes them."""

    def __init__(self, server: HalfOpenServer) -> None:
        self.server = server
        self._base: int | None = None

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        return self.server.send(segment)

    def receive(self, until: float) -> Packet | None:
        packet = self.server.receive(until)
        if packet is None or not packet.segment.flags & SYN:
            return packet
        if self._base is None:
            self._base = packet.segment.seq
        return packet._replace(segment=packet.segment._replace(seq=packet.segment.seq - self._base))
