# SPDX-License-Identifier: MIT
"""Difference between two arms in a goal of page loads, covariate-adjusted (CUPED), with a clustered standard error.

Question   By how much do the median, the 95th percentile, the geometric mean or the failures of page loads differ
           between clients that got a profile and clients that did not?
Method     1. Estimate. Quantiles and means of ln(ms) over the loads of each arm. A failed load is slower than all
           others, so that a profile that breaks connections cannot look good in a quantile.
           2. Influence of each load on its arm's estimate. For a quantile: (share - [load is below it]) / density. The
           density is by the spacing of the quantiles at both ends of the share's own interval.
           3. Adjustment. Subtract a multiple of the covariate: what the learner expected of the load before its arm was
           drawn (for a quantile: the probability of a load below it, normal about the expectation). The multiple is
           fitted on the other half of the clusters, so that no load adjusts itself. The covariate has mean zero over
           both arms, so that the difference stays unbiased whatever the learner expects.
           4. Variance of the sums by unit (client and epoch), and of the sums by prefix where prefixes are known, since
           a client that is always held back is one draw, not one for each epoch. The larger variance counts, with
           Satterthwaite's degrees of freedom for few or uneven clusters.
           5. Lower bound of the error. An arm that by chance has few failures or a dense quantile would get too small
           an error, in the very samples that are off. So the error is at least that of two equal arms (density, or
           share of failures, of both arms together).
Stop when  summed.
Reads as   a difference, treatment minus control, in ln(ms) (failures: in shares of loads), its standard error, and the
           standard error of the unadjusted difference.
Fails as   REASONS.
Differs    ConfigTron reports page load times of all clients together, without an interval.
Source     Deng, Xu, Kohavi and Walker 2013 (CUPED); Woodruff 1952 and Francisco and Fuller 1991 (quantiles of clustered
           data); Liang and Zeger 1986; Chernozhukov et al. 2018 (cross-fitting); Howard and Ramdas 2022 (quantiles in
           sequence); Bell and McCaffrey 2002 (degrees of freedom of clustered errors); Agresti and Caffo 2000 (few
           failures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.repeated import SIGMAS_PER_MAD
from configtron.model.student import student_quantile

NORMAL = NormalDist()
Z_95 = NORMAL.inv_cdf(0.975)
# Fewest units in either arm: sums of fewer are not near a normal distribution.
LEAST_UNITS = 30
# Fewest prefixes to cluster by; with fewer, intervals are by unit alone and have the doubt "few-prefixes".
LEAST_PREFIXES = 10
# Fewest units with loads beyond a quantile, in either arm, to know its density.
LEAST_BEYOND = 12
# Fewest failures to expect in the smaller arm, by the share of both arms, for a clustered error of their share; with
# fewer, units with a failure are counted.
LEAST_FAILURES = 10
# Fewest degrees of freedom of an error.
LEAST_DEGREES_OF_FREEDOM = 3.0

# Why there is no figure.
REASONS = {
    "few-units": f"one group has fewer than {LEAST_UNITS} clients (each counted once an epoch)",
    "few-beyond": f"one group has fewer than {LEAST_BEYOND} clients beyond the quantile",
    "in-failures": "so many loads failed that the quantile is one of them",
    "no-spread": "loads near the quantile are all equal: the clock is too coarse",
    "uneven-units": "a few clients make up most of the variance",
}


@dataclass(frozen=True, slots=True)
class Goal:
    """A quantity to compare. share: of a quantile; 0: the geometric mean, 1: failures; unit: of the difference."""

    name: str
    share: float
    unit: str = "ln(ms)"


MEDIAN, P95 = Goal("median", 0.5), Goal("p95", 0.95)
GEOMETRIC, FAILURES = Goal("mean", 0.0), Goal("failures", 1.0, "share")
# What gates and alarms watch.
GOALS = (MEDIAN, P95, FAILURES)


@dataclass(frozen=True, slots=True, eq=False)
class ArmLoads:
    """n page loads of two arms.

    treated      (n,) whether the load's client got the profile; the others are the control arm
    ln_ms        (n,) ln of the page load time; infinite where the load failed
    unit         (n,) codes of (client, epoch): the unit of the draw
    prefix       (n,) codes, or empty: prefixes are not known
    expected_ln  (n,) the learner's expectation of each load before its arm was drawn; NaN: unknown; empty: none
    """

    treated: Mask
    ln_ms: Floats
    unit: Codes
    prefix: Codes
    expected_ln: Floats

    def __len__(self) -> int:
        return len(self.ln_ms)

    def __getitem__(self, rows: Mask | slice) -> ArmLoads:
        """Return the loads of these rows."""
        prefix = self.prefix[rows] if len(self.prefix) else self.prefix
        expected = self.expected_ln[rows] if len(self.expected_ln) else self.expected_ln
        return ArmLoads(self.treated[rows], self.ln_ms[rows], self.unit[rows], prefix, expected)


@dataclass(frozen=True, slots=True)
class ArmDifference:
    """Treatment minus control.

    estimate, error  in the goal's unit, adjusted; plain_error: not adjusted. NaN and infinite where there is a `reason`
    level            of each arm, not adjusted: ms of a quantile or mean, share of failures; NaN: unknown
    arm_error        standard error of each arm's own estimate, in the goal's unit; infinite: unknown
    loads, units     of either arm, control first; prefixes: of both together
    doubt            "few-prefixes": clients that come back in later epochs may be the same few
    """

    goal: Goal
    estimate: float
    error: float
    plain_error: float
    level: tuple[float, float]
    loads: tuple[int, int]
    units: tuple[int, int]
    prefixes: int = 0
    reason: str = ""
    doubt: str = ""
    arm_error: tuple[float, float] = (np.inf, np.inf)

    @property
    def effective_units(self) -> float:
        """Return the effective sample size in units: half the harmonic mean of both arms' numbers of units."""
        control, treated = self.units
        return 1.0 / (1.0 / control + 1.0 / treated) if control and treated else 0.0

    @property
    def information(self) -> float:
        """Return 1 / variance; 0 where nothing is known."""
        return 1.0 / self.error**2 if np.isfinite(self.error) and self.error > 0.0 else 0.0


