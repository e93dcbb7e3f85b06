"""A clock that no step of the wall clock moves, and the kernel's receive stamps converted to it.

Question   When did a packet come, if the kernel stamps it with the wall clock (SO_TIMESTAMPNS, TPACKET), and somebody
           may set that clock meanwhile?
Method     Time is CLOCK_MONOTONIC, shown as nanoseconds since the epoch by the wall clock's offset at the start. The
           offset is measured again after each batch of stamps was received: between two readings of the monotonic
           clock. NTP slews both clocks alike, so an offset outside of that bracket is a step. Each offset holds for a
           span of time; a stamp is converted by the span that it falls into.
Reads as   the time of a stamp, and whether it is sure.
Fails as   not sure: two spans fit (the step was smaller than the time that the packet may have waited), or none (two
           steps between two measurements). Who receives such a stamp taints what he reads from it ("clock-step").
Source     clock_gettime(2), adjtimex(2); Documentation/networking/timestamping.rst; net/core/dev.c (net_timestamp_set)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple

# What a stamp may seem to lie outside of the time in which it must have been made: it is made in the interrupt, a
# moment before the packet is in our buffer.
GRACE_NS = 1_000_000
# Two clocks are read one after the other: an offset that differs by less was not stepped.
SLACK_NS = 2_000
# A measurement that was interrupted is repeated so often, until it is as narrow as this.
TRIES, NARROW_NS = 4, 20_000
# Spans that are remembered: as many steps as could come while packets wait in a buffer.
REMEMBERED = 16


class Span(NamedTuple):
    """The least and largest offset that the wall clock can have had, and the earliest and latest time it held (ns)."""

    low_ns: int
    high_ns: int
    first_ns: float
    last_ns: float = inf

    @property
    def offset_ns(self) -> int:
        """The offset, as well as it is known."""
        return (self.low_ns + self.high_ns) // 2


class SteadyClock:
    """Nanoseconds since the epoch, that only go forward. Used from one thread."""

    def __init__(
        self, monotonic_ns: Callable[[], int] = time.monotonic_ns, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._monotonic_ns, self._wall_ns = monotonic_ns, wall_ns
        self._base_ns = 0
        self._spans = [Span(*self._measured(), -inf)]
        self._base_ns = self._spans[0].offset_ns
        # No later step was seen then.
        self._measured_ns = self.now_ns()

    def now_ns(self) -> int:
        """The time."""
        return self._monotonic_ns() + self._base_ns

    def measure(self) -> bool:
        """Compare with the wall clock, after stamps were received and before they are converted; True: it was set."""
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
        """A stamp of the wall clock on this clock, and whether that is sure.

        since_ns   the packet was stamped after that: its buffer was empty then
        """
        shift_ns = self.shift_ns(since_ns)
        if shift_ns is not None:
            return stamp_ns + shift_ns, True
        found = [at for span in self._spans if (at := self._within(span, stamp_ns, since_ns)) is not None]
        return (max(found), len(found) == 1) if found else (self.now_ns(), False)

    def shift_ns(self, since_ns: float) -> int | None:
        """What turns any stamp made since then into this clock's time; None if the wall clock was set meanwhile."""
        newest = self._spans[-1]
        return self._base_ns - newest.offset_ns if newest.first_ns <= since_ns - GRACE_NS else None

    def _within(self, span: Span, stamp_ns: int, since_ns: float) -> int | None:
        """A stamp by the offset of a span, if it was made while that held."""
        at_ns = stamp_ns - span.offset_ns + self._base_ns
        first, last = max(since_ns, span.first_ns), min(span.last_ns, self.now_ns())
        return at_ns if first - GRACE_NS <= at_ns <= last + GRACE_NS else None

    def _measured(self) -> tuple[int, int]:
        """The least and the largest offset of the wall clock."""
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
