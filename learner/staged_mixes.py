# SPDX-License-Identifier: MIT
"""A version of a fleet's mixes, and two of them in one map: each client draws a version with its arm.

Question   How do so many clients in a hundred get another version's mixes, others keep theirs, and rows show which?
Method     A class's mix has the former version's arms first and the new version's behind them, weighted by the share of
           clients that are to have each; so the kernel's own draw decides, with known chances, anew in each epoch. Of
           either version's arms as many stay as there are places (`MOST_ARMS`, half each at least): one that is drawn
           among the rest stands for them, as in `mixes.py`. Prefixes, bands and classes are the latest map's: which
           class a prefix is of follows its network, and is not staged.
Stop when  every class has its mix.
Reads as   a `FleetMap`, and for each class the number of the first arm of the new version.
Fails as   a class that a version lacks has Default in it.
Differs    from two maps for two halves of the servers: a server's clients differ, and so would the versions.
Source     Horvitz and Thompson 1952 (known probabilities); `mixes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.map_making import UNTOUCHED
from configtron.learner.state import keep
from configtron.model.fleet import MOST_ARMS, WHOLE, FleetMap
from configtron.model.nouns import Profile

keep(Profile)

Arms = tuple[tuple[str, int], ...]
DEFAULT_ARMS: Arms = ((UNTOUCHED, WHOLE),)
UNTOUCHED_PROFILE = Profile(UNTOUCHED)


@keep
@dataclass(frozen=True, slots=True)
class StagedVersion:
    """Mixes by class, and their profiles by name. place: (term, version) of the map that had them first; (0, 0): of
    none, Default for all."""

    place: tuple[int, int]
    mixes: dict[str, Arms]
    profiles: dict[str, Profile]

    def arms(self, class_name: str) -> Arms:
        """Return a class's arms; Default where this version does not know the class."""
        return self.mixes.get(class_name, DEFAULT_ARMS)

    def shares(self, class_name: str) -> dict[tuple[object, ...], float]:
        """Return settings -> chance of a class's clients that are not held back."""
        found: dict[tuple[object, ...], float] = {}
        for name, weight in self.arms(class_name):
            settings = self.profiles.get(name, UNTOUCHED_PROFILE).settings
            found[settings] = found.get(settings, 0.0) + weight / WHOLE
        return found

    def permitted(self, barred: Callable[[Profile], str]) -> StagedVersion:
        """Return the version without barred profiles: their weight goes to the first arm that stays, or Default."""
        out = {name for name, profile in self.profiles.items() if barred(profile)}
        if not out:
            return self
        mixes = {}
        for class_name, arms in self.mixes.items():
            stays = [arm for arm in arms if arm[0] not in out] or [(UNTOUCHED, 0)]
            rest = WHOLE - sum(weight for _, weight in stays)
            mixes[class_name] = ((stays[0][0], stays[0][1] + rest), *stays[1:])
        profiles = {name: profile for name, profile in self.profiles.items() if name not in out}
        return replace(self, mixes=mixes, profiles={UNTOUCHED: UNTOUCHED_PROFILE, **profiles})


NOTHING_STAGED = StagedVersion((0, 0), {}, {UNTOUCHED: UNTOUCHED_PROFILE})


def version_of(fleet_map: FleetMap, place: tuple[int, int]) -> StagedVersion:
    """Return the mixes of a map as a version."""
    return StagedVersion(place, dict(fleet_map.mixes), {UNTOUCHED: UNTOUCHED_PROFILE, **fleet_map.profiles})


def apart(one: StagedVersion, other: StagedVersion, fleet_map: FleetMap) -> float:
    """Return the share of clients that get other settings under one version than under the other, at least (total
    variation); classes count by their prefixes in a map, and all alike where it lists none."""
    count = dict.fromkeys(fleet_map.mixes, 0)
    for name in fleet_map.prefixes.values():
        count[name] = count.get(name, 0) + 1
    total, moved = 0.0, 0.0
    for name in fleet_map.mixes:
        weight = float(count[name]) if fleet_map.prefixes else 1.0
        mine, others = one.shares(name), other.shares(name)
        total += weight
        moved += weight * sum(max(share - others.get(settings, 0.0), 0.0) for settings, share in mine.items())
    return moved / total if total else 0.0


def staged_map(
    latest: FleetMap, former: StagedVersion, new: StagedVersion | None, share: float, rng: np.random.Generator
) -> tuple[FleetMap, dict[str, int]]:
    """Return a map in which so large a share of clients has the new version, and each class's first arm of it; a class
    that has no arm of it has none."""
    names = _names(former, new)
    mixes: dict[str, Arms] = {}
    first: dict[str, int] = {}
    for class_name in latest.mixes:
        old = former.arms(class_name)
        if new is None or share <= 0.0:
            mixes[class_name] = old
            continue
        other = tuple((names.get(name, name), weight) for name, weight in new.arms(class_name))
        if share < 1.0:
            parts = round(share * WHOLE)
            most = max(MOST_ARMS // 2, MOST_ARMS - len(old))
            other = _scaled(_fewer(other, most, rng), parts)
            old = _scaled(_fewer(old, MOST_ARMS - len(other), rng), WHOLE - parts)
        else:
            old = ()
        mixes[class_name], first[class_name] = (*old, *other), len(old)
    known = {**former.profiles} | ({names.get(name, name): profile for name, profile in new.profiles.items()}
                                   if new is not None else {})  # fmt: skip
    used = {name for mix in mixes.values() for name, _ in mix}
    profiles = {name: Profile(name, known[name].settings) for name in sorted(used)}
    return replace(latest, mixes=mixes, profiles=profiles), first


def _names(former: StagedVersion, new: StagedVersion | None) -> Mapping[str, str]:
    """Return other names for the new version's profiles that have the name of another one in the former."""
    found: dict[str, str] = {}
    for name, profile in sorted(new.profiles.items()) if new is not None else ():
        at = 1
        while (found.get(name, name) in former.profiles
               and former.profiles[found.get(name, name)].settings != profile.settings):  # fmt: skip
            at += 1
            found[name] = f"{name[:58]}-{at}"
    return found


def _fewer(arms: Arms, most: int, rng: np.random.Generator) -> Arms:
    """Return at most so many arms: the largest, and one of the rest that has all their weight."""
    if len(arms) <= most:
        return arms
    order = sorted(range(len(arms)), key=lambda at: (-arms[at][1], at))
    kept, rest = order[: most - 1], order[most - 1 :]
    total = sum(arms[at][1] for at in rest)
    turn = int(rng.choice(rest, p=np.array([arms[at][1] for at in rest]) / total))
    return tuple((arms[at][0], total if at == turn else arms[at][1]) for at in sorted([*kept, turn]))


def _scaled(arms: Arms, parts: int) -> Arms:
    """Return arms whose weights sum to so many parts; each has one at least."""
    exact = [weight * parts / WHOLE for _, weight in arms]
    weights = [max(int(part), 1) for part in exact]
    largest = max(range(len(arms)), key=lambda at: weights[at])
    by_remainder = sorted(range(len(arms)), key=lambda at: weights[at] - exact[at])
    left = parts - sum(weights)
    for at in by_remainder[: max(left, 0)]:
        weights[at] += 1
    weights[largest] += parts - sum(weights)
    return tuple((name, weight) for (name, _), weight in zip(arms, weights, strict=True))
