# SPDX-License-Identifier: MIT
"""More prefixes than `MANY`, put in force by the driver `ebpf` under the journal; prints what was found as JSON.

    many_prefixes.py killed FOLDER [STRIDE]    SIGKILL before calls to libbpf of whole applies
    many_prefixes.py changed FOLDER            another program changes one prefix in the kernel
    many_prefixes.py filled FOLDER             a new table is filled, and then changed prefix by prefix

Run it apart (tests/support/isolation.py).
"""

from __future__ import annotations

import json
import struct
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from configtron.db.tuning import Tuning
from configtron.linux.libbpf import Map
from configtron.model.nouns import Profile
from configtron.model.tuning import MANY, Changes, Rules
from configtron.service import lease
from configtron.service.lease.options import LeaseOptions
from configtron.tune.drivers.bpf import cells, layout, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.tables import BpfMaps
from configtron.tune.journal import IN_FORCE, OPEN
from configtron.tune.rules import after
from tests.support.tune.cut_short import killed
from tests.support.tune.left import PLACE, nothing_left, placed

PROFILES = {name: Profile(name, (("initcwnd", window),)) for name, window in (("one", 4), ("two", 10), ("three", 20))}
# A change of one prefix is planned from the journal alone; of more than a thousand, from all that is in force.
FEW, SOME = 1, 3000


def table(count: int) -> dict[str, str]:
    random = Random(1)
    four = [f"{11 + n % 100}.{n // 100 >> 8}.{n // 100 & 255}.0/24" for n in range(count - 12)]
    odd = ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.7/32", "::/0", *(f"2001:db8:{n:x}::/48" for n in range(1, 9))]
    return {prefix: random.choice(("one", "two")) for prefix in (*four, *odd)}


class Journaled:
    """A database with profiles, and applies of it that stay in force."""

    def __init__(self, folder: Path, driver: EbpfDriver) -> None:
        self.driver, self.options = driver, LeaseOptions(folder / "db", "ebpf", PLACE)
        with Tuning(self.options.database) as journal:
            journal.set_profiles(PROFILES.values())

    def want(self, prefixes: Mapping[str, str]) -> None:
        lease.set_prefixes(self.options.database, prefixes, whole=True)

    def apply(self) -> None:
        lease.apply(self.options, lease_s=0.0)

    def in_force(self) -> dict[str, str]:
        return dict(self.driver.read().prefixes)

    def journaled(self) -> dict[str, str] | None:
        """Return what the journal says is in force; None while a transaction is half done."""
        with Tuning(self.options.database) as journal:
            found = journal.acts(*OPEN)
        if any(each.status not in IN_FORCE for each in found):
            return None
        # a kept transaction under the one in force has rules, too
        return dict(found[-1].rules.prefixes) if found else {}

    def end(self) -> bool:
        lease.rollback(self.options)
        return nothing_left() and self.driver.read() == Rules()


def swept(
    journaled: Journaled, before: Mapping[str, str], then: Mapping[str, str], changed: Mapping[str, str], stride: int
) -> dict[str, Any]:
    """Kill an apply from `before` to `then` before each so-manieth call; what was not as it should be.

    changed   what leads from the one to the other, as it is typed
    """
    wrong, turn, states = [], 0, set()
    while True:
        if before:
            journaled.want(before)
            journaled.apply()
            lease.set_prefixes(journaled.options.database, changed)
        else:
            journaled.want(then)
        cut = killed(journaled.apply, turn)
        lease.recover(journaled.options)
        found = journaled.in_force()
        states.add("before" if found == before else "then" if found == then else "neither")
        held = {"the journal has other rules than the kernel": journaled.journaled() == found}
        journaled.apply()
        brought = journaled.in_force() == then == journaled.journaled()
        held["the next apply did not bring the rest"] = brought and not lease.verify(journaled.options).differences
        held["something is left"] = journaled.end()
        wrong += [f"turn {turn}: {words}" for words, well in held.items() if not well]
        if not cut:
            return {"turns": turn, "states": sorted(states), "wrong": wrong}
        turn += stride


