# SPDX-License-Identifier: MIT
"""Many prefixes as bytes of the maps are those of one prefix after the other, and come back as they were."""

from __future__ import annotations

import struct
from random import Random

import pytest

from configtron.tune.drivers.bpf import cells, layout
from configtron.tune.drivers.bpf.many_prefixes import (
    columns_of_slots,
    filled_cells,
    initial_table,
    ipv6_count,
    slots_of,
    staged_changes,
)

NUMBERS = {"one": 1, "two": 2, "three": 700}


def drawn() -> dict[str, str]:
    random = Random(3)
    four = [f"{random.randrange(256)}.{n >> 8}.{n & 255}.0/24" for n in range(3000)]
    other = ("0.0.0.0/0", "192.0.2.7/32", "2001:db8::/32", "::/0")
    return {prefix: random.choice([*NUMBERS]) for prefix in (*four, *other)}


def test_they_are_staged_as_one_by_one() -> None:
    wanted = drawn()
    staged = staged_changes(wanted, NUMBERS)
    every = {staged[at : at + layout.CHANGE_BYTES] for at in range(0, len(staged), layout.CHANGE_BYTES)}
    assert every == {layout.change(layout.client(prefix), NUMBERS[name]) for prefix, name in wanted.items()}
    assert ipv6_count(wanted) == 2


def test_a_table_is_read_back_as_it_was_filled() -> None:
    wanted = {prefix: name for prefix, name in drawn().items() if ":" not in prefix}
    slots = [cells.slot_key(layout.client(prefix)) << 16 | NUMBERS[name] for prefix, name in wanted.items()]
    filled = cells.filled(1000, slots)
    found = slots_of(filled[cells.CELL.size :])
    assert columns_of_slots(found, {number: name for name, number in NUMBERS.items()}) == wanted
    others = {prefix: name for prefix, name in wanted.items() if name != "three"}
    assert columns_of_slots(found, {1: "one", 2: "two"}) == others
    assert cells.filled(2, slots) == b""


def found_in(every: list[tuple[int, ...]], key: int) -> int:
    """Look a prefix up in cells, as cells.h says: on from its own cell, as long as one was passed."""
    count = every[0][0]
    place = cells._home(key, count)
    for passed in range(cells.MOST_CELLS):
        *slots, spilled = every[1 + (place + passed) % count]
        for slot in slots:
            if slot >> 16 == key:
                return int(slot & 0xFFFF)
        if not spilled:
            break
    return 0


@pytest.mark.parametrize("count", [550, 700, 3000])
def test_each_prefix_of_a_filled_table_is_found(count: int) -> None:
    """In a crowded table, too, where many stand in other cells than their own."""
    wanted = drawn()
    slots, counts, others = initial_table(wanted, NUMBERS)
    assert dict(others) == {prefix: name for prefix, name in wanted.items() if ":" in prefix}
    four = {prefix: NUMBERS[name] for prefix, name in wanted.items() if ":" not in prefix}
    assert counts == {96: 1, 120: len(four) - 2, 128: 1}
    filled = filled_cells(count, slots)
    every = list(struct.iter_unpack("=8Q", filled))
    keys = {prefix: cells.slot_key(layout.client(prefix)) for prefix in four}
    assert {prefix: found_in(every, key) for prefix, key in keys.items()} == four
    assert not any(found_in(every, key + 1) for key in keys.values())
    # as if they came one after the other
    words = struct.unpack(f"={len(filled) // 8}Q", filled)
    alone = struct.unpack(f"={len(filled) // 8}Q", cells.filled(count, list(map(int, slots))))
    assert words[15::8] == alone[15::8] and sum(map(bool, words)) == sum(map(bool, alone))
    assert filled_cells(400, slots) == b"", "too small"
