# SPDX-License-Identifier: MIT
"""A monotonic clock that reads as nanoseconds since the epoch, and kernel receive timestamps converted to it.

Question   When did a packet arrive, if the kernel stamps it by the wall clock (SO_TIMESTAMPNS, TPACKET), and a program
           may set the wall clock while packets wait in the buffer?
Method     Time is CLOCK_MONOTONIC plus a constant: the wall clock's offset at the start. The offset is measured again
           after each batch of packets, by a reading of the wall clock between two of the monotonic clock, which bound
           it from below and above. NTP slews both clocks alike, so an offset outside the earlier bounds is a step.
           Each offset is valid for a span of time; a timestamp is converted by the offset of the span it falls into.
Reads as   the time of a packet, and whether it is certain.
Fails as   uncertain: two spans fit (the step was smaller than the time that the packet may have waited), or none does
           (two steps between two measurements). The caller then taints the trial with the reason "clock-step".
Source     clock_gettime(2), adjtimex(2); Documentation/networking/timestamping.rst; net/core/dev.c (net_timestamp_set)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple

# Tolerance at both ends of a span: the interrupt handler stamps a packet a moment before our buffer holds it.
GRACE_NS = 1_000_000
# Tolerance between two offsets: the clocks are read one after the other, so a smaller difference is no step.
SLACK_NS = 2_000
# A measurement is repeated up to TRIES times until its bounds are at most NARROW_NS apart: it may be interrupted.
TRIES, NARROW_NS = 4, 20_000
# The newest spans are kept: more steps than this do not happen while packets wait in a buffer.
REMEMBERED = 16


class Span(NamedTuple):
    """Bounds of the wall clock's offset from the monotonic clock, and the first and last time it was valid (ns)."""

    low_ns: int
    high_ns: int
    first_ns: float
    last_ns: float = inf

    @property
    def offset_ns(self) -> int:
        """Return the middle of the bounds (ns)."""
        return (self.low_ns + self.high_ns) // 2


class SteadyClock:
    """Nanoseconds since the epoch that never go back, even if the wall clock is set. Not thread-safe.

    base_ns   what this clock adds to the monotonic one; clocks of the same base, in any process, show the same time
    """

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
        *,
        base_ns: int | None = None,
    ) -> None:
        self._monotonic_ns, self._wall_ns = monotonic_ns, wall_ns
        self.base_ns = 0
        self._spans = [Span(*self._measured(), -inf)]
        self.base_ns = self._spans[0].offset_ns if base_ns is None else base_ns
        # When the newest measurement began: a step that the next one finds came after it.
        self._measured_ns = self.now_ns()

    def now_ns(self) -> int:
        """Return the time (ns since the epoch)."""
        return self._monotonic_ns() + self.base_ns

    def measure(self) -> bool:
        """Measure the wall clock's offset; return whether the wall clock was stepped since the last call.

        Call it after a batch of packets was received and before its timestamps are converted.
        """
        began_ns, newest = self.now_ns(), self._spans[-1]
        low, high = self._measured()
        stepped = low > newest.high_ns + SLACK_NS or high < newest.low_ns - SLACK_NS
        if stepped:
            self._spans[-1] = newest._replace(last_ns=self.now_ns())
            self._spans.append(Span(low, high, self._measured_ns))
            del self._spans[:-REMEMBERED]
        elif high - low < newest.high_ns - newest.low_ns:
            self._spans[-1] = newest._replace(low_ns=low, high_ns=high)
        self._measured_ns = began_ns
        return stepped

    def steady_ns(self, stamp_ns: int, since_ns: float) -> tuple[int, bool]:
        """Return a wall-clock timestamp as a time of this clock (ns), and whether that is certain.

        since_ns   when the packet's buffer was last empty, on this clock: the packet was stamped later
        """
        shift_ns = self.shift_ns(since_ns)
        if shift_ns is not None:
            return stamp_ns + shift_ns, True
        found = [at for span in self._spans if (at := self._within(span, stamp_ns, since_ns)) is not None]
        return (max(found), len(found) == 1) if found else (self.now_ns(), False)

    def shift_ns(self, since_ns: float) -> int | None:
        """Return what to add to timestamps made after `since_ns` (ns); None if the wall clock was stepped since."""
        newest = self._spans[-1]
        return self.base_ns - newest.offset_ns if newest.first_ns <= since_ns - GRACE_NS else None

    def _within(self, span: Span, stamp_ns: int, since_ns: float) -> int | None:
        """Return the timestamp converted by the offset of a span (ns); None if that time is outside the span."""
        at_ns = stamp_ns - span.offset_ns + self.base_ns
        first, last = max(since_ns, span.first_ns), min(span.last_ns, self.now_ns())
        return at_ns if first - GRACE_NS <= at_ns <= last + GRACE_NS else None

    def _measured(self) -> tuple[int, int]:
        """Return the lower and upper bound of the wall clock's offset (ns)."""
        low, high = -inf, inf
        for _ in range(TRIES):
            before = self._monotonic_ns()
            wall = self._wall_ns()
            after = self._monotonic_ns()
            if after - before < high - low:
                low, high = wall - after, wall - before
            if high - low <= NARROW_NS:
                break
        return int(low), int(high)
