# SPDX-License-Identifier: MIT
"""The pcap format (draft-ietf-opsawg-pcap): a buffer -> where its records are.

Each record holds its own length, so a reader must walk the chain of records; that walk is the one loop over packets
here, and reads one 32-bit word a turn. Everything else of a record's header is taken afterwards, all records at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import Column

# Magic number as read little-endian -> (byte order, nanoseconds per unit of the fraction).
MAGICS = {
    0xA1B2C3D4: ("<", 1000), 0xD4C3B2A1: (">", 1000), 0xA1B23C4D: ("<", 1), 0x4D3CB2A1: (">", 1),
}  # fmt: skip
# A record whose header has other fields behind (patched libpcap of old); no program has written them for long.
MODIFIED = frozenset((0xA1B2CD34, 0x34CDB2A1))
HEADER, RECORD = 24, 16
# No frame is longer: the largest snap length of libpcap is 256 kB, super-frames reach 512 kB.
RECORD_MOST = 1 << 22
# The link type's field also holds the length of a frame check sequence.
LINK_MASK = 0xFFFF
NS = 1_000_000_000


class Header(NamedTuple):
    """A file's header: byte order of its words, unit of a fraction of a second, link type."""

    order: str
    unit_ns: int
    link: int


def header_of(data: bytes) -> Header | None:
    """Return the header that these bytes open with; None if they are no pcap."""
    known = MAGICS.get(int.from_bytes(data[:4], "little"))
    if known is None or len(data) < HEADER:
        return None
    order, unit_ns = known
    return Header(order, unit_ns, int.from_bytes(data[20:24], "little" if order == "<" else "big") & LINK_MASK)


def walk(data: bytearray, at: int, end: int, order: str) -> tuple[list[int], int, bool]:
    """Return records that lie whole in data[at:end]: (where each begins, where the next would, whether that one is
    broken)."""
    found: list[int] = []
    add = found.append
    views = [_words(data, shift, order) for shift in range(4)]  # a record may begin at any byte
    last = end - RECORD
    while at <= last:
        size = views[at & 3][(at >> 2) + 2]
        after = at + RECORD + size
        if after > end:
            return found, at, size > RECORD_MOST
        add(at)
        at = after
    return found, at, False


def _words(data: bytearray, shift: int, order: str) -> memoryview:
    """Return the 32-bit words at shift, shift + 4, ..."""
    size = (len(data) - shift) // 4
    if order == "<":
        return memoryview(data)[shift : shift + size * 4].cast("I")
    return memoryview(np.frombuffer(data, ">u4", size, shift).astype("=u4"))  # type: ignore[arg-type]


def fields(data: bytearray, records: list[int], header: Header) -> tuple[Column, Column, Column, Column]:
    """Return (start, kept, length, at) of records."""
    begin = np.asarray(records, np.int64)
    windows = np.ndarray((len(data) - RECORD + 1,), f"V{RECORD}", data, 0, (1,))
    words = windows[begin].view(f"{header.order}u4").reshape(len(begin), 4)
    at = words[:, 0].astype(np.int64) * NS + words[:, 1].astype(np.int64) * header.unit_ns
    return begin + RECORD, words[:, 2].astype(np.int64), words[:, 3].astype(np.int64), at
