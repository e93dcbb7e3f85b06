# SPDX-License-Identifier: MIT
"""Rules of a map in one epoch: which profile each prefix has, drawn here or by the kernel.

Where the kernel draws (`protocols.Drawing`), prefixes point to their class, and a plan with a mix of each class is
loaded. Where it cannot, the unit is (prefix, epoch): each prefix is drawn by the same hash, with its first address in
place of the client's. Both are held back by the same hash on every server of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_network

import numpy as np

from configtron.fleet.map_document import HeadForm
from configtron.fleet.map_table import key4, key6
from configtron.fleet.messages import MOST_REFUSED
from configtron.intake.pageloads.plan_book import DatedPlan, PrefixDraw
from configtron.model.draw import HELD, Key, Mix, Plan, draw, draws
from configtron.model.fleet import ARM, NOT_HERE
from configtron.model.nouns import Profile
from configtron.model.records import pairs_of
from configtron.model.tuning import Changes, Rules
from configtron.service.fleet.agent_limits import is_optional
from configtron.tune.plan import UNTOUCHED

# s; the part of 2^16 above an IPv4 address in its unit (`model/draw.py`).
_MAPPED = 0xFFFF << 32
# Bits of a prefix as records have it: of IPv4, and of IPv6 (True).
_RECORDED = {False: 24, True: 48}


@dataclass(frozen=True)
class DrawnMap:
    """A map's mixes as they are drawn from in one epoch; classes with a refused profile are not among them.

    profiles  all of the map's, refused ones too, and `NOT_HERE`
    """

    head: HeadForm
    epoch: int
    profiles: Mapping[str, Profile]
    mixes: Mapping[str, Mix]

    def plan(self, not_after: int) -> Plan:
        """Return the kernel's plan; `not_after`: end of the lease, ns of CLOCK_BOOTTIME."""
        bands = tuple((up_to, name) for up_to, name in self.head.bands if name in self.mixes)
        return Plan(Key.of(self.head.key), self.epoch, not_after, self.head.holdback, "", bands)

    def draw(self, prefixes: Mapping[str, str]) -> dict[str, str]:
        """Return prefix -> profile of prefixes whose class has a mix; `UNTOUCHED` where Default was drawn."""
        by_class: dict[str, list[str]] = {}
        for prefix, name in prefixes.items():
            if name in self.mixes:
                by_class.setdefault(name, []).append(prefix)
        found: dict[str, str] = {}
        for name, members in by_class.items():
            mix = self.mixes[name]
            arms, _ = draws(self.plan(0), mix, np.array([prefix_unit(prefix) for prefix in members], dtype=np.uint64))
            names = {at: self.profile_of(profile) for at, profile in enumerate(mix.profiles)} | {HELD: UNTOUCHED}
            found.update(zip(members, (names[arm] for arm in arms.tolist()), strict=True))
        return found

    @property
    def used(self) -> dict[str, Profile]:
        """Return the profiles that its mixes name."""
        names = {name for mix in self.mixes.values() for name in mix.profiles}
        return {name: self.profiles[name] for name in sorted(names)}

    def dated(self, prefixes: Mapping[str, str], since_ns: int) -> DatedPlan:
        """Return what the join of page loads needs; `since_ns`: CLOCK_BOOTTIME at which it came into force."""
        head, plan = self.head, self.plan(0)
        of_prefix = DrawnPrefixes(plan, self.mixes, prefixes)
        return DatedPlan(head.term, head.version, head.epoch_s, plan, self.mixes, head.key, of_prefix, since_ns)

    def profile_of(self, name: str) -> str:
        """Return the name of a profile, or `UNTOUCHED` for one without settings."""
        return name if self.profiles[name].settings else UNTOUCHED


class DrawnPrefixes:
    """What clients of a prefix as records have it, /24 or /48, are given: by the longest prefix of a map that holds it.

    None where a longer prefix of the map lies in it: which one a client came from is not known.
    """

    def __init__(self, plan: Plan, mixes: Mapping[str, Mix], prefixes: Mapping[str, str]) -> None:
        self._plan, self._mixes, self._prefixes = plan, mixes, prefixes

    @cached_property
    def _lengths(self) -> dict[bool, list[int]]:
        """Return the lengths of the map's prefixes, longest first: of IPv4, and of IPv6 (True)."""
        found = {(":" in prefix, int(prefix.rpartition("/")[2])) for prefix in self._prefixes}
        return {six: sorted((length for of, length in found if of == six), reverse=True) for six in (False, True)}

    @cached_property
    def _divided(self) -> frozenset[str]:
        """Return the record's prefixes in which longer ones of the map lie."""
        longer = (one for one in self._prefixes if int(one.rpartition("/")[2]) > _RECORDED[":" in one])
        return frozenset(str(ip_network(one).supernet(new_prefix=_RECORDED[":" in one])) for one in longer)

    def __call__(self, prefix: str) -> PrefixDraw | None:
        if prefix in self._divided:
            return None
        whole = ip_network(prefix)
        lengths = (length for length in self._lengths[":" in prefix] if length <= whole.prefixlen)
        of = next((one for length in lengths if (one := str(whole.supernet(new_prefix=length))) in self._prefixes), "")
        name = self._prefixes.get(of, "")
        if name not in self._mixes:
            return PrefixDraw("", None, False, "", of)
        mix = self._mixes[name]
        drawn = draw(self._plan, mix, prefix_unit(of))
        return PrefixDraw(name, drawn.arm, drawn.held, "" if drawn.arm is None else mix.profiles[drawn.arm], of)


