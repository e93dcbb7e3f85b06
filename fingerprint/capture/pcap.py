# SPDX-License-Identifier: MIT
"""The pcap format (draft-ietf-opsawg-pcap): a buffer -> where its records are.

Each record has its length in its header, so a reader has to walk from record to record. Here a buffer is cut into
parts, and all parts are walked together, one record of each at a time. Where the first record of a part begins is
guessed. A part counts only if the walk of the part before it ended exactly there, so a wrong guess costs time and
nothing else: from there on, records are walked one by one. The other fields of the headers are read afterwards, for all
records together. Dropped: zone and accuracy, since all programs write 0; the snap length, since records have their own;
the length of a frame check sequence, since IP says where a packet ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from configtron.fingerprint.capture.packet_blocks import words_of
from configtron.fingerprint.passive.columns import Column

# Magic number as read little-endian -> (byte order, nanoseconds per unit of the fraction).
MAGICS = {
    0xA1B2C3D4: ("<", 1000), 0xD4C3B2A1: (">", 1000), 0xA1B23C4D: ("<", 1), 0x4D3CB2A1: (">", 1),
}  # fmt: skip
HEADER, RECORD = 24, 16
# 2.4 in either byte order. Older ones have a record's two lengths the other way round, some files of them.
VERSION = {"<": b"\2\0\4\0", ">": b"\0\2\0\4"}
# Place of the number of captured bytes in a record's header.
LENGTH_AT = 8
# Size of a part: some 80 records of full size, or 500 short ones. Larger parts need fewer guesses, but more steps,
# which cost more.
PART_BYTES = 1 << 16
# Places that are tried in a part. If the payload looks like times more often, records are walked one by one.
MOST_GUESSES = 8
# No frame is longer: the largest snap length of libpcap is 256 kB, super-frames reach 512 kB.
RECORD_MOST = 1 << 22
# The link type's field also holds the length of a frame check sequence.
LINK_MASK = 0xFFFF
NS = 1_000_000_000
BAD_TIME = "malformed-time"


class Header(NamedTuple):
    """A file's header: byte order of its words, unit of a fraction of a second, link type."""

    order: str
    unit_ns: int
    link: int


def header_of(data: bytes) -> Header | None:
    """Return the header that these bytes open with; None if they are no pcap 2.4."""
    known = MAGICS.get(int.from_bytes(data[:4], "little"))
    if known is None or len(data) < HEADER or data[4:8] != VERSION[known[0]]:
        return None
    return Header(*known, int.from_bytes(data[20:24], "little" if known[0] == "<" else "big") & LINK_MASK)


def walk(data: bytearray, at: int, end: int, order: str, *, part: int = PART_BYTES) -> tuple[Column, int, bool]:
    """Return records that lie whole in data[at:end]: (where each begins, where the next would, whether that one is
    broken). `part`: bytes of the parts that are walked together."""
    parts, at = _walk_parts(data, [at, *_guess_begins(data, at, end, order, part)], end, order)
    found: list[int] = []
    add = found.append
    views = [words_of(data, order, shift) for shift in range(4)]  # a record may begin at any byte
    last, broken = end - RECORD, False
    while at <= last:
        size = views[at & 3][(at >> 2) + 2]
        after = at + RECORD + size
        if after > end:
            broken = size > RECORD_MOST
            break
        add(at)
        at = after
    return np.concatenate((parts, np.array(found, np.int64))), at, broken


def _walk_parts(data: bytearray, guessed: list[int], end: int, order: str) -> tuple[Column, int]:
    """Walk from these places together, up to the first wrong one: return (where each record begins, where the first
    record begins that was not walked). guessed: a known begin of a record, then the guessed ones of the later parts."""
    begins = np.array(guessed, np.int64)
    if len(begins) == 1:
        return begins[:0], guessed[0]
    lengths = np.ndarray((end - LENGTH_AT - 3,), f"{order}u4", data, LENGTH_AT, (1,))
    # The last part is left out: a record in it may be cut.
    now, until, part = begins[:-1], begins[1:], np.arange(len(begins) - 1)
    ends, counts = np.empty(len(part), np.int64), np.zeros(len(part), np.int64)
    steps, parts = [now], [part]
    while len(now):
        now = now + lengths[now] + RECORD
        within = now < until
        if not within.all():
            over = part[~within]
            ends[over], counts[over] = now[~within], len(steps)
            now, until, part = now[within], until[within], part[within]
        steps.append(now)
        parts.append(part)
    wrong = np.flatnonzero(ends != begins[1:])
    sure = int(wrong[0]) if len(wrong) else len(ends)
    # Each step is one record further in its part.
    before = np.cumsum(counts) - counts
    places = np.empty(int(counts.sum()), np.int64)
    step = np.repeat(np.arange(len(steps)), [len(one) for one in steps])
    places[before[np.concatenate(parts)] + step] = np.concatenate(steps)
    return places[: int(counts[:sure].sum())], int(begins[sure])


def _guess_begins(data: bytearray, at: int, end: int, order: str, part: int) -> Iterator[int]:
    """Yield a place in each later part of data[at:end] where a record seems to begin: there and in the next record, the
    upper half of the time's seconds is that of the first record."""
    high = slice(2, 4) if order == "<" else slice(0, 2)
    same = bytes(data[at + high.start : at + high.stop])
    byte_order: Literal["little", "big"] = "little" if order == "<" else "big"
    for begin in range(at + part, end - part, part):
        place = begin
        for _ in range(MOST_GUESSES):
            place = data.find(same, place + high.start, begin + part) - high.start
            if place < begin:
                break
            after = place + RECORD + int.from_bytes(data[place + LENGTH_AT : place + LENGTH_AT + 4], byte_order)
            if after + RECORD <= end and data[after + high.start : after + high.stop] == same:
                yield place
                break
            place += 1


def fields(
    data: bytearray, begin: Column, header: Header, counts: Counter[str]
) -> tuple[Column, Column, Column, Column]:
    """Return (start, kept, length, at) of records; count those whose fraction is no part of a second: their writer took
    another unit than the magic number says."""
    windows = np.ndarray((len(data) - RECORD + 1,), f"V{RECORD}", data, 0, (1,))
    words = windows[begin].view(f"{header.order}u4").reshape(len(begin), 4)
    fraction = words[:, 1].astype(np.int64) * header.unit_ns
    counts[BAD_TIME] += int(np.count_nonzero(fraction >= NS))
    at = words[:, 0].astype(np.int64) * NS + fraction
    return begin + RECORD, words[:, 2].astype(np.int64), words[:, 3].astype(np.int64), at
