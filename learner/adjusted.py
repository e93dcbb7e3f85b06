# SPDX-License-Identifier: MIT
"""Regression adjustment: the residual of a load beyond its network, its site and its configuration.

Question   How much of ln(ms) do network, site and knobs explain, without the explanation knowing the load itself?
Method     Ridge regression of ln(ms) on a level by network (second order, kinks) and site, and on each knob's values,
           whose effects depend on the network. Fitted on one half of the clusters, used on the other, both ways
           (cross-fitting). Residuals are bounded at `MOST_SIGMAS` deviations (by the median, which
           wild loads do not move): a broken clock is one load.
Stop when  both halves are fitted.
Reads as   level (n,), effects per knob value (n, f), remainder (n,), all in ln(ms).
Fails as   nothing: where the regression explains little, the remainder is as wide as the loads.
Differs    CT adjusts for nothing. `loads.py` fits one regression of many more columns, for values of a whole policy.
Source     Chernozhukov et al. 2018 (cross-fitting); Lin 2013 (regression adjustment of experiments); Huber 1964.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.features import CENTRE_LN, network_features
from configtron.learner.repeated import SIGMAS_PER_MAD
from configtron.learner.split_test import values_of
from configtron.model.grid import Grid

# Sites that get a level of their own: columns grow with them.
MOST_SITES = 20
# Scaled features at which the level's slope may change.
KINKS = (-1.0, 0.0, 1.0)
# Prior deviation of a level's term and of a knob's effect, in ln(ms), against a load's own deviation.
LEVEL_LN, EFFECT_LN, NOISE_LN = 3.0, 0.3, 0.3
# Deviations beyond which a remainder counts as just that far.
MOST_SIGMAS = 4.0
# Rows whose columns are made at a time: bounds memory.
ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted:
    """n loads: level and remainder (n,); effect (n, f) of each column of `values_of`, all in ln(ms)."""

    level: Floats
    effect: Floats
    rest: Floats


def adjusted(grid: Grid, contexts: Contexts, configuration: Codes, ms: Floats, half: Codes) -> Adjusted:
    """Return n loads, each by the regression that was fitted on the other half. half: (n,) 0 or 1."""
    features, log_ms = values_of(grid), np.log(ms)
    level, effect, rest = np.empty(len(ms)), np.empty((len(ms), features.shape[1])), np.empty(len(ms))
    often = np.bincount(contexts.site[contexts.site >= 0], minlength=len(contexts.sites))
    sites = np.argsort(-often, kind="stable")[:MOST_SITES]
    for side in (0, 1):
        mine, other = np.flatnonzero(half == side), np.flatnonzero(half != side)
        if not len(other):
            other = mine
        fitted = _fit(features, contexts[other], configuration[other], log_ms[other], sites)
        level[mine], effect[mine] = _explained(fitted, contexts[mine], sites)
        bound = MOST_SIGMAS * _deviation(log_ms[other], fitted, contexts[other], features[configuration[other]], sites)
        left = log_ms[mine] - level[mine] - (effect[mine] * features[configuration[mine]]).sum(axis=1)
        rest[mine] = np.clip(left, -bound, bound)
    return Adjusted(level, effect, rest)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    middle: float
    level: Floats
    slope: Floats


def _fit(features: Floats, contexts: Contexts, configuration: Codes, log_ms: Floats, sites: Codes) -> _Fitted:
    middle, wide = float(np.median(log_ms)), features.shape[1]
    # a first fit of the level alone finds the loads so far off that they count as less
    bounded = np.clip(log_ms, *_within(log_ms))
    precision: Floats | None = None
    for start in range(0, len(log_ms), ROWS_AT_ONCE):
        at = slice(start, start + ROWS_AT_ONCE)
        level, where = _columns(contexts[at], sites)
        x = np.concatenate((level, _products(features[configuration[at]], where)), axis=1)
        if precision is None:
            count = x.shape[1] - level.shape[1]
            sd = np.concatenate((np.full(level.shape[1], LEVEL_LN), np.full(count, EFFECT_LN)))
            precision, shift = np.diag((NOISE_LN / sd) ** 2), np.zeros(len(sd))
            levels = level.shape[1]
        precision += x.T @ x
        shift += x.T @ (bounded[at] - middle)
    assert precision is not None, "a regression of no loads"
    found: Floats = np.linalg.solve(precision, shift).astype(np.float64)
    return _Fitted(middle, found[:levels], found[levels:].reshape(wide, -1))


def _within(log_ms: Floats) -> tuple[float, float]:
    """Return the bounds of ln(ms), wild loads apart: five deviations of all loads to either side."""
    middle = float(np.median(log_ms))
    reach = 5.0 * SIGMAS_PER_MAD * float(np.median(np.abs(log_ms - middle)))
    return middle - max(reach, NOISE_LN), middle + max(reach, NOISE_LN)


def _explained(fitted: _Fitted, contexts: Contexts, sites: Codes) -> tuple[Floats, Floats]:
    level, where = _columns(contexts, sites)
    return fitted.middle + level @ fitted.level, where @ fitted.slope.T


def _deviation(log_ms: Floats, fitted: _Fitted, contexts: Contexts, features: Floats, sites: Codes) -> float:
    level, effect = _explained(fitted, contexts, sites)
    left = log_ms - level - (effect * features).sum(axis=1)
    return max(SIGMAS_PER_MAD * float(np.median(np.abs(left - np.median(left)))), 1e-6)


def _products(features: Floats, where: Floats) -> npt.NDArray[np.float64]:
    wide: npt.NDArray[np.float64] = features[:, :, None] * where[:, None, :]
    return wide.reshape(len(features), features.shape[1] * where.shape[1])


def _columns(contexts: Contexts, sites: Codes) -> tuple[Floats, Floats]:
    """Return the regressors of the level (n, .), and those that scale the knobs' effects (n, 4)."""
    points = contexts.points()
    network = network_features(np.where(np.isnan(points), np.array(CENTRE_LN), points))
    site = (contexts.site[:, None] == sites[None, :]).astype(np.float64)
    z = network[:, 1:4]
    slopes = (site[:, :, None] * z[:, None, :]).reshape(len(z), site.shape[1] * z.shape[1])
    kinks = [np.maximum(z - kink, 0.0) for kink in KINKS]
    return np.concatenate((network, site, slopes, *kinks), axis=1), network[:, :4]