def prefix_unit(prefix: str) -> int:
    """Return the unit of a prefix: that of a client with its first address."""
    if ":" in prefix:
        return int.from_bytes(key6(prefix)[:8], "big")
    return _MAPPED | key4(prefix) >> 8


def drawn_map(head: HeadForm, epoch: int, barred: Mapping[str, str]) -> DrawnMap:
    """Return a head's mixes for an epoch without classes that have a barred profile; none where it names no port.

    A barred profile with an optional setting is `NOT_HERE`, with its weight and its place: all other arms of its class
    are drawn as on every server. A class in which nothing else is drawn is left out.
    """
    profiles = profiles_of(head)
    absent = {name for name in barred if is_optional(profiles[name])}
    mixes = {
        name: Mix(tuple(NOT_HERE if profile in absent else profile for profile, _ in mix),
                  tuple(weight for _, weight in mix))
        for name, mix in head.mixes.items()
        if head.ports and not any(profile in barred and profile not in absent for profile, _ in mix)
        and any(profile not in absent for profile, _ in mix)
    }  # fmt: skip
    return DrawnMap(head, epoch, {**profiles, NOT_HERE: Profile(NOT_HERE)}, mixes)


def refused_entries(profiles: Mapping[str, Profile], barred: Mapping[str, str], left_out: Mapping[str, str]
                    ) -> tuple[tuple[tuple[str, str], ...], int]:  # fmt: skip
    """Return what an agent leaves out of a map, by name with the reason, and how many entries are beyond the list.

    Profiles that are `NOT_HERE` come last and are not counted: their classes are in force.
    """
    absent = [name for name in barred if is_optional(profiles[name])]
    entries = [(f"profile {name}", why) for name, why in barred.items() if name not in absent]
    entries += [(prefix, f"a human set {owner}") for prefix, owner in left_out.items()]
    arms = [(f"{ARM}{name}", f"Default here: {barred[name]}") for name in absent]
    listed = tuple((entry[:255], reason[:1000]) for entry, reason in [*entries, *arms][:MOST_REFUSED])
    return listed, max(len(entries) - MOST_REFUSED, 0)


def profiles_of(head: HeadForm) -> dict[str, Profile]:
    """Return the profiles of a map by name."""
    return {name: Profile(name, pairs_of(settings)) for name, settings in head.profiles.items()}  # type: ignore[arg-type]


def used_profiles(profiles: Mapping[str, Profile], names: Iterable[str]) -> dict[str, Profile]:
    """Return the profiles of those names; `UNTOUCHED` has no settings."""
    known = {**profiles, UNTOUCHED: Profile(UNTOUCHED)}
    return {name: known[name] for name in sorted(set(names))}


def with_profiles(changes: Changes, target: Rules) -> Changes:
    """Return changes with the profiles of all prefixes that change, since a driver need not know them by name."""
    named = {changes.default or "", *changes.prefixes.values()} - {""}
    profiles = {**changes.profiles, **{name: target.profiles[name] for name in named}}
    return Changes(profiles, changes.prefixes, changes.dropped_profiles, changes.dropped_prefixes, changes.default)


def without_needless(prefixes: dict[str, str], base: Rules) -> dict[str, str]:
    """Leave prefixes of Default out where no wider rule of the base, or of these, reaches them."""
    lengths = {(":" in prefix, prefix.rpartition("/")[2]) for prefix in (*prefixes, *base.prefixes)}
    if base.default or len(lengths) > len({version for version, _ in lengths}):
        return prefixes
    return {prefix: name for prefix, name in prefixes.items() if name != UNTOUCHED}


def valid_until_s(head: HeadForm, now_s: float, now_ns: int) -> float:
    """Return the end of a map's validity by the wall clock, as seconds since boot."""
    return now_s + (head.not_after_ns - max(now_ns, head.made_ns)) / 1e9
