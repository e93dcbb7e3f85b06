# SPDX-License-Identifier: MIT
"""Connections that no log line asked for yet, as the kernel wrote their records.

Of five thousand connections a second each is taken, found when a line asks for it, and forgotten in time, mostly
without a step of the interpreter of its own. Only ends that one connection has are here: whatever is not that simple,
`Lifetimes` unpacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import NamedTuple

from configtron.model.close_records import PackedRecords, Unpacker


class PackedConnection(NamedTuple):
    """Records of one connection; `closed` None: it is open, as far as records show."""

    opened: bytes
    closed: bytes | None


class PackedConnections:
    """Connections by their ends, all of one unpacker."""

    def __init__(self, unpacker: Unpacker) -> None:
        self.unpacker = unpacker
        self._opened: dict[bytes, bytes] = {}
        self._closed: dict[bytes, bytes] = {}
        self._ended: deque[tuple[int, list[bytes], list[bytes]]] = deque()

    def __len__(self) -> int:
        return len(self._opened)

    def __iter__(self) -> Iterator[bytes]:
        return iter(tuple(self._opened))

    def among(self, ends: Iterable[bytes]) -> set[bytes]:
        """Return which of these ends are here."""
        return set() if self._opened.keys().isdisjoint(ends) else {one for one in ends if one in self._opened}

    def add(self, opened: dict[bytes, bytes]) -> None:
        """Take open records by their ends, none of which is here."""
        self._opened.update(opened)

    def close(self, packed: PackedRecords) -> list[int]:
        """Take the ends of connections that are here; return the places of all other close records."""
        ends = packed.closed_ends
        found, closed, odd = list(map(self._opened.get, ends)), packed.closed, list[int]()
        if found != packed.closed_begun or not self._closed.keys().isdisjoint(ends):
            odd = [at for at, one in enumerate(ends) if found[at] != packed.closed_begun[at] or one in self._closed]
            left = sorted(set(range(len(ends))).difference(odd))
            ends, closed = [ends[at] for at in left], [closed[at] for at in left]
        self._closed.update(zip(ends, closed, strict=True))
        self._ended.append((packed.until_ns, ends, closed))
        return odd

    def take(self, ends: bytes) -> PackedConnection | None:
        """Return the connection of these ends, which is not here any more; None: there is none."""
        opened = self._opened.pop(ends, None)
        return None if opened is None else PackedConnection(opened, self._closed.pop(ends, None))

    def forget(self, number: int) -> None:
        """Forget so many of the oldest connections."""
        for ends in list(islice(self._opened, number)):
            self.take(ends)

    def expire(self, least_ns: int) -> None:
        """Forget connections that ended by then."""
        while self._ended and self._ended[0][0] <= least_ns:
            _, ends, closed = self._ended.popleft()
            if list(map(self._closed.get, ends)) != closed:
                # Another connection may have these ends by now.
                ends = [one for one, record in zip(ends, closed, strict=True) if self._closed.get(one) is record]
            for known in (self._closed, self._opened):
                deque(map(known.pop, ends, repeat(None)), maxlen=0)
