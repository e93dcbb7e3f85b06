# SPDX-License-Identifier: MIT
"""Rows that agents report, as outcomes that a policy learns from; and why the others do not count.

Question   What was drawn for this client, how likely was that, and how long did its page take?
Method     A row names the map that was in force, by term and version. By that map its class, arm and holdback give
           profile and propensity; where it states another profile or propensity than every map of ours, it does not
           teach. A client that is held back has Default, and so has one that drew Default: both have the probability
           of either. A load that failed, or took longer, counts as `WORST_MS`: a profile that ends connections must not
           look fast because its loads are missing. Of one unit at most `MOST_PER_UNIT` rows of an epoch teach.
Stop when  every row is an outcome or a count.
Reads as   `Logged` columns of source "live", and a count of what was left out, by reason.
Fails as   rows that an agent marks as not teaching are left out under its reason.
Differs    from CT, which learns from every report.
Source     Horvitz and Thompson 1952.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from configtron.learner.logged import Logged, logged_of
from configtron.learner.traffic import Traffic
from configtron.model.fleet import WHOLE, FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.nouns import Context, Decision, Outcome, Profile

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


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """What the map of a row says about it: the profile that was drawn, and how likely that was; or why it does not
    count."""

    profile: Profile = Profile("")
    propensity: float = math.nan
    why_not: str = ""


@dataclass(slots=True)
class RowLesson:
    """Outcomes of rows in their order; left_out: rows by reason."""

    outcomes: list[Outcome] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def logged(self) -> Logged:
        """Return them as columns."""
        return logged_of(self.outcomes)

    def leave_out(self, why: str) -> None:
        """Count a row that does not teach."""
        known = why in self.left_out or len(self.left_out) < MOST_REASONS
        self.left_out[why if known else OTHER] += 1


def drawn_of(row: OutcomeRow, fleet_map: FleetMap, default: Profile) -> DrawnRow:
    """Return what was drawn for a row under its map. default: the untouched stack's profile in the policy's grid."""
    share = fleet_map.holdback / WHOLE
    mix = fleet_map.mixes.get(row.class_name)
    if mix is None:
        return DrawnRow(why_not=NO_CLASS)
    if not row.held and not 0 <= (-1 if row.arm is None else row.arm) < len(mix):
        return DrawnRow(why_not=NO_ARM)
    settings = [fleet_map.profiles[name].settings for name, _ in mix]
    weight = [parts / WHOLE * (1.0 - share) for _, parts in mix]
    name, mine = ("", share) if row.held or row.arm is None else (mix[row.arm][0], weight[row.arm])
    if row.profile not in ("", name) or (row.propensity is not None and abs(row.propensity - mine) > ALIKE):
        return DrawnRow(why_not=OTHER_PROPENSITY)
    drawn = fleet_map.profiles[name] if name else default
    if not name or not drawn.settings:
        return DrawnRow(default, share + sum(weight[at] for at, one in enumerate(settings) if not one))
    return DrawnRow(drawn, sum(weight[at] for at, one in enumerate(settings) if one == drawn.settings))


def drawn_by(row: OutcomeRow, maps: Maps, default: Profile) -> DrawnRow:
    """Return what was drawn for a row, by the map that it names, else by the latest map that states the same.

    A manager gives maps numbers of its own, so a maker knows its maps by what they say of this class and arm.
    """
    if not row.class_name and row.arm is None:
        # Nothing is drawn for a client of no class: Default, certainly.
        return DrawnRow(default, 1.0)
    named = maps.get((row.term, row.map_version))
    found = DrawnRow(why_not=NO_MAP) if named is None else drawn_of(row, named, default)
    others = reversed(list(maps.values())) if found.why_not else ()
    alike = (one for one in (drawn_of(row, other, default) for other in others) if not one.why_not)
    return next(alike, found)


def lesson_of(
    rows: Iterable[OutcomeRow],
    maps: Maps,
    traffic: Traffic,
    counts: Counter[tuple[int, str]],
    default: Profile,
) -> RowLesson:
    """Return rows as outcomes. maps: by (term, version); counts: rows of each (epoch, unit) so far, which grows."""
    lesson = RowLesson()
    for row in rows:
        if not row.teaches:
            lesson.leave_out(row.why_not or OTHER)
            continue
        if row.plt_ms is None and not row.failure or row.plt_ms is not None and not 0.0 < row.plt_ms < math.inf:
            lesson.leave_out(NO_TIME)
            continue
        outcome = _outcome(row, traffic.take(row), maps, counts, default)
        if isinstance(outcome, str):
            lesson.leave_out(outcome)
        else:
            lesson.outcomes.append(outcome)
    return lesson


def _outcome(
    row: OutcomeRow,
    context: Context,
    maps: Maps,
    counts: Counter[tuple[int, str]],
    default: Profile,
) -> Outcome | str:
    """Return a row's outcome, or why it does not count."""
    drawn = drawn_by(row, maps, default)
    if drawn.why_not:
        return drawn.why_not
    counts[row.epoch, row.unit] += 1
    if counts[row.epoch, row.unit] > MOST_PER_UNIT:
        return OVER_UNIT
    plt_ms = WORST_MS if row.failure or row.plt_ms is None else min(row.plt_ms, WORST_MS)
    decision = Decision(context, row.class_name, drawn.profile, "default", None, drawn.propensity)
    return Outcome(decision, plt_ms, row.at_ns, "live")


def default_of(grid: Grid | None) -> Profile:
    """Return the profile of the untouched stack: of a grid, or before there is one."""
    return Profile("default") if grid is None else grid.profiles[grid.default]
