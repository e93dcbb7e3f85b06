# SPDX-License-Identifier: MIT
"""A set of 64-bit numbers in at most 24 bytes each, where Python's takes a hundred: which targets were met before."""

from __future__ import annotations

from array import array

# A power of two. A new set of some thousand targets never grows.
FIRST_SLOTS = 1 << 12
# Share of slots that may be in use, in thirds: beyond it, look-ups meet long chains.
THIRDS = 2
# What stands for 0, which marks a free slot; a target is taken for another one by either with a chance of 2^-64.
FOR_ZERO = (1 << 64) - 1


class HashSet:
    """Open addressing with linear steps; the numbers are hashes, so their low bits are as good as any."""

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * FIRST_SLOTS))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __contains__(self, number: int) -> bool:
        return self._slots[self._find(number or FOR_ZERO)] != 0

    def add(self, number: int) -> None:
        """Add a number."""
        number = number or FOR_ZERO
        at = self._find(number)
        if self._slots[at] == 0:
            self._slots[at] = number
            self._used += 1
            if 3 * self._used > THIRDS * len(self._slots):
                self._grow()

    def _find(self, number: int) -> int:
        """Return the slot of a number, or the free one where it would be."""
        slots, mask = self._slots, len(self._slots) - 1
        at = number & mask
        while (there := slots[at]) and there != number:
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        before = self._slots
        self._slots = array("Q", bytes(2 * len(before) * before.itemsize))
        for number in before:
            if number:
                self._slots[self._find(number)] = number
