# SPDX-License-Identifier: MIT
"""A policy and its traffic as the map that agents draw from (`FleetMap`), until the next epoch.

Question   Which clients are of which class, and from which profiles does each class draw?
Method     Mixes are those of `mixes.py`: of what the operator's bounds, the guard and the driver permit, and nothing
           else. A prefix is listed with its class when enough clients are behind it, its network is known, and no
           human decides for it; of new prefixes a map takes so many, those of the most clients first. Clients without
           a listed prefix get the class of their handshake's round trip, in wide bands: the class that most clients of
           such round trips are of.
           Profiles, mixes and prefixes are sorted; what is left to chance is drawn from a generator of the seed and the
           map's version. So the same outcomes and the same seed make the same map, byte for byte.
Stop when  every class, prefix and band is written down.
Reads as   a `FleetMap`, and which configuration each of its profiles is.
Fails as   no mixes and no bands while there is no policy yet: every client gets Default.
Differs    from CT, which maps clients one by one, whatever their number, and has no holdback.
Source     CT sections 3 to 5; Sweeney 2002 (k-anonymity).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_network

import numpy as np

from configtron.learner.chance import seeded
from configtron.learner.class_cells import ClassCells
from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts, Floats, contexts_of
from configtron.learner.driver_support import Mask
from configtron.learner.mixes import LEAST_SHARE, arms_of, class_ids, class_shares
from configtron.learner.rulebook import LONGEST, learned_profile
from configtron.learner.table_policy import TablePolicy
from configtron.learner.traffic import Traffic
from configtron.model.bounds import check_number
from configtron.model.draw import Mix
from configtron.model.errors import BadInput
from configtron.model.fleet import WHOLE, Band, FleetMap
from configtron.model.nouns import Profile

# Ends of the bands, us: wide, so that two connections of a page mostly fall into one; the last one has no end.
BAND_ENDS_US = (15_000, 60_000, 240_000, 2**32 - 1)
# By so much of the clients' standard deviation another class has to be nearer, or a prefix keeps the former one.
NEARER = 0.25
# First number of the seeds of a map's chance.
TURNS = 43
# Prefixes whose form is remembered: those of most maps.
REMEMBERED = 200_000
# Default's profile, if no human has one of that name.
UNTOUCHED = "default"


@dataclass(frozen=True, slots=True)
class MapOptions:
    """How maps are made.

    seed           of what a map leaves to chance
    holdback       share of clients that keep Default
    least_clients  clients of one epoch that a prefix needs to be listed
    new_prefixes   most prefixes that a map adds to the former one
    most_prefixes  most prefixes of a map
    epoch_s, lease_s, ports  as in `FleetMap`
    valid_s        after so long without a newer map, Default applies
    owned          prefixes that a human decides for: none inside them is listed
    owned_profiles profiles of humans, whose names are taken
    """

    seed: int = 1
    holdback: float = 0.05
    least_clients: int = 20
    new_prefixes: int = 1_000
    most_prefixes: int = 100_000
    epoch_s: int = 600
    lease_s: float = 3.0
    valid_s: float = 6 * 3600.0
    ports: tuple[int, ...] = (80, 443)
    owned: tuple[str, ...] = ()
    owned_profiles: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        """Check ranges. Errors: `BadInput`."""
        check_number("holdback", self.holdback, 0, 1)
        for name in ("least_clients", "epoch_s"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name in ("seed", "new_prefixes", "most_prefixes"):
            check_number(name, getattr(self, name), 0, whole=True)
        if self.holdback >= 1.0:
            raise BadInput("holdback: below 1, or no client is left to learn from")
        if self.valid_s < self.epoch_s:
            raise BadInput(
                f"valid_s: a map that is valid for {self.valid_s:g} s ends before its epoch of {self.epoch_s} s"
            )


@dataclass(frozen=True, slots=True)
class MadeMap:
    """A map; configurations: the place in the policy's grid of each profile, by name."""

    map: FleetMap
    configurations: Mapping[str, int]


