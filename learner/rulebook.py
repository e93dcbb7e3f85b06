# SPDX-License-Identifier: MIT
"""A policy as rules that a stack can hold: one profile a class, one class a prefix, and their cost.

Question   Which profile should a prefix get, if its stack cannot distinguish websites?
Method     A prefix's network is the median of its latest contexts (loss: the mean), its class the nearest. A class's
           profile is the configuration of the lowest `TablePolicy.cost` over the sites its clients asked for, as often
           as they did; where not every knob can be put in force, among those that leave the others at their default.
           Where each class's loaded profiles are known, a profile that its class never saw gives way to the
           class's substitute (`fallback.py`), else to Default. Knobs at their default are left out: no driver can
           refuse a knob that is not set.
Stop when  every class and prefix has its profile.
Reads as   profiles by name, prefix -> profile. `rule_cost.py` estimates their cost, on other clients.
Fails as   a prefix without a known network, or whose class does best with Default, is left out: its clients keep the
           untouched stack.
Differs    from CT, whose agent decides per connection and knows the website.
Source     CT sections 3 and 5 (AssignProfile(IP-Prefix, ID)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.class_cells import classed
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Context, Profile

# Names that `configtron tune` takes, at most so long.
LONGEST = 31


@dataclass(frozen=True, slots=True, eq=False)
class Rulebook:
    """classes: (class, profile's name, share of clients), "" for the untouched stack; prefixes: prefix -> profile.

    by_class   (K,) each class's configuration
    by_prefix  (prefixes,) each prefix's, by its code
    instead    classes that have a substitute, since none of their clients has loaded their own profile
    unseen     classes that are left at Default for that reason
    """

    profiles: dict[str, Profile]
    classes: tuple[tuple[str, str, float], ...]
    prefixes: dict[str, str]
    by_class: Codes
    by_prefix: Codes
    instead: int = 0
    unseen: int = 0

    def served(self, contexts: Contexts, network: Codes, default: int) -> Codes:
        """Return (n,) the configurations that a stack with these rules gives clients of those classes (n,): their
        prefix's, `default` where none is held; their class's where prefixes are not known."""
        if len(contexts.prefix) != len(network):
            return self.by_class[network]
        prefix = contexts.prefix
        return np.where(prefix < 0, default, np.append(self.by_prefix, default)[prefix])


def rulebook(
    policy: TablePolicy,
    contexts: Contexts,
    *,
    latest: Contexts | None = None,
    among: Mask | None = None,
    seen: Mask | None = None,
    instead: Codes | None = None,
    given: Codes | None = None,
) -> Rulebook:
    """Return the policy for clients as they came.

    latest: the prefixes' present contexts, if the rules are made on others; among: (configurations,) those that
    can be put in force; seen: (K, configurations) those that each class has loads of, where others must not be taken;
    instead: (K,) the substitute of such a class, in place of Default (of `among`, and seen);
    given: (K,) each class's configuration, where others decide it.
    Errors: `BadInput` for a policy without classes, or no known client.
    """
    classed(policy)
    row, network = policy.where(contexts)
    known = row >= 0
    if not known.any():
        raise BadInput("no client with bandwidth, round trip and loss to write rules for")
    if given is None:
        best = _best(policy, np.ones(len(policy.grid), dtype=np.bool_) if among is None else among, row[known])
    else:
        best = given
    default = policy.grid.default
    unseen = np.zeros(len(best), dtype=np.bool_) if seen is None else ~seen[np.arange(len(best)), best]
    unseen &= best != default
    best = _within_bound(policy, np.where(unseen, default if instead is None else instead, best))
    names = {int(at): profile for at, profile in zip(best, _named(policy.grid, best), strict=True)}
    share = np.bincount(network[known], minlength=len(best)) / known.sum()
    classes = tuple(
        (name, names[int(at)].name, float(part)) for name, at, part in zip(policy.class_ids_, best, share, strict=True)
    )
    latest = contexts if latest is None else latest
    network_of = _prefixes(policy, latest)
    held = {code: names[int(best[at])].name for code, at in network_of.items()}
    by_prefix = np.full(len(latest.prefixes), default)
    for code, at in network_of.items():
        by_prefix[code] = best[at]
    prefixes = {latest.prefixes[code]: name for code, name in held.items() if name}
    profiles = {profile.name: profile for profile in names.values() if profile.name}
    left = unseen & (best == default)
    return Rulebook(profiles, classes, prefixes, best, by_prefix, int((unseen & ~left).sum()), int(left.sum()))


def _best(policy: TablePolicy, among: Mask, row: Codes) -> Codes:
    """Return (K,) each class's configuration; where no client was seen, all sites count alike."""
    width = len(policy.sites) + 1
    asked = np.bincount(row, minlength=policy.cells.rows).reshape(-1, width).astype(np.float64)
    asked[asked.sum(axis=1) == 0, : max(width - 1, 1)] = 1.0
    cost = policy.cost(among)[:, among].reshape(len(asked), width, -1)
    of_class = (asked[:, :, None] * cost).sum(axis=1)
    if policy.bound is not None:
        of_class = np.where(policy.allowed()[0][:, among], of_class, np.inf)
    found: Codes = np.flatnonzero(among)[of_class.argmin(axis=1)]
    return np.where(np.isinf(of_class.min(axis=1)), policy.grid.default, found)


def _within_bound(policy: TablePolicy, best: Codes) -> Codes:
    """Return classes' configurations, Default in place of one that would harm neighbours."""
    if policy.bound is None:
        return best
    return np.where(policy.allowed()[0][np.arange(len(best)), best], best, policy.grid.default)


def _named(grid: Grid, best: Codes) -> list[Profile]:
    """Return profiles of the knobs off their default; "" for Default itself."""
    found = (learned_profile(grid, int(at)) for at in best)
    return [profile if profile.settings else Profile("") for profile in found]


def learned_profile(grid: Grid, configuration: int) -> Profile:
    """Return a configuration's knobs off their default, as a profile under a name that `tune` takes."""
    defaults = dict(grid.profiles[grid.default].settings)
    settings = grid.profiles[configuration].settings
    off = {knob: value for knob, value in settings if value != defaults[knob]}
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(str(value) for value in off.values())).strip("-")
    return Profile(f"learned{configuration}-{words}"[:LONGEST].rstrip("-"), tuple(off.items()))