def difference(loads: ArmLoads, goal: Goal) -> ArmDifference:
    """Return the difference between the arms in a goal, or the reason why there is none."""
    arms = (~loads.treated, loads.treated)
    found = ArmDifference(
        goal, np.nan, np.inf, np.inf, (np.nan, np.nan), (int(arms[0].sum()), int(arms[1].sum())),
        (_distinct(loads.unit[arms[0]]), _distinct(loads.unit[arms[1]])), _distinct(loads.prefix),
    )  # fmt: skip
    if min(found.units) < LEAST_UNITS:
        return replace(found, reason="few-units")
    max_density = _quantile(loads.ln_ms, loads.unit, goal.share, np.inf).density if 0.0 < goal.share < 1.0 else np.inf
    sides = [_arm_estimate(loads, arm, goal, max_density) for arm in arms]
    level = (_level(goal, sides[0].figure), _level(goal, sides[1].figure))
    if goal.share == 1.0 and np.isinf(loads.ln_ms).mean() * min(found.loads) < LEAST_FAILURES:
        return _few_failures(replace(found, level=level), loads, arms)
    if reason := next((side.reason for side in sides if side.reason), ""):
        return replace(found, level=level, reason=reason)
    return _adjusted(replace(found, level=level), loads, arms, (sides[0], sides[1]))


def _few_failures(found: ArmDifference, loads: ArmLoads, arms: tuple[Mask, Mask]) -> ArmDifference:
    """Compare the shares of units with a failure. One failure and one success are added to each arm (Agresti and Caffo
    2000), so that an arm without failures has an error, too."""
    failed = np.isinf(loads.ln_ms)
    count = [_distinct(loads.unit[arm & failed]) + 1 for arm in arms]
    share = [one / (of + 2) for one, of in zip(count, found.units, strict=True)]
    both = sum(count) / (sum(found.units) + 4)
    variance = sum(one * (1.0 - one) / (of + 2) for one, of in zip(share, found.units, strict=True))
    alike = sum(both * (1.0 - both) / (of + 2) for of in found.units)
    error = float(np.sqrt(max(variance, alike)))
    own = [float(np.sqrt(one * (1.0 - one) / (of + 2))) for one, of in zip(share, found.units, strict=True)]
    return replace(found, estimate=share[1] - share[0], error=error, plain_error=error, arm_error=(own[0], own[1]))


