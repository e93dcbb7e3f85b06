# SPDX-License-Identifier: MIT
"""Rows that agents report, as outcomes that a policy learns from; and why the others do not count.

Question   What was drawn for this client, how likely was that, and how long did its page take?
Method     A row names the map that was in force, by term and version. By that map its class, arm and holdback give
           profile and propensity; where it states another profile or propensity than every map of ours, it does not
           teach. A client that is held back has Default, and so has one that drew Default: both have the probability
           of either. A load that failed, or took longer, counts as `WORST_MS`: a profile that ends connections must not
           look fast because its loads are missing. Of one unit at most `MOST_PER_UNIT` rows of an epoch teach.
Stop when  every row is an outcome or a count.
Reads as   outcomes of source "live", and a count of what was left out, by reason.
Fails as   rows that an agent marks as not teaching are left out under its reason.
Differs    from CT, which learns from every report.
Source     Horvitz and Thompson 1952.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from configtron.learner.traffic import Traffic
from configtron.model.fleet import WHOLE, FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.nouns import Decision, Outcome, Profile

# What a load counts as that failed or took longer, ms: the minute after which no visitor waits, and most servers close.
WORST_MS = 60_000.0
# Rows of a unit in an epoch that teach: a visitor loads a page, and some more.
MOST_PER_UNIT = 20
# Propensities of 65536ths, as floating point numbers add them up.
ALIKE = 1e-9
# Why a row does not count, beside the agent's own reasons; those beyond so many are counted as one.
NO_MAP, NO_CLASS, NO_ARM, OTHER_PROPENSITY, OVER_UNIT, NO_TIME = (
    "map-unknown", "class-unknown", "arm-unknown", "propensity-differs", "over-unit-cap", "no-load-time",
)  # fmt: skip
MOST_REASONS, OTHER = 40, "other"

# By (term, version), the latest last.
Maps = Mapping[tuple[int, int], FleetMap]


def drawn_of(row: OutcomeRow, fleet_map: FleetMap, default: Profile) -> tuple[Profile, float] | str:
    """Return the profile that was drawn for a row under its map, and how likely that was; or why the row does not
    count. default: the untouched stack's profile in the policy's grid."""
    share = fleet_map.holdback / WHOLE
    mix = fleet_map.mixes.get(row.class_name)
    if mix is None:
        return NO_CLASS
    if not row.held and not 0 <= (-1 if row.arm is None else row.arm) < len(mix):
        return NO_ARM
    settings = [fleet_map.profiles[name].settings for name, _ in mix]
    weight = [parts / WHOLE * (1.0 - share) for _, parts in mix]
    name, mine = ("", share) if row.held or row.arm is None else (mix[row.arm][0], weight[row.arm])
    if row.profile not in ("", name) or (row.propensity is not None and abs(row.propensity - mine) > ALIKE):
        return OTHER_PROPENSITY
    drawn = fleet_map.profiles[name] if name else default
    if not name or not drawn.settings:
        return default, share + sum(weight[at] for at, one in enumerate(settings) if not one)
    return drawn, sum(weight[at] for at, one in enumerate(settings) if one == drawn.settings)


def drawn_by(row: OutcomeRow, maps: Maps, default: Profile) -> tuple[Profile, float] | str:
    """Return what was drawn for a row, by the map that it names, else by the latest map that states the same.

    A manager gives maps numbers of its own, so a maker knows its maps by what they say of this class and arm.
    """
    if not row.class_name and row.arm is None:
        # Nothing is drawn for a client of no class: Default, certainly.
        return default, 1.0
    named = maps.get((row.term, row.map_version))
    found = NO_MAP if named is None else drawn_of(row, named, default)
    others = reversed(list(maps.values())) if isinstance(found, str) else ()
    same = (one for one in (drawn_of(row, other, default) for other in others) if not isinstance(one, str))
    return next(same, found)


def outcomes_of(
    rows: Iterable[OutcomeRow], maps: Maps, traffic: Traffic, counts: Counter[tuple[int, str]], default: Profile,
    left_out: Counter[str],
) -> list[Outcome]:  # fmt: skip
    """Return rows as outcomes, in their order. maps: by (term, version); counts: rows of each (epoch, unit) so far, and
    left_out: rows that do not count, by reason; both grow."""
    outcomes = []
    for row in rows:
        found = _outcome(row, maps, traffic, counts, default)
        if isinstance(found, str):
            left_out[found if found in left_out or len(left_out) < MOST_REASONS else OTHER] += 1
        else:
            outcomes.append(found)
    return outcomes


def _outcome(
    row: OutcomeRow, maps: Maps, traffic: Traffic, counts: Counter[tuple[int, str]], default: Profile
) -> Outcome | str:
    """Return a row's outcome, or why it does not count."""
    if not row.teaches:
        return row.why_not or OTHER
    if row.plt_ms is None and not row.failure or row.plt_ms is not None and not 0.0 < row.plt_ms < math.inf:
        return NO_TIME
    context, drawn = traffic.take(row), drawn_by(row, maps, default)
    if isinstance(drawn, str):
        return drawn
    counts[row.epoch, row.unit] += 1
    if counts[row.epoch, row.unit] > MOST_PER_UNIT:
        return OVER_UNIT
    plt_ms = WORST_MS if row.failure or row.plt_ms is None else min(row.plt_ms, WORST_MS)
    return Outcome(Decision(context, row.class_name, drawn[0], "default", None, drawn[1]), plt_ms, row.at_ns, "live")


def default_of(grid: Grid | None) -> Profile:
    """Return the profile of the untouched stack: of a grid, or before there is one."""
    return Profile("default") if grid is None else grid.profiles[grid.default]
