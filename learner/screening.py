# SPDX-License-Identifier: MIT
"""Screening of outcomes between updates: a configuration that is several times slower is dropped within a dozen loads.

Question   Is this configuration broken, everywhere or in one network class, so that it must not wait for an update?
Method     A one-sided cumulative sum (CUSUM) per configuration, over all classes and in each class group. Evidence of
           one load is the excess of its ln(ms) over Default's expectation in its cell, less the present mean excess of
           all configurations' loads (an outage slows all alike), less a threshold (ln 2, or two deviations of a load),
           in units of ln 2 and at most one either way. At `LIMIT` the configuration is dropped. Expectations are the
           last update's; running offsets per site, class and cell correct them with each load.
Stop when  a sum reaches `LIMIT`: seven loads for one ten times slower, some ten for one three times slower.
Reads as   (groups, configurations) whether each is dropped; loads each drop took.
Fails as   two times slower and less: left to the model. A configuration that takes most sessions and breaks is an
           outage to this test, since few other loads are there to compare.
Differs    from the guardrail in `thompson.py`, which judges by the model and at updates only.
Source     Page 1954 (CUSUM); Kazerouni et al. 2017 and Wu et al. 2016 (conservative bandits) for why.

A dropped configuration returns where loads of it, which another program decided, bring its sum back to zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Floats
from configtron.learner.ledger import LOAD_DEVIATION
from configtron.learner.state import keep

# Sum of evidence that drops a configuration. With one load in ten an outlier, six in a net row are met once in a
# million loads; three would be met once in a thousand.
LIMIT = 6.0
# Excess that is no evidence: twice as slow, or so many deviations of a load.
HARMFUL_LN, DEVIATIONS = float(np.log(2.0)), 2.0
# Weight of one load in the running level of all loads, and in their running deviation.
LEVEL_SHARE, DEVIATION_SHARE = 0.2, 0.02
# A load further off counts as so far: ln(20).
FAR_LN = 3.0
# Deviation of a load until some have shown it; and the least and most it is taken to be. Above the most, ten times
# slower would be within two deviations.
FIRST_DEVIATION_LN, LEAST_DEVIATION_LN, MOST_DEVIATION_LN = 0.5, 0.15, 0.8
# Loads by which an offset is drawn to zero.
OFFSET_LOADS = 1.0
# Mean absolute deviation of a normal variable to its standard deviation.
DEVIATIONS_PER_MEAN = 1.2533
# Excess below which a load's cost is taken to be linear in it.
LINEAR_LN = 0.7
# Standard errors by which an interval's cost must be above its limit to end it: bad luck alone seldom is.
PURSE_ERRORS = 2.0
# Loads of a site, and of a class group, that place a cell of which nothing was seen.
SURE_LOADS = 5.0
# First row of the sums: all groups together.
EVERYWHERE = 0


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """The state of the screening. Arrays are changed in place.

    evidence  (1 + groups, configurations) sums; row 0 over all groups
    loads     (1 + groups, configurations) loads since a sum was last zero
    dropped   (1 + groups, configurations) loads at which it was dropped; 0: it is not
    level     (4,) running level of all loads over their expectations, ln; running deviation of one load, ln; running
              mean and mean square of Default's loads' cost far beyond their expectations, as a share
    """

    evidence: Floats
    loads: Floats
    dropped: Floats
    level: Floats

    def out(self) -> npt.NDArray[np.bool_]:
        """Return (groups, configurations) whether it is dropped there."""
        found: npt.NDArray[np.bool_] = (self.dropped[1:] > 0) | (self.dropped[:1] > 0)
        return found


def new_screen(groups: int, configurations: int) -> Screen:
    """Nothing seen."""
    evidence, loads, dropped = (np.zeros((1 + groups, configurations)) for _ in range(3))
    return Screen(evidence, loads, dropped, np.array([0.0, FIRST_DEVIATION_LN, 0.0, 0.0]))


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    """Running corrections of expectations since the last update: sums of rests and loads, (2, n) each; changed in
    place."""

    place: Floats
    group: Floats
    row: Floats


def new_offsets(places: int, groups: int, rows: int) -> Offsets:
    """None yet."""
    return Offsets(np.zeros((2, places)), np.zeros((2, groups)), np.zeros((2, rows)))


@dataclass(frozen=True, slots=True, eq=False)
class ScreenedLoads:
    """Outcomes to screen, (n,) each: cell, its place among the sites, class group, configuration, ln(ms) over Default's
    expectation there, that expectation in ms, and how many of this policy's own decisions it stands for: 1 if it
    decided itself, else its own probability of it over the logger's. known: whether the cell had loads by the last
    update; where not, others of its site and group give the expectation, once there are `SURE_LOADS`."""

    row: Codes
    place: Codes
    group: Codes
    configuration: Codes
    over_ln: Floats
    default_ms: Floats
    stands_for: Floats
    known: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Purse:
    """The budget of one interval. ms: (4,), changed in place: the limit, spent so far, its variance (ms squared), 1
    once it was more by `PURSE_ERRORS` standard errors."""

    ms: Floats

    def spend(self, cost_ms: float, deviation_ms: float) -> bool:
        """Return whether this load emptied it."""
        self.ms[1] += cost_ms
        self.ms[2] += deviation_ms * deviation_ms
        empty = self.ms[3] == 0.0 and self.ms[1] - PURSE_ERRORS * self.ms[2] ** 0.5 > self.ms[0]
        self.ms[3] = max(self.ms[3], float(empty))
        return bool(empty)

    @property
    def empty(self) -> bool:
        """Return whether nothing but Default is served until the next update."""
        return bool(self.ms[3] > 0)


def purse(limit_ms: float) -> Purse:
    """Return a purse of which nothing is spent."""
    return Purse(np.array([limit_ms, 0.0, 0.0, 0.0]))


def screened(screen: Screen, offsets: Offsets, money: Purse, loads: ScreenedLoads, default: int) -> tuple[int, bool]:
    """Take in loads in their order, up to the first one that drops or returns a configuration, or empties the purse.

    Return how many were taken, and whether the last of them dropped or returned a configuration. The same bits however
    loads are cut into calls.
    """
    columns = (loads.row, loads.place, loads.group, loads.configuration, loads.over_ln, loads.default_ms,
               loads.stands_for, loads.known)  # fmt: skip
    for at, (row, place, group, configuration, over_ln, default_ms, stands_for, known) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if row < 0:
            continue
        sure = known > 0 or _sure(offsets, row, place, group)
        rest = _rest(offsets, row, place, group, over_ln, configuration == default)
        if not sure:
            continue
        level, deviation = screen.level[:2]
        evidence = _evidence(rest - level, deviation)
        near = min(max(rest, -FAR_LN), FAR_LN)
        screen.level[0] = level + LEVEL_SHARE * (near - level)
        off = DEVIATIONS_PER_MEAN * abs(min(max(rest - level, -1.0), 1.0)) - deviation
        least_most = LEAST_DEVIATION_LN, MOST_DEVIATION_LN
        screen.level[1] = min(max(deviation + DEVIATION_SHARE * off, least_most[0]), least_most[1])
        if configuration == default:
            beyond = max(cost_share(near - level) - LINEAR_LN, 0.0)
            screen.level[2] += DEVIATION_SHARE * (beyond - screen.level[2])
            screen.level[3] += DEVIATION_SHARE * (beyond * beyond - screen.level[3])
            continue
        changed = [_counted(screen, one, configuration, evidence) for one in (EVERYWHERE, 1 + group)]
        mine_ms = default_ms * float(np.exp(over_ln - rest)) * stands_for
        deviation_share = (LOAD_DEVIATION**2 + float(screen.level[3])) ** 0.5
        cost = cost_share(near - level) - float(screen.level[2])
        changed.append(money.spend(mine_ms * cost, deviation_share * mine_ms))
        if any(changed):
            return at + 1, True
    return len(loads), False


def _rest(offsets: Offsets, row: int, place: int, group: int, over_ln: float, of_default: bool) -> float:
    """Return ln(ms) over the corrected expectation; Default's loads correct it further."""
    rest = over_ln
    for sums, where in ((offsets.place, place), (offsets.group, group), (offsets.row, row)):
        rest_here = rest
        rest -= float(sums[0, where] / (sums[1, where] + OFFSET_LOADS))
        if of_default:
            sums[0, where] += rest_here
            sums[1, where] += 1.0
    return rest