@dataclass(frozen=True, slots=True, eq=False)
class ArmEstimate:
    """An arm's estimate (`figure`), and (n,) influences of its loads, whose mean is zero; density: of a quantile."""

    figure: float
    influence: Floats
    reason: str = ""
    density: float = np.inf


def _level(goal: Goal, figure: float) -> float:
    return figure if goal.share == 1.0 else float(np.exp(figure))


def _arm_estimate(loads: ArmLoads, arm: Mask, goal: Goal, max_density: float) -> ArmEstimate:
    ln_ms = loads.ln_ms[arm]
    if goal.share == 1.0:
        failed = np.isinf(ln_ms).astype(np.float64)
        return ArmEstimate(float(failed.mean()), failed - failed.mean())
    if goal.share == 0.0:
        finished = np.isfinite(ln_ms)
        mean = float(ln_ms[finished].mean()) if finished.any() else np.nan
        part = max(float(finished.mean()), 1e-9)
        off = np.where(finished, np.where(finished, ln_ms, 0.0) - mean, 0.0) / part
        return ArmEstimate(mean, off, "" if finished.any() else "in-failures")
    return _quantile(ln_ms, loads.unit[arm], goal.share, max_density)


def _quantile(ln_ms: Floats, unit: Codes, share: float, max_density: float) -> ArmEstimate:
    """Return a quantile, its influences, and its density by the spacing of quantiles, at most `max_density`."""
    ordered = np.sort(ln_ms)
    n, nothing = len(ordered), np.zeros(len(ln_ms))
    figure = float(ordered[min(int(np.ceil(share * n)) - 1, n - 1)])
    if np.isinf(figure):
        return ArmEstimate(figure, nothing, "in-failures")
    beyond = ln_ms > figure
    if min(_distinct(unit[beyond]), _distinct(unit[~beyond])) < LEAST_BEYOND:
        return ArmEstimate(figure, nothing, "few-beyond")
    off = share - (ln_ms <= figure)
    error = float(np.sqrt((_sums(off - off.mean(), unit) ** 2).sum())) / n
    low, high = (np.clip(share + end * error, 0.0, 1.0 - 1.0 / n) for end in (-Z_95, Z_95))
    ends = ordered[[int(low * n), int(high * n)]]
    if np.isinf(ends[1]):
        return ArmEstimate(figure, nothing, "in-failures")
    if ends[1] <= ends[0]:
        return ArmEstimate(figure, nothing, "no-spread")
    density = min(float((high - low) / (ends[1] - ends[0])), max_density)
    return ArmEstimate(figure, (off - off.mean()) / density, "", density)


def _adjusted(
    found: ArmDifference, loads: ArmLoads, arms: tuple[Mask, Mask],
    sides: tuple[ArmEstimate, ArmEstimate],
) -> ArmDifference:  # fmt: skip
    influence = np.empty(len(loads))
    for arm, side in zip(arms, sides, strict=True):
        influence[arm] = side.influence
    prefixes = found.prefixes >= LEAST_PREFIXES
    fold = (loads.prefix if prefixes else loads.unit) % 2
    explained = _explained(loads, influence, found, sides, fold)
    plain = sides[1].figure - sides[0].figure
    estimate = plain - (float(explained[arms[1]].mean()) - float(explained[arms[0]].mean()))
    clusters = [loads.unit, loads.prefix] if prefixes else [loads.unit]
    error, freedom = max(
        (_difference_error(influence - explained, arms, codes) for codes in clusters), key=lambda pair: pair[0]
    )
    plain_error = max(_difference_error(influence, arms, codes)[0] for codes in clusters)
    doubt = "few-prefixes" if len(loads.prefix) and not prefixes else ""
    if found.goal.share == 1.0:
        wider = _pooled_ratio(found, loads)
        error, plain_error = error * wider, plain_error * wider
    if freedom < LEAST_DEGREES_OF_FREEDOM or error <= 0.0:
        return replace(found, reason="uneven-units" if error > 0.0 else "no-spread")
    own = [max(_clustered(influence[arm] / arm.sum(), codes[arm])[0] for codes in clusters) for arm in arms]
    return replace(found, estimate=float(estimate), error=error, plain_error=plain_error, doubt=doubt,
                   arm_error=(own[0], own[1]))  # fmt: skip


