# SPDX-License-Identifier: MIT
"""The reader of a BPF ring buffer, over a file laid out as the kernel lays out the map's memory."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

import pytest

from configtron.linux.ring_buffer import RingBuffer

PAGE, SIZE = mmap.PAGESIZE, 4 * mmap.PAGESIZE
BUSY, DISCARDED = 1 << 31, 1 << 30


class Written:
    """The kernel's side."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("ring")
        os.truncate(self.descriptor, 2 * PAGE + 2 * SIZE)
        self.at = 0

    def add(self, record: bytes, flags: int = 0) -> None:
        head = struct.pack("=2I", len(record) | flags, 0)
        data = (head + record).ljust((8 + len(record) + 7) // 8 * 8, b"\0")
        place = self.at % SIZE
        # the data is mapped twice in a row
        for start in (place, place + SIZE, place - SIZE):
            for shift, octet in enumerate(data):
                if 0 <= start + shift < 2 * SIZE:
                    os.pwrite(self.descriptor, bytes([octet]), 2 * PAGE + start + shift)
        self.at += len(data)
        os.pwrite(self.descriptor, struct.pack("=Q", self.at), PAGE)

    def freed(self) -> int:
        return int(struct.unpack("=Q", os.pread(self.descriptor, 8, 0))[0])


@pytest.fixture
def ring() -> Iterator[Written]:
    written = Written()
    yield written
    os.close(written.descriptor)


@pytest.mark.parametrize(("added", "read", "freed"), [
    ([(b"a", 0), (b"bb" * 7, 0), (b"c" * 64, 0)], [b"a", b"bb" * 7, b"c" * 64], 16 + 24 + 72),
    # a record that is being written ends the pass; a discarded one is passed over
    ([(b"whole", 0), (b"half", BUSY), (b"later", 0)], [b"whole"], 16),
    ([(b"gone", DISCARDED), (b"there", 0)], [b"there"], 16 + 16),
])  # fmt: skip
def test_records_come_once_and_in_order(
    ring: Written, added: list[tuple[bytes, int]], read: list[bytes], freed: int
) -> None:
    for record, flags in added:
        ring.add(record, flags)
    with RingBuffer(ring.descriptor, SIZE) as reader:
        assert list(reader.waiting()) == read
        assert list(reader.waiting()) == [] and ring.freed() == freed


def test_records_that_were_not_asked_for_stay(ring: Written) -> None:
    for number in range(5):
        ring.add(bytes([number]))
    with RingBuffer(ring.descriptor, SIZE) as reader:
        waiting = reader.waiting()
        assert (next(waiting), next(waiting)) == (b"\0", b"\1")
        waiting.close()  # type: ignore[attr-defined]
        # the second was handed out, but may not have been worked on: it comes again
        assert list(reader.waiting()) == [b"\1", b"\2", b"\3", b"\4"]


def test_positions_go_round(ring: Written) -> None:
    """More than the ring holds, some of it across its end."""
    with RingBuffer(ring.descriptor, SIZE) as reader:
        for turn in range(40):
            wanted = [bytes([turn]) * (100 + turn), bytes([turn + 100]) * 600]
            for record in wanted:
                ring.add(record)
            assert list(reader.waiting()) == wanted
    assert ring.at > SIZE and ring.freed() == ring.at


def test_runs_have_the_same_records_by_length(ring: Written) -> None:
    """A discarded record is in no place; a run's room is free once the next is asked for; positions go round."""
    with RingBuffer(ring.descriptor, SIZE) as reader:
        assert list(reader.runs()) == []
        for turn in range(60):
            wanted = [bytes([turn]) * 64, bytes([turn + 1]) * 136, bytes([turn + 2]) * 64]
            for at, record in enumerate(wanted):
                ring.add(record)
                ring.add(b"gone", DISCARDED if at < 2 else BUSY)
                if at == 2:
                    ring.at -= 16
            runs = reader.runs()
            run = next(runs)
            before = ring.freed()
            found = [(at, run.data[at : at + size]) for size, places in run.places.items() for at in places]
            assert [record for _, record in sorted(found)] == wanted
            assert list(runs) == [] and ring.freed() - before == 72 + 16 + 144 + 16 + 72
            os.pwrite(ring.descriptor, struct.pack("=Q", ring.at), PAGE)
    assert ring.at > SIZE