def _sure(offsets: Offsets, row: int, place: int, group: int) -> bool:
    """Return whether Default's loads since the last update give this cell's expectation."""
    return bool(offsets.row[1, row] > 0 or min(offsets.place[1, place], offsets.group[1, group]) >= SURE_LOADS)


def _evidence(above_ln: float, deviation: float) -> float:
    """Return the evidence of one load: from -1 (not harmful) to 1 (harmful)."""
    threshold = max(HARMFUL_LN, DEVIATIONS * deviation)
    return min(max((above_ln - threshold) / HARMFUL_LN, -1.0), 1.0)


def cost_share(over_ln: float) -> float:
    """Return the cost of a load as a share of Default's: exponential, but linear for a little more, so that noise has
    mean 0."""
    if over_ln <= 0.0:
        return over_ln if over_ln > -0.3 else float(np.expm1(over_ln + 0.3)) * 0.7 - 0.3
    return over_ln if over_ln < LINEAR_LN else float(np.expm1(over_ln) - np.expm1(LINEAR_LN)) + LINEAR_LN


def _counted(screen: Screen, group: int, configuration: int, evidence: float) -> bool:
    """Add one load to one sum; whether that drops or returns the configuration."""
    at = group, configuration
    total = min(max(float(screen.evidence[at]) + evidence, 0.0), LIMIT)
    screen.evidence[at] = total
    screen.loads[at] = screen.loads[at] + 1.0 if total > 0 else 0.0
    was = screen.dropped[at] > 0
    if not was and total >= LIMIT:
        screen.dropped[at] = screen.loads[at]
        return True
    if was and total == 0.0:
        screen.dropped[at] = 0.0
        return True
    return False
