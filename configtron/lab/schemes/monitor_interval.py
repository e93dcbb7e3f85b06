# SPDX-License-Identifier: MIT
"""Monitor intervals of PCC: what was sent at one rate within a span of time, and what became of it.

    intervals = MonitorIntervals()
    intervals.begin(now, rate, seconds)          for what is sent from now on, at this rate
    intervals.acknowledged(now, rtt, bytes)      counts in the interval in which the packet left
    for one in intervals.complete(now, rtt): one.rate, one.loss, one.rtt_gradient

An interval is complete when a packet that left after its end is acknowledged, or some round trips after its end. A
lost packet counts in the interval of the packet whose acknowledgement shows the loss, which left a few packets later.

Source     Dong and others, NSDI 2015, section 3.1; NSDI 2018, section 4.1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from configtron.lab.schemes.measured_rtt import SmoothedRtt

# So many round trips after its end an interval is complete without an acknowledgement of a later packet.
PATIENCE_ROUNDS = 3


@dataclass
class MonitorInterval:
    """What was sent at one rate, bytes a second. rtts: (departure, round trip) of each acknowledged packet, s."""

    rate: float
    begins: float
    ends: float
    arrived_bytes: int = 0
    packets: int = 0
    lost: int = 0
    rtts: list[tuple[float, float]] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """Return the share of its packets that was lost; 1 where none was acknowledged."""
        return self.lost / (self.lost + self.packets) if self.packets else 1.0

    @property
    def rtt_gradient(self) -> float:
        """Return the growth of round trips, s a second, by least squares over its packets; 0 for fewer than two."""
        count = len(self.rtts)
        mean_at, mean_rtt = (sum(values) / max(count, 1) for values in zip(*self.rtts or [(0.0, 0.0)], strict=True))
        spread = sum((at - mean_at) ** 2 for at, _ in self.rtts)
        return sum((at - mean_at) * (rtt - mean_rtt) for at, rtt in self.rtts) / spread if spread else 0.0


class MonitorIntervals:
    """The intervals that are not complete, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[MonitorInterval] = deque()
        self._left = -1.0

    @property
    def ends(self) -> float:
        """Return when the newest interval ends; -1 if there is none."""
        return self._waiting[-1].ends if self._waiting else -1.0

    def begin(self, now: float, rate: float, seconds: float) -> MonitorInterval:
        """Begin the next interval."""
        self._waiting.append(MonitorInterval(rate, now, now + seconds))
        return self._waiting[-1]

    def cut(self, now: float) -> None:
        """End the newest interval now, if it is not over."""
        self._waiting[-1].ends = min(now, self._waiting[-1].ends)

    def acknowledged(self, now: float, rtt: float, bytes: int) -> None:
        """Count an acknowledged packet."""
        left = now - rtt
        self._left = max(self._left, left)
        if one := self._of(left):
            one.arrived_bytes += bytes
            one.packets += 1
            one.rtts.append((left, rtt))

    def lost(self, count: int) -> None:
        """Count losses in the interval of the newest acknowledged packet; if it is over, in the oldest interval."""
        if one := self._of(self._left) or (self._waiting[0] if self._waiting else None):
            one.lost += count

    def complete(self, now: float, rtt: float) -> Iterator[MonitorInterval]:
        """Yield and forget the complete intervals. rtt: a smoothed round trip, seconds."""
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
        """Count the packet in its interval."""
        del delivered
        self._rtt.add(rtt)
        self._intervals.acknowledged(now, rtt, bytes)

    def on_loss(self, now: float, n: int) -> None:
        """Count the losses in their interval."""
        del now
        self._intervals.lost(n)