def empty_map(options: MapOptions, *, term: int, version: int, key: bytes, now_ns: int) -> MadeMap:
    """Return the map of a manager that has no policy yet: nothing is drawn."""
    return MadeMap(assembled(options, (term, version, key, now_ns), {}, {}, {}, ()), {})


def map_of(
    policy: TablePolicy,
    traffic: Traffic,
    options: MapOptions,
    *,
    term: int,
    version: int,
    key: bytes,
    now_ns: int,
    among: Mask | None = None,
    former: FleetMap | None = None,
) -> MadeMap:
    """Return the map of the next epoch. among: (configurations,) what may be drawn, None for all; former: the map
    before, whose prefixes are not new."""
    rng, default = seeded(TURNS, options.seed, version), policy.grid.default
    shares = class_shares(policy, np.ones(len(policy.grid), dtype=np.bool_) if among is None else among)
    ids = class_ids(policy)
    arms = {
        name: [arm for arm in arms_of(shares[k], default, rng) if arm[1] >= LEAST_SHARE] for k, name in enumerate(ids)
    }
    profiles = _profiles(policy, {at for some in arms.values() for at, _ in some}, options.owned_profiles)
    mixes = {name: _mix([(profiles[at].name, share) for at, share in some]) for name, some in arms.items()}
    of_prefix = classes_of(policy, traffic, former)
    prefixes = listed(of_prefix, options, former)
    bands = bands_of(of_prefix, ids)
    named = {profile.name: profile for _, profile in sorted(profiles.items())}
    made = assembled(options, (term, version, key, now_ns), named, mixes, prefixes, bands)
    return MadeMap(made, {profile.name: at for at, profile in profiles.items()})


def assembled(
    options: MapOptions,
    place: tuple[int, int, bytes, int],
    profiles: Mapping[str, Profile],
    mixes: Mapping[str, tuple[tuple[str, int], ...]],
    prefixes: Mapping[str, str],
    bands: tuple[Band, ...],
) -> FleetMap:
    """Return a map of these parts. place: term, version, key of the draw, and wall clock now, ns."""
    term, version, key, now_ns = place
    not_after = now_ns + round(options.valid_s * 1e9)
    share = round(options.holdback * WHOLE)
    return FleetMap(term, version, profiles, mixes, prefixes, key, not_after, bands, share, options.epoch_s,
                    options.ports, options.lease_s)  # fmt: skip


def _mix(shares: Sequence[tuple[str, float]]) -> tuple[tuple[str, int], ...]:
    made = Mix.of(shares)
    return tuple(zip(made.profiles, made.weights, strict=True))


def _profiles(policy: TablePolicy, used: Collection[int], owned: Collection[str]) -> dict[int, Profile]:
    """Return the profile of each configuration, under names that no human has."""
    found = {}
    for at in sorted(used):
        made = learned_profile(policy.grid, at)
        name = UNTOUCHED if at == policy.grid.default else made.name
        found[at] = Profile(free_name(name, owned), made.settings)
    return found


def free_name(name: str, owned: Collection[str]) -> str:
    """Return a profile's name, with a number behind it where a human has one of that name."""
    found, turn = name, 0
    while found in owned:
        turn += 1
        found = f"{name[: LONGEST - 4]}-{turn}"
    return found


@dataclass(frozen=True, slots=True)
class PrefixClass:
    """A prefix, its class, how many clients it has, its round trip."""

    prefix: str
    class_name: str
    clients: int
    rtt_ms: float