def kills(folder: Path, stride: str = "1") -> dict[str, Any]:
    found, first = {}, table(MANY + 100)
    with placed() as (driver, _):
        journaled = Journaled(folder, driver)
        found["first"] = swept(journaled, {}, first, {}, int(stride))
        for count in (FEW, SOME):
            changed = dict.fromkeys(list(first)[:count], "three")
            changed |= {f"203.0.{n % 256}.{n // 256}/32": "one" for n in range(count - 1)}
            found[f"{count} changed"] = swept(journaled, first, first | changed, changed, int(stride))
    return found


def change_from_outside(prefix: str, name: str) -> None:
    """Change a prefix with the driver's own program, as another program of root's may."""
    with BpfMaps(pins.folder(PLACE)) as tables:
        tables.set_prefixes({prefix: name}, ())


def exchange_from_outside(prefix: str) -> None:
    """Put another table without one prefix in the place of the driver's, past its program: nothing is counted."""
    folder, key = pins.folder(PLACE), cells.slot_key(layout.client(prefix))
    with BpfMaps(folder) as tables, closing(tables._table(4)) as there:
        slots = [slot for slot in cells.slots(there) if slot >> 16 != key]
        room = cells.room(there)
    with closing(cells.made(room, slots)) as other, closing(Map.pinned(folder / "prefixes4")) as place:
        other.freeze()
        place.put(bytes(4), struct.pack("=I", other.descriptor))


def outside(folder: Path) -> dict[str, Any]:
    """For each way of another program: the differences that verify names, and what an apply makes of them."""
    wanted, found = table(MANY + 100), {}
    odd, six = (next(prefix for prefix, name in wanted.items() if name == "one" and (":" in prefix) == is_six)
                for is_six in (False, True))  # fmt: skip
    ways: dict[str, Callable[[], None]] = {
        "changed": lambda: change_from_outside(odd, "two"),
        "IPv6 changed": lambda: change_from_outside(six, "two"),
        "added": lambda: change_from_outside("198.51.100.0/24", "two"),
        "exchanged": lambda: exchange_from_outside(odd),
    }
    with placed() as (driver, _):
        journaled = Journaled(folder, driver)
        journaled.want(wanted)
        journaled.apply()

        def differences() -> list[Any]:
            return [(one.scope, one.applied, one.found) for one in lease.verify(journaled.options).differences]

        for way, act in ways.items():
            before = differences()
            act()
            found[way] = {"before": before, "differences": differences(),
                          "due": lease.plan(journaled.options).planned.due_count()}  # fmt: skip
            journaled.apply()
            as_wanted = journaled.in_force() == wanted == journaled.journaled()
            found[way] |= {"as wanted": as_wanted, "after": len(differences())}
        return {**found, "left": not journaled.end()}


def filled(_: Path) -> dict[str, Any]:
    """Whether what is read of a filled table, and of it after changes by the program, is what was written."""
    random, wanted = Random(2), table(MANY + 100)
    found: dict[str, Any] = {}
    with placed() as (driver, _before):
        change, rules = Changes(PROFILES, wanted), Rules()
        for turn in range(4):
            driver.apply(change)
            rules = after(rules, change)
            found[f"{turn} read"] = driver.read() == rules
            with BpfMaps(pins.folder(PLACE)) as tables:
                found[f"{turn} singly"] = tables.some_prefixes(rules.prefixes) == dict(rules.prefixes)
                lengths = Counter[int]()
                for counts in tables.lengths():
                    lengths.update(counts)
            asked = Counter(int(one.partition("/")[2]) + 96 * (":" not in one) for one in rules.prefixes)
            found[f"{turn} lengths"] = lengths == asked
            there = random.sample(list(rules.prefixes), 4000)
            added = [f"198.{turn}.{n >> 8}.{n & 255}/32" for n in range(2000)]
            change = Changes(prefixes=dict.fromkeys(there[:2000], "three") | dict.fromkeys(added, "one"),
                             dropped_prefixes=frozenset(there[2000:]))  # fmt: skip
        driver.apply(Changes(dropped_prefixes=frozenset(rules.prefixes)))
        found["emptied"] = not driver.read().prefixes
    return found


if __name__ == "__main__":
    play: Callable[..., dict[str, Any]] = {"killed": kills, "changed": outside, "filled": filled}[sys.argv[1]]
    print(json.dumps(play(Path(sys.argv[2]), *sys.argv[3:])))
