# SPDX-License-Identifier: MIT
"""Rows of outcomes as two arms: clients that the map applies to, and clients that are held back.

Question   What do the rows of a fleet say of the map as a whole, against its holdback?
Method     All loads count by what was drawn, whether or not the client's class has a mix (intention to treat): who is
           held back is chance, who has a class is not. A load that failed is one without a time. What does not teach is
           left out and counted by its reason. Of each load is expected what held-back loads of the other half of the
           prefixes took, for its site and class: no load, and no client, is in its own expectation, and no profile is.
           Shares of units are compared with the propensities that were logged, map by map and class by class; of the
           holdback, which is drawn once for ever, in one epoch.
Stop when  the rows are read.
Reads as   `ArmLoads` for `sequential/differences.py`, reasons with counts, a p-value of the sample ratio.
Fails as   p = 1 where propensities are not logged: `units` is 0 then.
Differs    ConfigTron reports the loads of tuned clients alone.
Source     Fisher 1935; Fabijan et al. 2019; Chernozhukov et al. 2018 (cross-fitting).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.sequential.always_valid import width
from configtron.learner.sequential.differences import GOALS, ArmDifference, ArmLoads, difference
from configtron.learner.sequential.sample_ratio import by_strata
from configtron.model.fleet import OutcomeRow

# Loads of a site by which a class's expectation is drawn to it, and of all by which a site's is.
PRIOR_LOADS = 20.0
# Units in either arm at which intervals are narrowest: some hours of a busy site's holdback.
TUNED_UNITS = 5000.0
# How often an interval of the report may ever leave the truth out.
ERROR = 0.05
# Why a row counts in no figure, beside the reasons that agents report.
NO_TIME = "no-time"


@dataclass(frozen=True, slots=True, eq=False)
class FleetLoads:
    """n loads that count. loads: as two arms; at_ns (n,); agent, class_: codes (n,) of agents and classes; profiles:
    the n names ("": Default); aside: reason -> loads that do not count; rows: all of them."""

    loads: ArmLoads
    at_ns: Codes
    agent: Codes
    agents: tuple[str, ...]
    class_: Codes
    classes: tuple[str, ...]
    profiles: tuple[str, ...]
    aside: Mapping[str, int]
    rows: int

    def of_agent(self, code: int) -> ArmLoads:
        """Return the loads of one agent."""
        return self.loads[self.agent == code]

    def of_class(self, code: int) -> ArmLoads:
        """Return the loads of one class."""
        return self.loads[self.class_ == code]


@dataclass(frozen=True, slots=True)
class GoalInterval:
    """A difference from held-back clients, tuned less held back, with an interval that holds at all times; low, high:
    infinite where `found.reason` says why nothing is known. level_low, level_high: of either arm, control first."""

    found: ArmDifference
    low: float
    high: float
    level_low: tuple[float, float]
    level_high: tuple[float, float]


def fleet_loads(rows: Sequence[OutcomeRow]) -> FleetLoads:
    """Return the loads of rows that count."""
    aside: Counter[str] = Counter(_aside(row) for row in rows)
    counted = [row for row in rows if not _aside(row)]
    del aside[""]
    prefix, _ = _codes(row.prefix for row in counted)
    unit, _ = _codes(row.unit for row in counted)
    site, sites = _codes(row.site for row in counted)
    class_, classes = _codes(row.class_name for row in counted)
    agent, agents = _codes(row.agent for row in counted)
    ln_ms = np.array([np.inf if row.plt_ms is None else np.log(row.plt_ms) for row in counted], dtype=np.float64)
    treated = np.array([not row.held for row in counted], dtype=np.bool_)
    expected = expected_ln(site * max(len(classes), 1) + class_, site, ln_ms, ~treated, prefix % 2)
    at_ns = np.array([row.at_ns for row in counted], dtype=np.int64)
    return FleetLoads(
        ArmLoads(treated, ln_ms, unit, prefix, expected), at_ns, agent, agents, class_, classes,
        tuple("" if row.arm is None else row.profile for row in counted), dict(aside), len(rows),
    )  # fmt: skip


def _aside(row: OutcomeRow) -> str:
    """Return why a row counts in no figure; "": it counts."""
    if not row.teaches:
        return row.why_not or "unnamed"
    return NO_TIME if row.plt_ms is None and not row.failure or row.plt_ms is not None and row.plt_ms <= 0.0 else ""


def _codes(words: Iterable[str]) -> tuple[Codes, tuple[str, ...]]:
    known: dict[str, int] = {}
    codes = np.array([known.setdefault(word, len(known)) for word in words], dtype=np.int64)
    return codes, tuple(known)


def expected_ln(cell: Codes, site: Codes, ln_ms: Floats, control: Mask, half: Codes) -> Floats:
    """(n,) what control loads of the other half took, by cell, drawn to those of the site and of all; NaN: of none."""
    found = np.full(len(ln_ms), np.nan)
    for side in (0, 1):
        other, mine = control & (half != side) & np.isfinite(ln_ms), half == side
        if not other.any():
            continue
        everything = np.full(len(ln_ms), float(ln_ms[other].mean()))
        by_site = _drawn(site, ln_ms, other, everything)
        found[mine] = _drawn(cell, ln_ms, other, by_site)[mine]
    return found


def _drawn(code: Codes, ln_ms: Floats, of: Mask, towards: Floats) -> Floats:
    """(n,) means by code of some loads, drawn towards (n,) others by `PRIOR_LOADS`."""
    count = np.bincount(code[of], minlength=int(code.max()) + 1)
    total = np.bincount(code[of], weights=ln_ms[of], minlength=len(count))
    found: Floats = (total[code] + PRIOR_LOADS * towards) / (count[code] + PRIOR_LOADS)
    return found


def intervals(loads: ArmLoads, error: float = ERROR) -> tuple[GoalInterval, ...]:
    """Return each goal's difference with its interval."""
    return tuple(_interval(difference(loads, goal), error) for goal in GOALS)


