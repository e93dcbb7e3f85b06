# SPDX-License-Identifier: MIT
"""A wire in virtual time whose other end says what is due."""

from __future__ import annotations

import heapq
from itertools import count

from configtron.model.nouns import Packet, Segment


class TimedWire:
    """`due`: (when, in the order of planning, what is cancelled together, segment, its time to live)."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.due: list[tuple[float, int, str, Segment, int]] = []
        self._planned, self._frames = count(), count()

    def say(self, at: float, segment: Segment, kind: str = "", ttl: int = 64) -> None:
        heapq.heappush(self.due, (at, next(self._planned), kind, segment, ttl))

    def cancel(self, kind: str) -> None:
        self.due = [item for item in self.due if item[2] != kind]
        heapq.heapify(self.due)

    def sent(self, segment: Segment, tos: int = 0) -> Packet:
        return Packet(self.now, "out", segment, next(self._frames), tos=tos)

    def heard(self, at: float, segment: Segment, ttl: int = 64) -> Packet:
        self.now = max(self.now, at)
        return Packet(at, "in", segment, next(self._frames), ttl=ttl)

    def receive(self, until: float) -> Packet | None:
        """Return what is due next, if it is by then."""
        if not self.due or self.due[0][0] > until:
            self.now = max(self.now, until)
            return None
        at, _, _, segment, ttl = heapq.heappop(self.due)
        return self.heard(at, segment, ttl)
