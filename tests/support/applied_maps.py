# SPDX-License-Identifier: MIT
"""A map of the fleet, an enforcement that keeps what an applier asks of it, and both as a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nacl.signing import SigningKey

from configtron.fleet.map_document import SignedMap, document, signed
from configtron.model.draw import Mix, Plan
from configtron.model.errors import Refused, Unwritten
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service.fleet.applier import Applier, LeaseOver, LoadResult
from configtron.service.fleet.map_journal import NOT_DRAWN, DrawnPlace
from configtron.tune.rules import after

KEY = SigningKey(b"k" * 32)
NS = 10**9
EPOCH_S = 100
START_NS = 1_000_000 * NS
TURN_NS = START_NS + EPOCH_S * NS
FAR = (("slow", 65_536),)
PROFILES = {"fast": Profile("fast", (("initcwnd", 20),)), "slow": Profile("slow", (("initcwnd", 5),))}
MIXES = {"near": (("fast", 30_000), ("slow", 35_536)), "far": (("slow", 65_536),)}
PREFIXES = {f"198.51.{at}.0/24": "near" for at in range(50)} | {f"203.0.{at}.0/24": "far" for at in range(5)}
MAP = FleetMap(1, 1, PROFILES, MIXES, PREFIXES, b"a" * 16, START_NS + 3600 * NS, epoch_s=EPOCH_S)
NO_RULES = Rules()
HUMANS = Rules({"mine": Profile("mine", (("initcwnd", 3),))}, {"203.0.0.0/23": "mine", "198.51.7.0/24": "mine"})


class Recorded:
    """An enforcement that keeps what it was asked."""

    def __init__(self, draws: bool = False) -> None:
        self.draws, self.rules = draws, Rules()
        self.begun = self.changed = self.renewed = 0
        self.refuses: Exception | None = None
        self.refuses_plans: Exception | None = None
        self.is_full = self.is_gone = False
        self.kept: list[tuple[int, int]] = []
        self.plans: list[tuple[Plan, Mapping[str, Mix]]] = []
        self.external = self.freeze = self.bars = ""
        self.documents: dict[tuple[int, int], bytes] = {}
        self.drawn = NOT_DRAWN

    def barred(self, profile: Profile) -> str:
        return "initcwnd is beyond your bound" if dict(profile.settings).get("initcwnd") == 99 else ""

    def begin(self, rules: Rules, lease_s: float, ports: tuple[int, ...]) -> None:
        self._fail()
        self.rules, self.begun = rules, self.begun + 1

    def change(self, changes: Changes, target: Rules) -> None:
        self._fail()
        if self.bars in changes.prefixes:
            raise Refused(f"{self.bars} is refused")
        self.rules, self.changed = after(self.rules, changes), len(changes.prefixes) + len(changes.dropped_prefixes)
        assert self.rules == target

    def turn(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        if self.refuses_plans is not None:
            raise self.refuses_plans
        self.plans.append((plan, mixes))

    def renew(self, lease_s: float) -> None:
        self._fail()
        self.renewed += 1

    def foreign(self) -> str:
        found, self.external = self.external, ""
        self.freeze = found or self.freeze
        return found

    def gone(self) -> bool:
        return self.is_gone

    def frozen(self) -> str:
        return self.freeze

    def keep(self, document: bytes, term: int, version: int) -> None:
        self._need_room()
        self.kept.append((term, version))
        self.documents[term, version] = document

    def turned(self, drawn: DrawnPlace) -> None:
        self._need_room()
        self.drawn = drawn
        self.documents = {place: one for place, one in self.documents.items() if place >= drawn[:2]}

    def dropped(self, place: tuple[int, int]) -> None:
        self._need_room()
        self.documents = {at: one for at, one in self.documents.items() if at <= place}

    def _need_room(self) -> None:
        if self.is_full:
            raise Unwritten("agent.db: no space left on the disk")

    def _fail(self) -> None:
        if self.refuses is not None:
            raise self.refuses


def made(new: FleetMap = MAP) -> SignedMap:
    return signed(new, "m", START_NS, KEY)


class Trial:
    """An applier and its kernel. Times: s since `START_NS`, by the clock since boot, and by the wall clock unless
    `wall_s` is given."""

    def __init__(self, draws: bool = False, humans: Rules = NO_RULES, kernel: Recorded | None = None) -> None:
        self.kernel, self._humans = kernel or Recorded(draws), humans
        self.start()

    def start(self) -> None:
        """Start the process, which has nothing in force yet."""
        self.one = Applier(self.kernel, KEY.verify_key, self._humans, self._humans)

    def load(self, at_s: float = 0.0, wall_s: float | None = None, **changes: Any) -> LoadResult:
        """Load `MAP` with changes."""
        wall_ns = START_NS + round((at_s if wall_s is None else wall_s) * NS)
        return self.one.load(document(made(replace(MAP, **changes))), at_s, wall_ns)

    def take(self, at_s: float = 0.0, wall_s: float | None = None, **changes: Any) -> None:
        """Load `MAP` with changes, which is accepted."""
        assert self.load(at_s, wall_s, **changes).result.error == ""

    def tick(self, at_s: float, wall_s: float | None = None) -> None:
        self.one.tick(at_s, START_NS + round((at_s if wall_s is None else wall_s) * NS))

    def resume(self, at_s: float) -> str:
        """Start anew, with the documents that were kept."""
        self.start()
        kept = [*self.kernel.documents.values()]
        return self.one.resume(kept, at_s, START_NS + round(at_s * NS), self.kernel.drawn)

    def lose_lease(self, at_s: float) -> None:
        """Let the lease end unseen, until the next renewal."""
        self.kernel.refuses = LeaseOver("transaction 3 is undone")
        self.tick(at_s)
        self.kernel.refuses, self.kernel.rules = None, NO_RULES