def _interval(found: ArmDifference, error: float) -> GoalInterval:
    reach = width(found.error**2, found.effective_units, error, TUNED_UNITS / 2.0) if not found.reason else np.inf
    ends = [width(own**2, float(units), error, TUNED_UNITS) if units and np.isfinite(own) else np.inf
            for own, units in zip(found.arm_error, found.units, strict=True)]  # fmt: skip
    failures = found.goal.share == 1.0
    low, high = (
        tuple(_moved(level, sign * end, failures) for level, end in zip(found.level, ends, strict=True))
        for sign in (-1.0, 1.0)
    )
    return GoalInterval(found, found.estimate - reach, found.estimate + reach, low, high)  # type: ignore[arg-type]


def _moved(level: float, by: float, share: bool) -> float:
    """Return a level moved by an error of its own scale: a share by itself, ms by their logarithm."""
    if share:
        return float(min(max(level + by, 0.0), 1.0))
    return float(level * np.exp(by)) if np.isfinite(by) else float(np.inf if by > 0 else 0.0)


@dataclass(frozen=True, slots=True)
class RatioCheck:
    """p-value that units arrived as they were drawn; units that it rests on: 0 where none has a known propensity, or
    no class of a map has enough of them."""

    p: float
    units: int


def ratio_of(rows: Iterable[OutcomeRow]) -> RatioCheck:
    """Compare units by arm with the propensities that were logged; failed loads count.

    Arms are drawn anew each epoch: all units of a map's class are independent draws among them. Who is held back is
    drawn once: of a class, the units of one epoch are, that with most of them.
    """
    arms: dict[tuple[int, int, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    held: dict[str, dict[int, tuple[set[str], set[str]]]] = defaultdict(lambda: defaultdict(lambda: (set(), set())))
    chance: dict[tuple[int, int, str], dict[int, float]] = defaultdict(dict)
    holdback: dict[str, float] = {}
    of_map: dict[tuple[int, int], float] = {}
    for row in rows:
        if row.arm is None and not row.held or not row.class_name:
            continue
        held[row.class_name][row.epoch][row.held].add(row.unit)
        if row.arm is not None:
            arms[row.term, row.map_version, row.class_name][row.arm].add(row.unit)
        if row.propensity is not None and row.held:
            holdback[row.class_name] = of_map[row.term, row.map_version] = row.propensity
        elif row.propensity is not None and row.arm is not None:
            chance[row.term, row.map_version, row.class_name][row.arm] = row.propensity
    strata = [_drawn_arms(drawn, chance[of], of_map.get(of[:2])) for of, drawn in arms.items()
              if set(drawn) == set(chance[of])]  # fmt: skip
    for class_name, share in holdback.items():
        most = max(held[class_name].values(), key=lambda pair: len(pair[0]) + len(pair[1]))
        strata.append(([len(most[0]), len(most[1])], [1.0 - share, share]))
    return RatioCheck(*by_strata(strata))


def _drawn_arms(
    drawn: Mapping[int, set[str]], chance: Mapping[int, float], held: float | None
) -> tuple[list[int], list[float]]:
    """Return units of a map's class and the arms' weights among clients that are not held back; held: the share of
    those that are; None: unknown, so that arms without a row are not detected."""
    whole = sum(chance.values()) if held is None else max(1.0 - held, 1e-9)
    return [len(drawn[arm]) for arm in sorted(drawn)], [chance[arm] / max(whole, 1e-9) for arm in sorted(drawn)]
