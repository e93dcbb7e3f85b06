# SPDX-License-Identifier: MIT
"""The table of IPv4 prefixes, as cells.h describes it: an array of cells of seven slots, each prefix in one word.

Changes go by write.bpf.c; here it is made, filled from one that has become too small, and read. A prefix's cell is
found by the same mixing of its bits as in the program.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Callable, Collection, Iterator

from configtron.linux.libbpf import Map, call
from configtron.tune.drivers.bpf import layout

SLOTS, MOST_CELLS = 7, 16
CELL = struct.Struct("=8Q")
# So that most prefixes stand in their own cell, with a third of the slots free when the table has no more room.
A_CELL = 4
MIX_FIRST, MIX_SECOND, _WORD = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, (1 << 64) - 1
# linux/bpf.h: BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE and BPF_F_INNER_MAP.
_ARRAY, _FLAGS = 2, 1 << 10 | 1 << 12
_PLACE = struct.Struct("=I")
# A key of layout.py: length_bits, address.
_KEY = struct.Struct("=I12x4s")


class _Options(ctypes.Structure):
    """struct bpf_map_create_opts, as far as it is used."""

    _fields_ = [("size", ctypes.c_size_t), ("types", ctypes.c_uint32 * 5), ("flags", ctypes.c_uint32)]


def slot_key(client: bytes) -> int:
    """Return a slot without its profile, from a key of layout.py."""
    length_bits, address = _KEY.unpack(client)
    return int.from_bytes(address, sys.byteorder) << 16 | int(length_bits)


def client_of(slot: int) -> bytes:
    """Return a slot's key of layout.py."""
    address = (slot >> 32).to_bytes(4, sys.byteorder)
    return struct.pack("=I", slot >> 16 & 0xFFFF) + layout.MAPPED + address


def made(
    prefixes: int, slots: Collection[int] = (), fill: Callable[[int, Collection[int]], bytes] | None = None
) -> Map:
    """A table, not frozen yet, with room for so many at least, of which some are there already. Errors: `OSError`.

    fill   in place of `filled`, for many slots
    """
    cells = -(-prefixes // A_CELL)
    while not (data := (fill or filled)(cells, slots)):
        cells *= 2
    options = _Options(size=ctypes.sizeof(_Options), flags=_FLAGS)
    sizes = _PLACE.size, CELL.size, cells + 1
    table = Map(call("bpf_map_create", _ARRAY, b"clients4", *sizes, ctypes.byref(options)))
    table.fill(data)
    return table


def room(table: Map) -> int:
    """Return how many prefixes it is made for."""
    return (table.most - 1) * A_CELL


def content(table: Map) -> bytes:
    """Return the cells, without the head."""
    return table.all()[1][CELL.size :]


def slots(table: Map) -> Iterator[int]:
    """All prefixes."""
    for *found, _ in CELL.iter_unpack(content(table)):
        yield from filter(None, found)


def number_of(table: Map, client: bytes) -> int:
    """Return the profile of that very prefix; 0: it is not there."""
    key, cells = slot_key(client), table.most - 1
    place = _home(key, cells)
    for passed in range(MOST_CELLS):
        *found, spilled = CELL.unpack(table.get(_PLACE.pack((place + passed) % cells + 1)) or bytes(CELL.size))
        for slot in found:
            if slot >> 16 == key:
                return int(slot) & 0xFFFF
        if not spilled:
            break
    return 0


def _home(key: int, cells: int) -> int:
    mixed = key * MIX_FIRST & _WORD
    mixed ^= mixed >> 32
    mixed = mixed * MIX_SECOND & _WORD
    return (mixed >> 32) * cells >> 32


def filled(cells: int, there: Collection[int]) -> bytes:
    """Return the bytes of a table that holds these slots; b"" if too many of them fall together."""
    every = array("Q", bytes(CELL.size * (cells + 1)))
    every[0] = cells
    # places begin after the head
    used, words = bytearray(cells), CELL.size // every.itemsize
    for slot in there:
        place, passed = _home(slot >> 16, cells), 0
        while used[place] == SLOTS:
            every[(place + 1) * words + SLOTS] += 1
            place, passed = (place + 1) % cells, passed + 1
            if passed == MOST_CELLS:
                return b""
        every[(place + 1) * words + used[place]] = slot
        used[place] += 1
    return every.tobytes()