def classes_of(policy: TablePolicy, traffic: Traffic, former: FleetMap | None = None) -> list[PrefixClass]:
    """Return every prefix of a known class, in order of name.

    A prefix keeps the class of the former map unless another one is nearer by `NEARER`: what lies between two classes
    would change with every sample.
    """
    known = traffic.contexts()
    if not known:
        return []
    contexts = contexts_of([context for context, _ in known], policy.sites)
    network, ids = policy.where(contexts)[1], class_ids(policy)
    if not policy.class_ids_:
        network = np.zeros(len(known), dtype=np.int64)
    elif former is not None and isinstance(policy.cells, ClassCells):
        before = [former.prefixes.get(context.prefix, "") for context, _ in known]
        network = _settled(policy.cells, contexts, network, before)
    return [
        PrefixClass(context.prefix, ids[at], one.clients, np.inf if context.rtt_ms is None else context.rtt_ms)
        for (context, one), at in zip(known, network, strict=True)
        if at >= 0
    ]


def _settled(cells: ClassCells, contexts: Contexts, network: Codes, former: Sequence[str]) -> Codes:
    """Return (n,) classes; the former map's, by name, where the nearest is not nearer by `NEARER`."""
    place = {name: at for at, name in enumerate(cells.class_ids)}
    before = np.array([place.get(name, -1) for name in former], dtype=np.int64)
    points, keeps = cells.points(contexts), (before >= 0) & (network >= 0)
    near, far = (_distance(cells.classes_, points, np.maximum(of, 0)) for of in (network, before))
    found: Codes = np.where(keeps & (far - near < NEARER), before, network)
    return found


def _distance(classes: Classes, points: Floats, network: Codes) -> Floats:
    """(n,) distance of points (n, 3 + axes) from the centroids of these classes (n,)."""
    apart = np.nan_to_num((points - classes.centroid[network]) / classes.scale[network])
    found: Floats = np.sqrt((apart**2).sum(axis=1))
    return found


def listed(known: Sequence[PrefixClass], options: MapOptions, former: FleetMap | None) -> dict[str, str]:
    """Return prefix -> class of those with clients enough that no human decides for. An agent may report an
    invalid prefix; in a map it would keep the whole map from being published."""
    owned, before = _networks(options.owned), {} if former is None else former.prefixes
    able = [one for one in known if one.clients >= options.least_clients and _is_prefix(one.prefix)
            and not _within(one.prefix, owned)]  # fmt: skip
    able.sort(key=lambda one: (one.prefix not in before, -one.clients, one.prefix))
    old = sum(one.prefix in before for one in able)
    kept = able[: min(old + options.new_prefixes, options.most_prefixes)]
    return {one.prefix: one.class_name for one in sorted(kept, key=lambda one: one.prefix)}


@lru_cache(REMEMBERED)
def _is_prefix(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_network(text))
    except ValueError:
        return False


def _networks(prefixes: Collection[str]) -> frozenset[tuple[int, int, int]]:
    """Return prefixes as (version, length, address)."""
    networks = map(ip_network, prefixes)
    return frozenset((one.version, one.prefixlen, int(one.network_address)) for one in networks)


def _within(prefix: str, owned: frozenset[tuple[int, int, int]]) -> bool:
    """Return whether a prefix is one of these, or inside of one."""
    if not owned:
        return False
    network = ip_network(prefix)
    address, longest = int(network.network_address), network.max_prefixlen
    return any(
        version == network.version
        and length <= network.prefixlen
        and address >> (longest - length) == start >> (longest - length)
        for version, length, start in owned
    )


def bands_of(known: Sequence[PrefixClass], ids: Sequence[str]) -> tuple[Band, ...]:
    """Return the bands of round trips and the class that most of their clients are of; a band of no client has the
    class of the next band that has one, so that no hole is between."""
    clients: list[Counter[str]] = [Counter() for _ in BAND_ENDS_US]
    for one in known:
        at = int(np.searchsorted(BAND_ENDS_US[:-1], one.rtt_ms * 1000.0))
        clients[at][one.class_name] += max(one.clients, 1)
    order = {name: at for at, name in enumerate(ids)}
    chosen = [min(some, key=lambda name: (-some[name], order[name])) if some else "" for some in clients]
    found = []
    for at, end in enumerate(BAND_ENDS_US):
        name = next((one for one in chosen[at:] if one), "")
        if name:
            found.append(Band(end, name))
    return tuple(found)
