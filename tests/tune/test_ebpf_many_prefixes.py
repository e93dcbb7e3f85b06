# SPDX-License-Identifier: MIT
"""Many prefixes as bytes of the maps are those of one prefix after the other, and come back as they were."""

from __future__ import annotations

from random import Random

from configtron.tune.drivers.bpf import cells, layout
from configtron.tune.drivers.bpf.many_prefixes import columns_of_slots, ipv6_count, slots_of, staged_changes

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
    filled = cells._filled(1000, slots)
    names = {number: name for name, number in NUMBERS.items()}
    assert columns_of_slots(slots_of(filled[cells.CELL.size :]), names) == wanted
    del names[700]
    others = {prefix: name for prefix, name in wanted.items() if name != "three"}
    assert columns_of_slots(slots_of(filled[cells.CELL.size :]), names) == others
    assert cells._filled(2, slots) == b""
