# SPDX-License-Identifier: MIT
"""Addresses and prefixes drawn at random, looked up by the driver's own code in the kernel and by Python; as JSON.

    longest.py     run it apart (tests/support/isolation.py)

Prefixes are nested in each other, of all lengths and both families; after each turn some are dropped, some change their
profile and some are added. The answer: how many addresses were asked, those of which the two say different things, the
turns after which the lists of lengths or what is read back were not what was written, and what is left in the table
when all prefixes are gone.
"""

from __future__ import annotations

import json
import struct
import sys
from collections import Counter
from contextlib import closing
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from random import Random
from typing import TypeAlias

from configtron.linux.libbpf import Map, Object, call
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes
from configtron.tune.drivers.bpf import cells, layout, objects, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.tables import BpfMaps
from tests.support.tune.left import PLACE, placed

PROFILES = {name: Profile(name, (("initcwnd", window),)) for name, window in (("a", 4), ("b", 5), ("c", 6))}
TURNS, PREFIXES, CHANGED, ASKED = 5, 400, 150, 2000
# Where the two families meet: IPv4 stands inside the second of these.
WIDE = ("0.0.0.0/0", "::/0", "::fffe:0:0/95", "::/80", "255.255.255.255/32", "ffff::/16", "::/128")
MAPPED = IPv6Network("::ffff:0:0/96")
_QUESTION = struct.Struct("=16s2I")

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


def near(random: Random, there: list[Network]) -> tuple[int, int]:
    """(family, an address that shares some first bits with one of the prefixes)."""
    one = random.choice(there)
    bits = one.max_prefixlen
    return one.version, int(one.network_address) ^ random.getrandbits(bits) >> random.randrange(bits + 1)


def prefix(random: Random, there: list[Network]) -> Network:
    """Mostly inside or around another one; inside IPv6 none of IPv4's."""
    family, address = near(random, there)
    if family == 4:
        return IPv4Network((address, random.randrange(33)), strict=False)
    found = IPv6Network((address, random.randrange(129)), strict=False)
    return prefix(random, there) if found.subnet_of(MAPPED) else found


def address(random: Random, there: list[Network]) -> Address:
    family, number = near(random, there)
    return IPv4Address(number) if family == 4 else IPv6Address(number).ipv4_mapped or IPv6Address(number)


def by_hand(one: Address, rules: dict[Network, str]) -> str:
    """The longest prefix of the address's own family that holds it."""
    kind = IPv4Network if one.version == 4 else IPv6Network
    every = (kind((int(one), length), strict=False) for length in range(one.max_prefixlen, -1, -1))
    return next((rules[found] for found in every if found in rules), "")


def in_kernel(addresses: list[Address]) -> list[str]:
    """The same by the driver's code."""
    folder = pins.folder(PLACE)
    with BpfMaps(folder) as tables:
        names = tables.names()
    mapped = [IPv6Address(f"::ffff:{one}") if one.version == 4 else one for one in addresses]
    with Object(objects.compiled("longest", Path(__file__).parent), folder) as program:
        program.resize("questions", len(addresses))
        program.load()
        with closing(program.map("questions")) as questions:
            questions.fill(b"".join(_QUESTION.pack(one.packed, 0, 0) for one in mapped))
            program.run("longest", len(addresses))
            values = questions.all()[1]
    return [names.get(number, "") for _, number, _ in _QUESTION.iter_unpack(values)]


def counted(rules: dict[Network, str]) -> list[list[tuple[int, int]]]:
    """What `BpfMaps.lengths` should say, longest first."""
    of = {version: Counter(one.prefixlen + beyond for one in rules if one.version == version)
          for version, beyond in ((4, 96), (6, 0))}  # fmt: skip
    return [sorted(counts.items(), reverse=True) for counts in of.values()]


def changed(random: Random, turn: int, rules: dict[Network, str]) -> tuple[dict[Network, str], set[Network]]:
    """(prefixes to add or change, prefixes to drop); the last turn drops whole lengths."""
    dropped = set(random.sample(list(rules), CHANGED if turn else 0))
    if turn == TURNS - 1:
        dropped = {one for one in rules if one.prefixlen % 3}
    there = [*rules, *map(ip_network, WIDE)]
    added = {prefix(random, there): random.choice("abc") for _ in range(PREFIXES)}
    added |= {ip_network(one): random.choice("abc") for one in WIDE if random.random() < 0.5}
    return {one: name for one, name in added.items() if one not in dropped}, dropped


def results(driver: EbpfDriver) -> dict[str, object]:
    random, rules = Random(1), dict[Network, str]()
    wrong, miscounted, asked = [], [], 0
    for turn in range(TURNS):
        added, dropped = changed(random, turn, rules)
        rules = {one: name for one, name in rules.items() if one not in dropped} | added
        prefixes = {str(one): name for one, name in added.items()}
        driver.apply(Changes(PROFILES, prefixes, dropped_prefixes=frozenset(map(str, dropped))))
        addresses = [address(random, list(rules)) for _ in range(ASKED)]
        pairs = zip(addresses, in_kernel(addresses), strict=True)
        wrong += [(str(one), answer, by_hand(one, rules)) for one, answer in pairs if answer != by_hand(one, rules)]
        asked += len(addresses)
        with BpfMaps(pins.folder(PLACE)) as tables:
            lengths = [list(one.items()) for one in tables.lengths()]
        if lengths != counted(rules) or driver.read().prefixes != {str(one): name for one, name in rules.items()}:
            miscounted.append(turn)
    driver.apply(Changes(dropped_prefixes=frozenset(map(str, rules))))
    return {"asked": asked, "wrong": wrong[:9], "miscounted": miscounted, "left": left()}


def left() -> int:
    """Words of IPv4's table that are not 0, be it a prefix or a count of those that passed."""
    with closing(Map.pinned(pins.folder(PLACE) / "prefixes4")) as place:
        number = int.from_bytes(place.get(bytes(4)) or b"", sys.byteorder)
    with closing(Map(call("bpf_map_get_fd_by_id", number))) as table:
        words = memoryview(table.all()[1][cells.CELL.size :]).cast("Q")
    return sum(map(bool, words))


if __name__ == "__main__":
    # Or nothing would ever outgrow its table, few prefixes would stand in other cells than their own, and no table be
    # full before the driver expects it.
    layout.LEAST_ROOM, cells.A_CELL = 1, 5 * cells.SLOTS
    with placed() as (driver, _):
        print(json.dumps(results(driver)))
