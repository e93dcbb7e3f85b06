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
from collections.abc import Iterator

_POSITION, _HEAD = struct.Struct("=Q"), struct.Struct("=2I")
# BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT
_BUSY, _DISCARDED = 1 << 31, 1 << 30
# So many records are handed out before the writers get their room back: a store each costs more than it gives.
_BATCH = 256


class RingBuffer:
    """Open for the length of a block.

    size   of the data, bytes: the map's number of entries
    """

    def __init__(self, descriptor: int, size: int) -> None:
        page = mmap.PAGESIZE
        self._size = size
        self._reader = mmap.mmap(descriptor, page)
        self._writers = mmap.mmap(descriptor, page + 2 * size, prot=mmap.PROT_READ, offset=page)
        self._data = memoryview(self._writers)[page:]

    def __enter__(self) -> RingBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._data.release()
        self._writers.close()
        self._reader.close()

    def is_empty(self) -> bool:
        """Return whether no record waits, complete or not."""
        return _POSITION.unpack_from(self._reader) == _POSITION.unpack_from(self._writers)

    def waiting(self) -> Iterator[bytes]:
        """Hand out every record that was complete when this began or was completed meanwhile."""
        (at,) = _POSITION.unpack_from(self._reader)
        freed = since = at
        count = 0
        try:
            while (found := self._next(at)) is not None:
                record, at = found
                if record:
                    yield record
                since, count = at, count + 1
                if count % _BATCH == 0:
                    _POSITION.pack_into(self._reader, 0, since)
                    freed = since
        finally:
            if freed != since:
                _POSITION.pack_into(self._reader, 0, since)

    def _next(self, at: int) -> tuple[bytes, int] | None:
        """Return the record at a position, b"" for a discarded one, and the next position; None: none is complete."""
        if at >= _POSITION.unpack_from(self._writers)[0]:
            return None
        place = at % self._size
        length, _ = _HEAD.unpack_from(self._data, place)
        if length & _BUSY:
            return None
        bare = length & ~_DISCARDED
        start = place + _HEAD.size
        record = b"" if length & _DISCARDED else bytes(self._data[start : start + bare])
        return record, at + (_HEAD.size + bare + 7) // 8 * 8
