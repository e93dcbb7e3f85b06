# SPDX-License-Identifier: MIT
"""Round-trip times as schemes use them: smoothed, and the least of a window of time.

    rtt = SmoothedRtt()
    rtt.add(0.031); rtt.smoothed_s, rtt.timeout_s
    least = WindowedMinimum(10.0)
    least.add(now, 0.031) -> the least of the last ten seconds

Source     RFC 6298, section 2 (smoothing)
"""

from __future__ import annotations

from collections import deque
from math import inf

from configtron.lab.schemes.scheme import FIRST_RTT_S

# RFC 6298: gains of the smoothed time and of its variation, and how many variations a timeout waits.
ALPHA, BETA, VARIATIONS = 1 / 8, 1 / 4, 4
# Linux's shortest timeout (TCP_RTO_MIN).
LEAST_TIMEOUT_S = 0.2
FIRST_TIMEOUT_S = 1.0


class SmoothedRtt:
    """latest_s: of the newest packet; least_s: of all packets; `inf` before the first."""

    def __init__(self) -> None:
        self.latest_s = self.least_s = inf
        self.smoothed_s = FIRST_RTT_S
        self._variation_s = 0.0

    def add(self, rtt: float) -> None:
        """Add a packet's round-trip time."""
        if self.latest_s == inf:
            self.smoothed_s, self._variation_s = rtt, rtt / 2
        else:
            self._variation_s += BETA * (abs(self.smoothed_s - rtt) - self._variation_s)
            self.smoothed_s += ALPHA * (rtt - self.smoothed_s)
        self.latest_s = rtt
        self.least_s = min(self.least_s, rtt)

    @property
    def timeout_s(self) -> float:
        """How long to wait for any acknowledgement."""
        if self.latest_s == inf:
            return FIRST_TIMEOUT_S
        return max(LEAST_TIMEOUT_S, self.smoothed_s + VARIATIONS * self._variation_s)


class WindowedMinimum:
    """The least value of the last `span_s` seconds: a queue of values that only ascend."""

    def __init__(self, span_s: float) -> None:
        self.span_s = span_s
        self._ascending: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> float:
        """Add a value, forget those that are too old, return the least."""
        kept = self._ascending
        while kept and kept[-1][1] >= value:
            kept.pop()
        kept.append((now, value))
        while kept[0][0] < now - self.span_s:
            kept.popleft()
        return kept[0][1]
