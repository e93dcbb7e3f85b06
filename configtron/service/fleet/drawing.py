# SPDX-License-Identifier: MIT
"""Rules of a map in one epoch: which profile each prefix has, drawn here or by the kernel.

Where the kernel draws (`protocols.Drawing`), prefixes point to their class, and a plan with a mix of each class is
loaded. Where it cannot, the unit is (prefix, epoch): each prefix is drawn by the same hash, with its first address in
place of the client's. Both are held back by the same hash on every server of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from configtron.fleet.map_document import HeadForm
from configtron.fleet.map_table import key4, key6
from configtron.model.draw import HELD, Key, Mix, Plan, draws
from configtron.model.nouns import Profile
from configtron.model.records import pairs_of
from configtron.tune.plan import UNTOUCHED

# s; the part of 2^16 above an IPv4 address in its unit (`model/draw.py`).
_MAPPED = 0xFFFF << 32


@dataclass(frozen=True)
class DrawnMap:
    """A map's mixes as they are drawn from in one epoch; classes with a refused profile are not among them."""

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

    def profile_of(self, name: str) -> str:
        """Return the name of a profile, or `UNTOUCHED` for one without settings."""
        return name if self.profiles[name].settings else UNTOUCHED


def prefix_unit(prefix: str) -> int:
    """Return the unit of a prefix: that of a client with its first address."""
    if ":" in prefix:
        return int.from_bytes(key6(prefix)[:8], "big")
    return _MAPPED | key4(prefix) >> 8


def drawn_map(head: HeadForm, epoch: int, barred: Mapping[str, str]) -> DrawnMap:
    """Return a head's mixes for an epoch without classes that have a barred profile."""
    profiles = profiles_of(head)
    mixes = {
        name: Mix(tuple(profile for profile, _ in mix), tuple(weight for _, weight in mix))
        for name, mix in head.mixes.items()
        if not any(profile in barred for profile, _ in mix)
    }
    return DrawnMap(head, epoch, profiles, mixes)


def profiles_of(head: HeadForm) -> dict[str, Profile]:
    """Return the profiles of a map by name."""
    return {name: Profile(name, pairs_of(settings)) for name, settings in head.profiles.items()}  # type: ignore[arg-type]


def used_profiles(profiles: Mapping[str, Profile], names: Iterable[str]) -> dict[str, Profile]:
    """Return the profiles of those names; `UNTOUCHED` has no settings."""
    known = {**profiles, UNTOUCHED: Profile(UNTOUCHED)}
    return {name: known[name] for name in sorted(set(names))}
