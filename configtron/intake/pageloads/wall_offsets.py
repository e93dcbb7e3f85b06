# SPDX-License-Identifier: MIT
"""The wall clock at a time of CLOCK_BOOTTIME: as it was then, also where it was stepped since."""

from __future__ import annotations

from collections import deque

# Changes of the wall clock that are remembered, and how far it moves before one is (ns): of a clock that is slewed by
# 500 parts in a million, fourteen hours.
OFFSETS, LEAST_NS = 256, 100_000_000


class WallOffsets:
    """What the wall clock was ahead of CLOCK_BOOTTIME, from when on; before the first reading, as at that."""

    def __init__(self) -> None:
        self._offsets: deque[tuple[int, int]] = deque(maxlen=OFFSETS)

    def read(self, boot_ns: int, wall_ns: int) -> None:
        """Take a reading of both clocks, ns."""
        offset_ns = wall_ns - boot_ns
        if not self._offsets or abs(offset_ns - self._offsets[-1][1]) >= LEAST_NS:
            self._offsets.append((boot_ns, offset_ns))

    def wall_ns(self, boot_ns: int) -> int:
        """Return the wall clock at a time of CLOCK_BOOTTIME, ns; that time itself where no clock was read."""
        if not self._offsets:
            return boot_ns
        before = (offset_ns for since_ns, offset_ns in reversed(self._offsets) if since_ns <= boot_ns)
        return boot_ns + next(before, self._offsets[0][1])
