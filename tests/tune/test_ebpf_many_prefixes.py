# SPDX-License-Identifier: MIT
"""Many prefixes as bytes of the maps are those of one prefix after the other, and come back as they were."""

from __future__ import annotations

import struct
from pathlib import Path
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
from tests.support.tune.aside import aside

NUMBERS = {"one": 1, "two": 2, "three": 700}


def drawn() -> dict[str, str]:
    random = Random(3)
    four = [f"{random.randrange(256)}.{n >> 8}.{n & 255}.0/24" for n in range(3000)]
    return {
        prefix: random.choice([*NUMBERS]) for prefix in (*four, "0.0.0.0/0", "192.0.2.7/32", "2001:db8::/32", "::/0")
    }


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
    names = {number: name for name, number in NUMBERS.items()}
    assert columns_of_slots(slots_of(filled[cells.CELL.size :]), names) == wanted
    del names[700]
    others = {prefix: name for prefix, name in wanted.items() if name != "three"}
    assert columns_of_slots(slots_of(filled[cells.CELL.size :]), names) == others
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


def test_a_table_that_is_too_small_is_none() -> None:
    slots, _, _ = initial_table(drawn(), NUMBERS)
    assert filled_cells(400, slots) == b""


def test_the_list_of_lengths_is_read_as_it_was_written() -> None:
    for counts in ({}, {128: 1}, {0: 7}, {128: 3, 120: 1_000_000, 96: 2, 0: 1}):
        assert list(layout.counted(layout.lengths_bytes(counts)).items()) == list(counts.items())


@pytest.mark.root
def test_a_filled_table_is_changed_by_the_program_prefix_by_prefix(tmp_path: Path) -> None:
    assert {what for what, held in aside("many_prefixes.py", "filled", str(tmp_path)).items() if not held} == set()


@pytest.mark.root
def test_applies_of_many_prefixes_that_are_killed(tmp_path: Path) -> None:
    """Between journal and kernel, and within either; `many_prefixes.py killed` alone tries each call."""
    results = aside("many_prefixes.py", "killed", str(tmp_path), "79")
    assert {what: sweep["wrong"] for what, sweep in results.items() if sweep["wrong"]} == {}
    assert all(set(sweep["states"]) == {"before", "then"} for sweep in results.values()), results
    assert sum(sweep["turns"] // 79 + 1 for sweep in results.values()) > 9


@pytest.mark.root
def test_a_change_of_one_of_many_prefixes_by_another_program(tmp_path: Path) -> None:
    results = aside("many_prefixes.py", "changed", str(tmp_path))
    assert not results.pop("left")
    four, six, added = "11.0.0.0/24", "2001:db8:2::/48", "198.51.100.0/24"
    differences = {
        "changed": [four, "one", "two"], "IPv6 changed": [six, "one", "two"], "added": [added, None, "two"],
        "exchanged": [four, "one", None],
    }  # fmt: skip
    assert {way: result.pop("differences") for way, result in results.items()} == {
        way: [one] for way, one in differences.items()
    }
    assert all(one == {"before": [], "due": 1, "as wanted": True, "after": 0} for one in results.values()), results