def _pooled_ratio(found: ArmDifference, loads: ArmLoads) -> float:
    """Return the error of a difference of shares by the pooled share, over the error by each arm's own; at least 1."""
    both = float(np.isinf(loads.ln_ms).mean())
    apart = sum(one * (1.0 - one) / of for one, of in zip(found.level, found.loads, strict=True))
    return max(1.0, float(np.sqrt(sum(both * (1.0 - both) / of for of in found.loads) / max(apart, 1e-300))))


def _explained(
    loads: ArmLoads, influence: Floats, found: ArmDifference, sides: tuple[ArmEstimate, ArmEstimate], fold: Codes
) -> Floats:
    """Return (n,) the part of each load's influence that the covariate explains, by the slope of the other fold."""
    if not len(loads.expected_ln) or not np.isfinite(loads.expected_ln).any():
        return np.zeros(len(loads))
    covariate = _covariate(loads, found.goal, (sides[0].figure + sides[1].figure) / 2.0)
    inside = covariate.copy()
    for arm in (loads.treated, ~loads.treated):
        inside[arm] -= inside[arm].mean()
    slopes = np.zeros(2)
    for half in (0, 1):
        other = fold != half
        square = float((inside[other] ** 2).sum())
        slopes[half] = float((inside[other] * influence[other]).sum()) / square if square > 0.0 else 0.0
    explained: Floats = slopes[fold] * covariate
    return explained


def _covariate(loads: ArmLoads, goal: Goal, figure: float) -> Floats:
    """Return (n,) the expectation of each load in terms of the goal, with mean zero; 0 where there is none."""
    expected = loads.expected_ln
    known = np.isfinite(expected)
    if goal.share not in (0.0, 1.0):
        from scipy.special import ndtr

        rest = (loads.ln_ms - expected)[known & np.isfinite(loads.ln_ms)]
        middle = float(np.median(rest)) if len(rest) else 0.0
        deviation = SIGMAS_PER_MAD * float(np.median(np.abs(rest - middle))) if len(rest) else 0.0
        expected = ndtr((figure - middle - expected) / max(deviation, 1e-6))
    centred: Floats = np.where(known, expected - expected[known].mean(), 0.0)
    return centred


def _sums(terms: Floats, cluster: Codes) -> Floats:
    """Return the sum of each cluster that has terms."""
    found: Floats = np.bincount(cluster, weights=terms).astype(np.float64)[np.bincount(cluster) > 0]
    return found


def _distinct(codes: Codes) -> int:
    return int((np.bincount(codes) > 0).sum())


def _difference_error(terms: Floats, arms: tuple[Mask, Mask], cluster: Codes) -> tuple[float, float]:
    """Return the clustered standard error of a difference of means, and its degrees of freedom."""
    signed = np.zeros(len(terms))
    for arm, sign in zip(arms, (-1.0, 1.0), strict=True):
        signed[arm] = sign * (terms[arm] - terms[arm].mean()) / max(int(arm.sum()), 1)
    return _clustered(signed, cluster)


def clustered_error(terms: Floats, cluster: Sequence[str]) -> float:
    """Return the clustered standard error of a sum of terms whose mean is zero; cluster: of each term."""
    known: dict[str, int] = {}
    codes = np.array([known.setdefault(name, len(known)) for name in cluster], dtype=np.int64)
    return _clustered(terms, codes)[0]


def _clustered(terms: Floats, cluster: Codes) -> tuple[float, float]:
    """Return the clustered standard error of a sum of terms whose mean is zero, and its degrees of freedom."""
    square = _sums(terms, cluster) ** 2
    count, total = len(square), float(square.sum())
    variance = total * count / max(count - 1, 1)
    left = float((square**2).sum()) - total**2 / count
    freedom = min(2.0 * total**2 / left, count - 1.0) if left > 0.0 else count - 1.0
    wider = float(student_quantile(max(freedom, 1.0), 0.975)) / Z_95
    return float(np.sqrt(variance)) * wider, freedom
