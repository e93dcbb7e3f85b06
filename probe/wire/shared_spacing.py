# SPDX-License-Identifier: MIT
"""Rate limits and addresses of a campaign that several processes perform: one table in shared memory.

Question   May a connection to this address start now, if other processes start connections as well?
Method     The timetable of `probe/spacing.py` in cells that all processes map, changed under one lock. A start counts
           as promised from its admission until it has surely left, so that no other process can start into the same
           second behind its back. Hosts, networks and places have no keys: a cell is found by a hash.
Promise    That of `probe/spacing.py`, for the packets of all processes together. Two hosts of one cell share its limit:
           they may wait for each other, and never go too fast.
Killed     The lock goes with its process (`linux/shared_memory.py`), and each change is written so that the half of it
           allows less, not more. `bury` counts what a dead process had promised as gone just now, and frees its places.
"""

from __future__ import annotations

from math import floor, inf
from typing import NamedTuple, Self
from zlib import crc32

from configtron.linux.shared_memory import DOUBLE_BYTES, SharedMemory
from configtron.probe.spacing import CATCH_UP_S, WINDOW_S, WINDOW_SLACK_S, interval_s, network_of

# Cells of hosts, and of networks: of 5000 that wait, one in two hundred shares its cell with another.
KEYS = 1 << 20
# Cells of addresses with a connection under way; a held handshake keeps its own for a minute.
PLACES = 1 << 22
# After so long a process looks again whether another one has let go of what it waits for, s.
LOOK_AGAIN_S = 0.005


class SharedLimits(NamedTuple):
    """Starts per second (0: no limit) of all processes together, and how many processes there are."""

    rate_per_s: float
    host_rate_per_s: float
    network_rate_per_s: float
    workers: int

    @property
    def starts(self) -> int:
        """Return the most starts that one second may hold."""
        return max(floor(self.rate_per_s), 1)

    @property
    def size(self) -> int:
        """Return the bytes of the table."""
        return (self.workers + 2 + self.starts + 2 * KEYS) * DOUBLE_BYTES + PLACES


class SharedPace:
    """`Pace` in cells: what each process has promised, when the next start is allowed, and when the last ones had left.

    Each call but `open_at` wants the lock. worker   number of this process, from 0
    """

    def __init__(
        self,
        limits: SharedLimits,
        promised: memoryview[float],
        head: memoryview[float],
        left: memoryview[float],
        worker: int,
    ) -> None:
        self._interval_s, self._most, self._worker = interval_s(limits.rate_per_s), limits.starts, worker
        # head: when the next start is allowed; how many have left. left: a ring, in the order of time.
        self._promised, self._head, self._left = promised, head, left

    def free_at(self) -> float:
        """Return when the next start is allowed; infinity while promised ones have to go first."""
        return inf if self._interval_s and sum(self._promised) >= self._most else self.next_turn()

    def next_turn(self) -> float:
        """Return the next time that is free, in s."""
        if not self._interval_s:
            return 0.0
        room = self._most - int(sum(self._promised))
        full = self._left[(int(self._head[1]) - room) % self._most] if room > 0 else -inf
        return max(self._head[0], full + WINDOW_S + WINDOW_SLACK_S)

    def take(self, at: float) -> None:
        """Take a turn now."""
        if self._interval_s:
            self._promised[self._worker] += 1
            late = self._head[0] if at - self._head[0] < CATCH_UP_S else at
            self._head[0] = late + self._interval_s

    def promise(self, at: float) -> None:
        """Reserve a turn that lies ahead."""
        if self._interval_s:
            self._promised[self._worker] += 1
            self._head[0] = at + self._interval_s

    def settled(self, at: float | None) -> None:
        """Note that a start had gone by then, or was not needed after all."""
        if self._interval_s:
            if at is not None:
                self._note(at)
            self._promised[self._worker] -= 1

    def bury(self, worker: int, now: float) -> None:
        """Count all that a process had promised as gone."""
        while self._promised[worker] > 0:
            self._note(now)
            self._promised[worker] -= 1

    def _note(self, at: float) -> None:
        left, most, end = self._left, self._most, int(self._head[1])
        if at <= left[end % most]:
            # Older than all that are kept.
            return
        place = end
        while end - place < most - 1 and left[(place - 1) % most] > at:
            left[place % most] = left[(place - 1) % most]
            place -= 1
        left[place % most] = at
        self._head[1] = end + 1