def _prefixes(policy: TablePolicy, contexts: Contexts) -> dict[int, int]:
    """Return prefix's code -> its class, where its network is known."""
    if not len(contexts.prefix):
        return {}
    order = np.argsort(contexts.prefix, kind="stable")
    each = np.split(order, np.flatnonzero(np.diff(contexts.prefix[order])) + 1)
    network = classed(policy).classes_.of(_medians(contexts, each))
    codes = (int(contexts.prefix[rows[0]]) for rows in each)
    return {code: int(at) for code, at in zip(codes, network, strict=True) if code >= 0 and at >= 0}


def _medians(contexts: Contexts, each: list[Codes]) -> Contexts:
    """Return a row for each of these clients (row numbers): the same as `_median`'s, all at once."""
    known = np.asarray(~np.isnan(contexts.points()).any(axis=1))
    some = [rows[known[rows]] for rows in each]
    last = np.array([mine[-1] if len(mine) else rows[0] for mine, rows in zip(some, each, strict=True)])
    found = contexts[last]
    kbps, rtt, loss = found.bandwidth_kbps.copy(), found.rtt_ms.copy(), found.loss.copy()
    further = {name: column.copy() for name, column in found.numbers.items()}
    for at, mine in enumerate(some):
        if len(mine):
            kbps[at], rtt[at] = np.median(contexts.bandwidth_kbps[mine]), np.median(contexts.rtt_ms[mine])
            loss[at] = contexts.loss[mine].mean()
            for name, column in contexts.numbers.items():
                further[name][at] = _middle(column[mine])
    return replace(found, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss, numbers=further)


def _middle(column: Floats) -> float:
    """Return the median of the known values; NaN where there is none."""
    known = column[~np.isnan(column)]
    return float(np.median(known)) if len(known) else np.nan


def present(contexts: Contexts, site: str = "") -> Context:
    """One client's present network, from its latest contexts; asking for that site, or for any other."""
    return replace(_medians(contexts, [np.arange(len(contexts))]).row(0), site=site)
