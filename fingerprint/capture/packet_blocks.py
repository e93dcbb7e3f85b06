# SPDX-License-Identifier: MIT
"""Packet blocks of a pcapng buffer, in columns: where its packets are, of which interface, when they were captured.

Any byte order, any number of sections and interfaces, any resolution of time. The format itself is `model/pcapng.py`.
Dropped: directions and link errors (epb_flags), since addresses show the side and Linux captures no broken frame;
hashes, packet and queue numbers, verdicts.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import Column
from configtron.model.pcapng import OLD_PACKET, PACKET, SECTION, SIMPLE, Interface, Section

PACKETS = frozenset((OLD_PACKET, SIMPLE, PACKET))
# epb_dropcount: packets lost between this one and the one before.
DROPS = 4
# Bytes of a block at most; a longer one means a broken file.
BLOCK_MOST = 1 << 23
# No machine has so many; the obsolete packet block could not even name more.
INTERFACES_MOST = 1 << 16
NS = 1_000_000_000
SECONDS_MOST = 9_000_000_000


class PacketWalk(NamedTuple):
    """Packet blocks found (begin, kind), where the next block begins, and why the walk stopped there.

    "more" (the buffer ends within a block), "block" (one that must be read first), "broken".
    """

    packets: Column | list[int]
    kinds: Column | list[int]
    at: int
    why: str


def walk(words: memoryview, at: int, end: int) -> PacketWalk:
    """Return packet blocks from byte `at` of a buffer on, up to a block of another kind. words: the buffer's."""
    packets: list[int] = []
    kinds: list[int] = []
    at, last = at // 4, end // 4
    while at + 3 <= last:
        kind, size = words[at], words[at + 1]
        broken = kind != SECTION and (size < 12 or size > BLOCK_MOST or size & 3 != 0)
        if broken or kind not in PACKETS:
            return PacketWalk(packets, kinds, at * 4, "broken" if broken else "block")
        after = at + (size >> 2)
        if after > last:
            break
        if words[after - 1] != size:
            return PacketWalk(packets, kinds, at * 4, "broken")
        packets.append(at * 4)
        kinds.append(kind)
        at = after
    return PacketWalk(packets, kinds, at * 4, "more")


def words_of(data: bytearray, order: str, shift: int = 0) -> memoryview:
    """Return the 32-bit words of a buffer at shift, shift + 4, ...

    It copies a buffer of the other byte order: call it once a buffer.
    """
    size = (len(data) - shift) // 4
    if order == "<":
        return memoryview(data)[shift : shift + size * 4].cast("I")
    return memoryview(np.frombuffer(data, ">u4", size, shift).astype("=u4"))  # type: ignore[arg-type]


def fields(
    data: bytearray, walked: PacketWalk, section: Section, counts: Counter[str]
) -> tuple[Column, Column, Column, Column, Column]:
    """Return columns, a row a packet block: where its frame begins, bytes captured, bytes on the wire, time in ns, link
    type. Count and leave out blocks with a wrong length or interface."""
    begin, kinds = np.asarray(walked.packets, np.int64), np.asarray(walked.kinds, np.int64)
    windows = np.ndarray((len(data) - 28 + 1,), "V28", data, 0, (1,))
    words = windows[begin].view(f"{section.order}u4").reshape(len(begin), 7).astype(np.int64)
    simple, old = kinds == SIMPLE, kinds == OLD_PACKET
    interface, drops = words[:, 2].copy(), np.zeros(len(begin), np.int64)
    if old.any():
        # The obsolete block has 16 bits for the interface, then 16 for drops (all set: not known).
        two = (words[old, 2] >> 16, words[old, 2] & 0xFFFF)
        interface[old], drops[old] = two if section.order == ">" else two[::-1]
        drops[drops == 0xFFFF] = 0
    interface[simple] = 0
    stamps = (words[:, 3].astype(np.uint64) << np.uint64(32)) | words[:, 4].astype(np.uint64)
    start = begin + np.where(simple, 12, 28)
    kept, length = words[:, 5].copy(), words[:, 6].copy()
    known = interface < len(section.interfaces)
    if simple.any():
        snap = section.interfaces[0].snap if section.interfaces else 0
        length[simple] = words[simple, 2]
        room = words[simple, 1] - 16
        kept[simple] = np.minimum(np.minimum(length[simple], snap or length[simple]), room)
    fits = kept <= words[:, 1] - np.where(simple, 16, 32)
    counts["malformed-record"] += int(np.count_nonzero(~fits))
    options, end = begin + np.where(fits & (kinds == PACKET), 28 + kept + -kept % 4, words[:, 1]), begin + words[:, 1]
    lost = int(drops.sum()) + _dropped(data, options, end - 4, section.order)
    section.dropped += lost
    counts["dropped-by-capture"] += lost
    counts["unknown-interface"] += int(np.count_nonzero(fits & ~known))
    at, link = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    # Only the interfaces that these blocks name: a file may have as many interfaces as packets.
    for number in [0] if len(section.interfaces) == 1 else np.unique(interface[known]).tolist():
        about = section.interfaces[number]
        rows = slice(None) if len(section.interfaces) == 1 else np.flatnonzero(interface == number)
        at[rows], link[rows] = _nanoseconds(stamps[rows], about), about.link
    at[simple] = 0
    # A place in the file counts even if its packet is unreadable: Wireshark numbers it.
    link[~(fits & known)] = UNREADABLE
    kept[~fits] = 0
    return start, kept, length, at, link


def _dropped(data: bytearray, at: Column, end: Column, order: str) -> int:
    """Return the sum of epb_dropcount among the options from these places to these ends."""
    heads = np.ndarray((len(data) - 11,), f"{order}u2, {order}u2, {order}u8", data, 0, (1,))
    lost = 0
    while len(rows := np.flatnonzero(at + 4 <= end)):
        at, end = at[rows], end[rows]
        code, size, value = (heads[at][name] for name in ("f0", "f1", "f2"))
        named = (code == DROPS) & (size == 8) & (at + 12 <= end)
        lost += int(np.minimum(value[named], np.uint64(BLOCK_MOST)).sum())
        at = np.where(code == 0, end, at + 4 + (size.astype(np.int64) + 3 & ~3))
    return lost


# The link type of a record without one.
UNREADABLE = -1


def _nanoseconds(stamps: Column, about: Interface) -> Column:
    if about.shift is not None:
        shift = np.uint64(about.shift)
        whole, part = stamps >> shift, stamps & ((np.uint64(1) << shift) - np.uint64(1))
        # Bits below 2^-34 s are less than a nanosecond; without them the product fits 64 bits.
        fine = max(about.shift - 34, 0)
        ns = (part >> np.uint64(fine)) * np.uint64(NS) >> np.uint64(about.shift - fine)
    else:
        units = np.uint64(about.units)
        whole, part = stamps // units, stamps % units
        ns = part * np.uint64(NS // about.units) if about.units <= NS else part // np.uint64(about.units // NS)
    # Nanoseconds in 64 bits reach to the year 2262; times outside are clipped to the edge.
    offset_s = min(max(about.offset_s, -SECONDS_MOST), SECONDS_MOST)
    seconds = np.clip(np.minimum(whole, np.uint64(SECONDS_MOST)).astype(np.int64) + offset_s, 0, SECONDS_MOST)
    found: Column = seconds * NS + ns.astype(np.int64)
    return found
