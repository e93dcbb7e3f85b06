# SPDX-License-Identifier: MIT
"""Convert columns of prefixes to the maps of clients.h and back; `layout.py` and `cells.py` do it one by one.

IPv4 prefixes are converted array by array. IPv6 prefixes are converted one by one, since their texts have many forms.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from configtron.model.prefix_columns import PrefixColumns, columns_of, sorted_columns, strings
from configtron.tune.drivers.bpf import cells, layout
from configtron.tune.ipv4_columns import ADDRESS_BITS, format_ipv4, parse_ipv4, stable_order, text_order

Slots: TypeAlias = NDArray[np.uint64]

# struct change of write.bpf.c, and the length of ::ffff:0:0/96 in it.
CHANGE = np.dtype([("dropped", "=u4"), ("length_bits", "=u4"), ("mapped", "V12"), ("address", ">u4"), ("number", "=u4"),
                   ("filling", "=u4")])  # fmt: skip
MAPPED_BITS = 96
# A slot of cells.h from its lowest bit: number of the profile, length in bits, address as the network has it.
LENGTH_SHIFT, ADDRESS_SHIFT = 16, 32
LOW_16 = np.uint64(0xFFFF)


def staged_changes(wanted: Mapping[str, str], numbers: Mapping[str, int]) -> bytes:
    """Return `struct change` records that put these prefixes into the maps. numbers: profile -> its number there."""
    columns = columns_of(wanted)
    number = np.array([numbers.get(name, 0) for name in columns.names], np.uint32)[columns.numbers]
    ipv4 = parse_ipv4(columns.texts)
    staged = np.zeros(len(columns), CHANGE)
    rows = staged[: len(ipv4.addresses)]
    rows["length_bits"] = ipv4.lengths.astype(np.uint32) + np.uint32(MAPPED_BITS)
    rows["mapped"] = np.void(layout.MAPPED)
    rows["address"], rows["number"] = ipv4.addresses, number[ipv4.rows]
    others = zip(strings(columns.texts[~ipv4.rows]), number[~ipv4.rows].tolist(), strict=True)
    return rows.tobytes() + b"".join(layout.change(layout.client(prefix), one) for prefix, one in others)


class InitialTable(NamedTuple):
    """What a new table of IPv4 prefixes begins with.

    slots   (n,) the prefixes with the numbers of their profiles
    counts  length of the table's keys, bits -> how many of them have it
    others  the other prefixes
    """

    slots: Collection[int]
    counts: Mapping[int, int]
    others: Mapping[str, str]


def initial_table(wanted: Mapping[str, str], numbers: Mapping[str, int]) -> InitialTable:
    """Return what a table of these prefixes begins with. numbers: profile -> its number there."""
    columns = columns_of(wanted)
    number = np.array([numbers.get(name, 0) for name in columns.names], np.uint64)[columns.numbers]
    ipv4 = parse_ipv4(columns.texts)
    addresses = ipv4.addresses.byteswap() if sys.byteorder == "little" else ipv4.addresses
    lengths = ipv4.lengths.astype(np.uint64) + np.uint64(MAPPED_BITS)
    slots = addresses.astype(np.uint64) << np.uint64(ADDRESS_SHIFT) | lengths << np.uint64(LENGTH_SHIFT)
    counts = np.bincount(ipv4.lengths, minlength=ADDRESS_BITS + 1).tolist()
    return InitialTable(
        slots | number[ipv4.rows],
        {MAPPED_BITS + length: count for length, count in enumerate(counts) if count},
        columns.select(~ipv4.rows),
    )


def filled_cells(count: int, slots: Collection[int] | Slots) -> bytes:
    """Return the bytes of a table of so many cells that holds these slots; b"" if too many of them fall together."""
    left: Slots = slots if isinstance(slots, np.ndarray) else np.fromiter(slots, np.uint64, len(slots))
    words = np.zeros((count + 1, cells.SLOTS + 1), np.uint64)
    words[0, 0] = count
    table, used = words[1:], np.zeros(count, np.int64)
    # the cell where each prefix belongs
    mixed = (left >> np.uint64(LENGTH_SHIFT)) * np.uint64(cells.MIX_FIRST)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(cells.MIX_SECOND)
    places = ((mixed >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
    for _ in range(cells.MOST_CELLS):
        order = stable_order(places.view(np.uint64))
        places, left = places[order], left[order]
        here = np.bincount(places, minlength=count)
        # which of its cell's slots each takes
        slot = np.arange(len(places)) - (np.cumsum(here) - here - used)[places]
        fits = slot < cells.SLOTS
        table[places[fits], slot[fits]] = left[fits]
        used = np.minimum(used + here, cells.SLOTS)
        places, left = places[~fits], left[~fits]
        if not len(left):
            return words.tobytes()
        table[:, cells.SLOTS] += np.bincount(places, minlength=count).astype(np.uint64)
        places = (places + 1) % count
    return b""


def ipv6_count(prefixes: Mapping[str, str]) -> int:
    """Return how many of the prefixes are of IPv6."""
    colons = columns_of(prefixes).texts.view(np.uint8) == ord(":")
    # to ask each row takes a tenth of a second for a million
    return int(colons.reshape(len(prefixes), -1).any(axis=1).sum()) if colons.any() else 0


def slots_of(cells: bytes) -> Slots:
    """Return the used slots of a table's cells. A cell is 8 words of 64 bits: 7 slots (0: unused) and a count."""
    every: Slots = np.frombuffer(cells, np.uint64).reshape(-1, 8)[:, :-1].ravel()
    used: Slots = every[every != 0]
    return used


def columns_of_slots(slots: Slots, names: Mapping[int, str]) -> PrefixColumns:
    """Return the prefixes in slots. names: number -> profile; slots of other numbers are left out."""
    places = np.full(int(LOW_16) + 1, -1)
    places[list(names)] = np.arange(len(names))
    numbers = places[slots & LOW_16]
    slots, numbers = slots[numbers >= 0], numbers[numbers >= 0]
    lengths = (slots >> np.uint64(LENGTH_SHIFT) & LOW_16).astype(np.int64) - MAPPED_BITS
    addresses = (slots >> np.uint64(ADDRESS_SHIFT)).astype(np.uint32)
    if sys.byteorder == "little":
        addresses = addresses.byteswap()
    bits = lengths.clip(0, ADDRESS_BITS).astype(np.uint8)
    order = text_order(addresses, bits)
    texts = format_ipv4(addresses[order], bits[order])
    return sorted_columns(texts, numbers[order], names.values())
