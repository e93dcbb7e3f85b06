# SPDX-License-Identifier: MIT
"""Read a BPF ring buffer (BPF_MAP_TYPE_RINGBUF): the records that wait, each once, in the order of their beginning.

The map's memory is shared with the kernel: a page with the reader's position, a page with the writers' position, and
the data, mapped twice in a row so that a record never wraps. A record has a head of eight bytes, whose first word is
its length and two flags: the writer still fills it, or has discarded it. One reader at a time.

Positions are read and written as whole words. Between the writers' position and the data that it covers, the
interpreter runs thousands of instructions, so no processor reads the data before the position.

Source     Linux, kernel/bpf/ringbuf.c; Documentation/bpf/ringbuf.rst
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

_POSITION, _HEAD = struct.Struct("=Q"), struct.Struct("=2I")
# BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT
_BUSY, _DISCARDED = 1 << 31, 1 << 30
# So many bytes are handed out before the writers get their room back: a store each costs more than it gives.
_BATCH = 32_768
# And so many at most of records that are handed out together: a tenth of a second of five thousand connections each.
_RUN = 131_072


class RecordRun(NamedTuple):
    """Records in a row, copied. places: length of a record -> where the records of that length begin."""

    data: bytes
    places: Mapping[int, list[int]]


class RingBuffer:
    """Open for the length of a block.

    size   of the data, bytes: the map's number of entries
    """

    def __init__(self, descriptor: int, size: int) -> None:
        page = mmap.PAGESIZE
        self._size = size
        self._reader = mmap.mmap(descriptor, page)
        self._writers = mmap.mmap(descriptor, page + 2 * size, prot=mmap.PROT_READ, offset=page)

    def __enter__(self) -> RingBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._writers.close()
        self._reader.close()

    def is_empty(self) -> bool:
        """Return whether no record waits, complete or not."""
        return _POSITION.unpack_from(self._reader) == _POSITION.unpack_from(self._writers)

    def waiting(self) -> Iterator[bytes]:
        """Hand out every record that was complete when this began or was completed meanwhile."""
        (at,) = _POSITION.unpack_from(self._reader)
        freed = since = at
        mask, first = self._size - 1, mmap.PAGESIZE
        head_of, writers = _HEAD.unpack_from, self._writers
        try:
            while at < (end := _POSITION.unpack_from(writers)[0]):
                while at < end:
                    start = first + (at & mask)
                    length, _ = head_of(writers, start)
                    if length & _BUSY:
                        return
                    start += _HEAD.size
                    bare = length & ~_DISCARDED
                    # the slice is a copy: the writers may have this room back
                    record = writers[start : start + bare]
                    at += (_HEAD.size + bare + 7) & ~7
                    if bare == length:
                        yield record
                    since = at
                    if since - freed >= _BATCH:
                        _POSITION.pack_into(self._reader, 0, since)
                        freed = since
        finally:
            if freed != since:
                _POSITION.pack_into(self._reader, 0, since)

    def runs(self) -> Iterator[RecordRun]:
        """Hand out the same records many at a time; those of a run have their room back when the next is asked for."""
        (at,) = _POSITION.unpack_from(self._reader)
        while (run := self._run(at)) is not None:
            if any(run.places.values()):
                yield run
            at += len(run.data)
            _POSITION.pack_into(self._reader, 0, at)

    def _run(self, begin: int) -> RecordRun | None:
        """Return the complete records from a position on; None where there is none."""
        end = min(_POSITION.unpack_from(self._writers)[0], begin + _RUN)
        first, at = mmap.PAGESIZE + (begin & (self._size - 1)), 0
        lengths = _Lengths()
        # Heads are at multiples of 8 bytes: two words each, of which the first one is looked at.
        with memoryview(self._writers)[first : first + max(end - begin, 0)].cast("I") as words:
            try:
                while at < len(words):
                    step, note = lengths[words[at]]
                    note(at)
                    at += step
            except _Busy:
                pass
        return RecordRun(self._writers[first : first + 4 * at], lengths.places()) if at else None


class _Busy(Exception):
    """A record that its writer still fills."""


class _Lengths(dict[int, tuple[int, Callable[[int], None]]]):
    """First word of a head -> words to the next head, and what notes the place of this one. Errors: `_Busy`."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: dict[int, list[int]] = {}

    def __missing__(self, length: int) -> tuple[int, Callable[[int], None]]:
        if length & _BUSY:
            raise _Busy
        bare = length & ~_DISCARDED
        noted: list[int] = []
        if bare == length:
            self._noted[bare] = noted
        self[length] = ((_HEAD.size + bare + 7) & ~7) >> 2, noted.append
        return self[length]

    def places(self) -> dict[int, list[int]]:
        """Return length -> where the bytes of each record of that length begin."""
        return {length: [4 * at + _HEAD.size for at in noted] for length, noted in self._noted.items()}
