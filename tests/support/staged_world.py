# SPDX-License-Identifier: MIT
"""A manager with stages in virtual time, and the page loads of its clients: rows into its database, maps out.

The core, its store and the stages are the product's; the maker is any. A kill is a core that is made anew from the
same database, without a call that ends the former one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.learner.rollout import RolloutPlan
from configtron.learner.sequential.switchback import SwitchPlan
from configtron.model.fleet import WHOLE, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import Barred
from configtron.service.fleet.stages import Stages
from tests.support.live_world import Drawer

EPOCH_S, FIRST = 600, 2_000_000
KEY = SigningKey(bytes(32))
# Parts of an epoch, after each of which rows arrive.
PARTS = 2
PLAIN = "default"


class PlannedMaker:
    """Make one map an epoch: what `wanted` is then; it learns nothing. rows: that it observed."""

    def __init__(self, wanted: FleetMap) -> None:
        self.wanted, self.rows, self._epoch = wanted, 0, 0

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        self.rows += len(rows)

    def make(self, now_ns: int, barred: Barred) -> FleetMap | None:
        epoch = (now_ns // 10**9 + 10) // self.wanted.epoch_s
        if epoch <= self._epoch:
            return None
        self._epoch = epoch
        return replace(self.wanted, not_after_ns=now_ns + 3600 * 10**9)

    def note(self, published: FleetMap, fresh: bool) -> None:
        self.wanted = replace(self.wanted, key=published.key)

    def save(self) -> str:
        return f"{self.rows} {self._epoch} {self.wanted.key.hex()}"

    def restore(self, text: str) -> None:
        rows, epoch, key = text.split()
        self.rows, self._epoch, self.wanted = int(rows), int(epoch), replace(self.wanted, key=bytes.fromhex(key))


def planned_map(mixes: Mapping[str, Sequence[tuple[str, int]]], holdback: float = 0.2, prefixes: int = 40) -> FleetMap:
    """Return a map of two classes at most, whose profiles' names say what they do to a load: `x0.8` is a fifth less."""
    names = {name for mix in mixes.values() for name, _ in mix}
    profiles = {name: Profile(name, () if name == PLAIN else (("initcwnd", 11 + crc32(name.encode()) % 1000),))
                for name in sorted(names)}  # fmt: skip
    classes = sorted(mixes)
    of_prefix = {f"198.51.{at}.0/24": classes[at % len(classes)] for at in range(prefixes)}
    return FleetMap(0, 0, profiles, {name: tuple(mix) for name, mix in mixes.items()}, of_prefix, bytes(range(16)), 1,
                    holdback=round(holdback * WHOLE), epoch_s=EPOCH_S)  # fmt: skip


