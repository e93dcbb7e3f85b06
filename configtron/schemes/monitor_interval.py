# SPDX-License-Identifier: MIT
"""Monitor intervals, as both PCCs have them: what was sent within a span at one rate, and what became of it.

    intervals = MonitorIntervals()
    intervals.begin(now, rate, seconds)          of what is sent from now on, at a rate
    intervals.acknowledged(now, rtt, bytes)      counted where the packet left
    for one in intervals.complete(now): one.rate, one.throughput, one.loss, one.rtt_gradient

An interval is complete when a packet that left after its end is acknowledged, or when none has been for long. A lost
packet is counted where the packet left whose acknowledgement shows it: at most three packets later.

Source     Dong and others, NSDI 2015, section 3.1; NSDI 2018, section 4.1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from configtron.schemes.measured_rtt import SmoothedRtt

# Silence for so many round trips after an interval's end: its packets are lost, its acknowledgements too.
PATIENCE_ROUNDS = 3


@dataclass
class MonitorInterval:
    """rate: bytes a second while it lasted."""

    rate: float
    begins: float
    ends: float
    arrived_bytes: int = 0
    packets: int = 0
    lost: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    rtts: list[tuple[float, float]] = field(default_factory=list)

    @property
    def throughput(self) -> float:
        """Bytes a second that arrived of what was sent in it."""
        return self.arrived_bytes / (self.ends - self.begins)

    @property
    def loss(self) -> float:
        """The share of its packets that is lost; all where none was acknowledged."""
        return self.lost / (self.lost + self.packets) if self.packets else 1.0

    @property
    def rtt_gradient(self) -> float:
        """Seconds of round trip a second, by least squares over its packets; 0 for fewer than two."""
        count = len(self.rtts)
        mean_at, mean_rtt = (sum(values) / max(count, 1) for values in zip(*self.rtts or [(0.0, 0.0)], strict=True))
        spread = sum((at - mean_at) ** 2 for at, _ in self.rtts)
        return sum((at - mean_at) * (rtt - mean_rtt) for at, rtt in self.rtts) / spread if spread else 0.0


class MonitorIntervals:
    """Those that are under way, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[MonitorInterval] = deque()
        self._left = -1.0

    @property
    def ends(self) -> float:
        """When the newest ends; before everything if there is none."""
        return self._waiting[-1].ends if self._waiting else -1.0

    def begin(self, now: float, rate: float, seconds: float) -> MonitorInterval:
        """Begin the next one."""
        self._waiting.append(MonitorInterval(rate, now, now + seconds))
        return self._waiting[-1]

    def acknowledged(self, now: float, rtt: float, bytes: int) -> None:
        """Count a packet."""
        left = now - rtt
        self._left = max(self._left, left)
        if one := self._of(left):
            one.arrived_bytes += bytes
            one.packets += 1
            one.rtts.append((left, rtt))

    def lost(self, count: int) -> None:
        """Count losses with the newest packet that was acknowledged, or, in silence, with the oldest interval."""
        if one := self._of(self._left) or (self._waiting[0] if self._waiting else None):
            one.lost += count

    def complete(self, now: float, rtt: float) -> Iterator[MonitorInterval]:
        """Yield and forget those of which no more will come."""
        while self._waiting and (
            self._left >= self._waiting[0].ends or now > self._waiting[0].ends + PATIENCE_ROUNDS * rtt
        ):
            yield self._waiting.popleft()

    def _of(self, left: float) -> MonitorInterval | None:
        return next((one for one in self._waiting if one.begins <= left < one.ends), None)


class RateTrials:
    """A scheme that compares rates by trying them: its round trip and intervals, which every acknowledgement and loss
    counts for."""

    def __init__(self) -> None:
        self._rtt = SmoothedRtt()
        self._intervals = MonitorIntervals()

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Count it in its interval."""
        del delivered
        self._rtt.add(rtt)
        self._intervals.acknowledged(now, rtt, bytes)

    def on_loss(self, now: float, n: int) -> None:
        """Count it in its interval."""
        del now
        self._intervals.lost(n)
