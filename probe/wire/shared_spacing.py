# SPDX-License-Identifier: MIT
"""The limits of a campaign that several processes perform: the cells of `probe/spacing.py` in shared memory.

Question   May a connection to this address start now, if other processes start connections as well?
Method     All processes map the same cells and change them under one lock. A start counts as promised from its
           admission until it has surely left, so that no other process can start into the same second behind its back.
           Hosts, networks and places have no keys: a cell is found by a hash. Two hosts of one cell share its limit:
           they may wait for each other, and never go too fast.
Killed     The lock goes with its process (`linux/shared_memory.py`), and each change is written so that the half of it
           allows less, not more. `bury` counts what a dead process had promised as gone just now, and frees its places.
"""

from __future__ import annotations

from typing import NamedTuple, Self
from zlib import crc32

from configtron.linux.shared_memory import DOUBLE_BYTES, SharedMemory
from configtron.probe.spacing import Circle, Pace, Place, Spacing, most_starts

# Cells of hosts, and of networks: of 5000 that wait, one in two hundred shares its cell with another.
KEYS = 1 << 20
# Cells of addresses with a connection under way; a held handshake keeps its own for a minute. A cell has one byte: 0,
# or the number of the process that is there, from 1.
PLACES = 1 << 22


class SharedLimits(NamedTuple):
    """Starts per second (0: no limit) of all processes together, and how many processes there are."""

    rate_per_s: float
    host_rate_per_s: float
    network_rate_per_s: float
    processes: int

    @property
    def size(self) -> int:
        """Return the bytes of the table."""
        return (self.processes + 2 + most_starts(self.rate_per_s) + 2 * KEYS) * DOUBLE_BYTES + PLACES


class SharedCircle(Circle):
    """One limit for each key, in cells that hold when the next start is allowed."""

    def __init__(self, rate_per_s: float, cells: memoryview[float]) -> None:
        super().__init__(rate_per_s)
        self._cells = cells

    def free_at(self, key: str) -> float:
        return self._cells[crc32(key.encode()) % KEYS] if self.interval_s else 0.0

    def take(self, key: str, at: float) -> None:
        if self.interval_s:
            self._cells[crc32(key.encode()) % KEYS] = at + self.interval_s


class SharedSpacing(Spacing):
    """The limits and places as process number `process` (from 0) uses them. Times are of one clock of all processes."""

    look_again_s = 0.005

    def __init__(self, memory: SharedMemory, limits: SharedLimits, process: int) -> None:
        counts = (limits.processes, 2, most_starts(limits.rate_per_s), KEYS, KEYS)
        starts = [DOUBLE_BYTES * sum(counts[:n]) for n in range(len(counts) + 1)]
        promised, head, left, hosts, networks = map(memory.doubles, starts, counts)
        self._memory, self._process, self._places = memory, process, memory.octets(starts[-1], PLACES)
        self._mine: dict[int, Place] = {}
        pace = Pace(limits.rate_per_s, promised, head, left, process)
        circles = SharedCircle(limits.host_rate_per_s, hosts), SharedCircle(limits.network_rate_per_s, networks)
        self._limit_by(pace, *circles, memory)

    @classmethod
    def made(cls, limits: SharedLimits) -> Self:
        """Make the table, for the process that starts the others."""
        return cls(SharedMemory.made(limits.size), limits, 0)

    @classmethod
    def joined(cls, descriptor: int, limits: SharedLimits, process: int) -> Self:
        """Open the table that another process has made."""
        return cls(SharedMemory(descriptor, limits.size), limits, process)

    @property
    def descriptor(self) -> int:
        """Return what another process opens the table by (`joined`)."""
        return self._memory.descriptor

    def close(self) -> None:
        """Let go of the table."""
        self._memory.close()

    def claim(self, place: Place) -> bool:
        """Take a place, unless it, or another one of its cell, is taken."""
        cell = _cell(place)
        if cell in self._mine:
            return self._mine[cell] == place
        with self._memory:
            if self._places[cell]:
                return False
            self._places[cell] = self._process + 1
        self._mine[cell] = place
        return True

    def release(self, place: Place) -> None:
        """Leave a place, if it was taken."""
        cell = _cell(place)
        if self._mine.get(cell) == place:
            del self._mine[cell]
            self._places[cell] = 0

    def bury(self, process: int, now: float) -> None:
        """Settle what process number `process`, which has ended, left behind."""
        mark = bytes((process + 1,))
        with self._memory:
            self._pace.bury(process, now)
            taken, cell = bytes(self._places), -1
            while (cell := taken.find(mark, cell + 1)) >= 0:
                self._places[cell] = 0


def _cell(place: Place) -> int:
    return crc32(repr(place).encode()) % PLACES