@dataclass
class StagedWorld:
    """folder: of the database; slower: profile -> factor on its loads, which `x0.8` in its name says too; stepped_s:
    what the manager's wall clock has been set forward by."""

    folder: Path
    maker: PlannedMaker
    plan: RolloutPlan | None
    switch: SwitchPlan | None = None
    seed: int = 1
    loads: int = 2400
    slower: dict[str, float] = field(default_factory=dict)
    stepped_s: float = 0.0

    def __post_init__(self) -> None:
        self.epoch, self.starts, self._part = FIRST, 0, 0
        self.rng = np.random.default_rng(self.seed)
        self.store = FleetStore(self.folder / "staged.db")
        self.start()

    @property
    def now_s(self) -> int:
        return self.epoch * EPOCH_S

    def start(self) -> None:
        """Start the manager; one that runs counts as killed."""
        self.store.close()
        self.starts += 1
        self.store = FleetStore(self.folder / "staged.db")
        self.maker = self.next_maker()
        self.stages = Stages(self.plan, self.switch, b"k", self.maker.note)
        self.core = ManagerCore(self.store, self.maker, KEY, f"m{self.starts}",
                                round((self.now_s + self.stepped_s) * 1e9), self.stages)  # fmt: skip

    def next_maker(self) -> Any:
        """Return the policy of the next start."""
        return PlannedMaker(self.maker.wanted)

    def tick(self, at_s: float) -> None:
        """Turn the manager, at a second of this epoch."""
        self.core.tick(self.now_s + at_s, round((self.now_s + at_s + self.stepped_s) * 1e9))

    def play(self, epochs: int) -> list[str]:
        """Play epochs; return the stage after each step of them."""
        return [self.step() for _ in range(epochs * (PARTS + 1))]

    def step(self) -> str:
        """Make the map of an epoch, or store the rows of a part of it and turn the manager; return the stage."""
        if self._part == 0:
            self.tick(-9.0)
            self._drawn = self.current
        else:
            # Agents change mixes with the epoch, or with the key.
            self._drawn = self.current if self.current.key != self._drawn.key else self._drawn
            self.store_rows(self._drawn, self._part - 1)
            self.tick(self._part * 580.0 / PARTS)
        self._part = (self._part + 1) % (PARTS + 1)
        self.epoch += not self._part
        return self.stage

    @property
    def current(self) -> FleetMap:
        """Return the map that is published."""
        assert self.core._map is not None
        return self.core._map

    @property
    def stage(self) -> str:
        """Return the stage of the roll-out that the database has."""
        return self.stages.rollout.stage if self.stages.rollout is not None else ""

    def store_rows(self, drawn: FleetMap, part: int) -> None:
        """Store the rows of a part of this epoch, drawn by a map."""
        by_agent: dict[str, list[OutcomeRow]] = defaultdict(list)
        for row in self.rows(drawn, part):
            by_agent[row.agent].append(row)
        through = {stream.agent: stream.through for stream in self.store.streams()}
        for agent, rows in sorted(by_agent.items()):
            first = through.get(agent, 0) + 1
            numbered = [row._replace(sequence=first + at) for at, row in enumerate(rows)]
            self.store.add_rows(agent, "boot", first, numbered, self.now_s * 10**9)

    def rows(self, drawn: FleetMap, part: int) -> list[OutcomeRow]:
        """Return rows of clients, each of one of four hundred addresses of a prefix."""
        rng, drawer, prefixes = self.rng, Drawer(drawn, self.epoch), list(drawn.prefixes)
        number = self.loads // PARTS
        prefix, client = rng.integers(len(prefixes), size=number), rng.integers(250, size=number)
        units = np.uint64(0xFFFF << 32 | 198 << 24 | 51 << 16) + (prefix * 256 + client).astype(np.uint64)
        names = tuple(drawn.prefixes[prefixes[at]] for at in prefix)
        arm, propensity, held = drawer.arms(units, names)
        ln_ms = 6.5 + 0.3 * (prefix % 5) + 0.4 * rng.standard_normal(number)
        failed = rng.random(number) < 0.01
        at_s = np.sort(rng.random(number)) * EPOCH_S / PARTS + part * EPOCH_S / PARTS
        found = []
        for at in range(number):
            mix, mine = drawn.mixes.get(names[at]), bool(held[at])
            profile = "" if mine or not mix else mix[int(arm[at])][0]
            factor = self.slower.get(profile, float(profile[1:].partition("-")[0]) if profile[:1] == "x" else 1.0)
            found.append(OutcomeRow(
                ("web0", "web1")[int(prefix[at]) % 2], "boot", 0, round((self.now_s + at_s[at]) * 1e9), "a.example",
                prefixes[prefix[at]], drawer.unit(int(units[at])),
                None if failed[at] else float(np.exp(ln_ms[at])) * factor, drawn.term, drawn.version, self.epoch,
                names[at] if mix else "", None if mine or not mix else int(arm[at]), profile,
                float(propensity[at]) if mix else None, mine, "abandoned" if failed[at] else "",
            ))  # fmt: skip
        return found
