# SPDX-License-Identifier: MIT
"""Convert columns of prefixes to the maps of clients.h and back; `layout.py` and `cells.py` do it one by one.

IPv4 prefixes are converted array by array. IPv6 prefixes are converted one by one, since their texts have many forms.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from configtron.model.prefix_columns import PrefixColumns, columns_of, sorted_columns, strings
from configtron.tune.drivers.bpf import layout
from configtron.tune.ipv4_columns import ADDRESS_BITS, format_ipv4, parse_ipv4

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


def ipv6_count(prefixes: Mapping[str, str]) -> int:
    """Return how many of the prefixes are of IPv6."""
    letters = columns_of(prefixes).texts.view(np.uint8)
    return int((letters.reshape(len(prefixes), -1) == ord(":")).any(axis=1).sum())


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
    order = np.argsort(addresses.astype(np.uint64) << np.uint64(8) | lengths.astype(np.uint64))
    texts = format_ipv4(addresses[order], lengths[order].clip(0, ADDRESS_BITS).astype(np.uint8))
    return sorted_columns(texts, numbers[order], names.values())