class SharedCircle:
    """One limit for each key, in cells that hold when the next start is allowed. `take` wants the lock."""

    def __init__(self, rate_per_s: float, cells: memoryview[float]) -> None:
        self.interval_s, self._cells = interval_s(rate_per_s), cells

    def free_at(self, key: str) -> float:
        """Return when the next start is allowed."""
        return self._cells[crc32(key.encode()) % KEYS] if self.interval_s else 0.0

    def take(self, key: str, at: float) -> None:
        """Count a start."""
        if self.interval_s:
            self._cells[crc32(key.encode()) % KEYS] = at + self.interval_s


class SharedSpacing:
    """The limits and places of a campaign, as process number `worker` (from 0) uses them: `Spacing` for several.

    Times are seconds of one clock of all processes.
    """

    def __init__(self, memory: SharedMemory, limits: SharedLimits, worker: int) -> None:
        self._memory, self._limits, self._worker = memory, limits, worker
        at, promised = 0, memory.doubles(0, limits.workers)
        at += limits.workers * DOUBLE_BYTES
        head, left = memory.doubles(at, 2), memory.doubles(at + 2 * DOUBLE_BYTES, limits.starts)
        self._pace = SharedPace(limits, promised, head, left, worker)
        at += (2 + limits.starts) * DOUBLE_BYTES
        self._hosts = SharedCircle(limits.host_rate_per_s, memory.doubles(at, KEYS))
        self._networks = SharedCircle(limits.network_rate_per_s, memory.doubles(at + KEYS * DOUBLE_BYTES, KEYS))
        self._places = memory.octets(at + 2 * KEYS * DOUBLE_BYTES, PLACES)
        self._mine: dict[int, tuple[str, str, bool]] = {}
        self._refused_at = 0.0

    @classmethod
    def made(cls, limits: SharedLimits) -> Self:
        """Make the table, for the process that starts the others."""
        return cls(SharedMemory.made(limits.size), limits, 0)

    @property
    def descriptor(self) -> int:
        """Return what another process opens the table by (`joined`)."""
        return self._memory.descriptor

    @classmethod
    def joined(cls, descriptor: int, limits: SharedLimits, worker: int) -> Self:
        """Open the table that another process has made."""
        return cls(SharedMemory(descriptor, limits.size), limits, worker)

    def close(self) -> None:
        """Let go of the table."""
        self._memory.close()

    def open_at(self) -> float:
        """Return about when a connection may start: `admit` decides."""
        free_at = self._pace.free_at()
        return self._refused_at + LOOK_AGAIN_S if free_at == inf else free_at

    def admit(self, address: str, now: float) -> float:
        """Take the turn in every circle and return 0.0 (call `left` once it has gone), or return when to ask again."""
        with self._memory:
            free_at = max(self._pace.free_at(), self._local(address))
            if now >= free_at:
                self._pace.take(now)
                self._take_local(address, now)
                return 0.0
        self._refused_at = now
        return now + LOOK_AGAIN_S if free_at == inf else free_at

    def left(self, at: float) -> None:
        """Note that the admitted start had gone by then."""
        self.settled(at)

    def book(self, address: str, now: float) -> float:
        """Take the next turn, now or later, and return its time (call `settled` once it has gone, or is not needed)."""
        with self._memory:
            at = max(self._pace.next_turn(), self._local(address), now)
            self._pace.promise(at)
            self._take_local(address, at)
        return at

    def settled(self, at: float | None) -> None:
        """The start had gone by then; None: it was not needed."""
        with self._memory:
            self._pace.settled(at)

    def claim(self, place: tuple[str, str, bool]) -> bool:
        """Take a place, unless it, or another one of its cell, is taken."""
        cell = _cell(place)
        if cell in self._mine:
            return self._mine[cell] == place
        with self._memory:
            if self._places[cell]:
                return False
            self._places[cell] = self._worker + 1
        self._mine[cell] = place
        return True

    def release(self, place: tuple[str, str, bool]) -> None:
        """Leave a place, if it was taken."""
        cell = _cell(place)
        if self._mine.get(cell) == place:
            del self._mine[cell]
            self._places[cell] = 0

    def bury(self, worker: int, now: float) -> None:
        """Settle what process number `worker`, which has ended, left behind."""
        mark = bytes((worker + 1,))
        with self._memory:
            self._pace.bury(worker, now)
            taken, cell = bytes(self._places), -1
            while (cell := taken.find(mark, cell + 1)) >= 0:
                self._places[cell] = 0

    def _local(self, address: str) -> float:
        free_at = self._hosts.free_at(address)
        return max(free_at, self._networks.free_at(network_of(address))) if self._networks.interval_s else free_at

    def _take_local(self, address: str, at: float) -> None:
        self._hosts.take(address, at)
        if self._networks.interval_s:
            self._networks.take(network_of(address), at)


def _cell(place: tuple[str, str, bool]) -> int:
    return crc32(repr(place).encode()) % PLACES
