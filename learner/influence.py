# SPDX-License-Identifier: MIT
"""How much a load counts: outliers have bounded influence, yet a cell that is unlike its prediction is learned.

Question   How far may one reported load move the estimate of a cell?
Method     A load's residual is measured in standard deviations of its prediction: noise of single loads, uncertainty
           of its cell's level, and of its configuration in its class. Where the median of a whole batch's residuals is
           too large, these deviations grow by the same factor. Up to `WHOLE_SIGMAS` a load has weight 1; beyond, its
           weight falls with the square of the residual, so that weight times residual falls, too (as with a Student's t
           likelihood). Weights multiply sums and no load is moved towards its prediction, so a cell whose loads are
           all far off is learned, only later.
           The first loads are predicted by a regression on network and site, fitted with the same weights.
Stop when  computed: once per load, when it is learned.
Reads as   weights in (0, 1]. One outcome, however it is changed, moves a sum of weighted residuals by at most
           2 x `WHOLE_SIGMAS` of its deviations.
Fails as   weight 1 for a load without a prediction.
Differs    from CT, whose means and counts let one load of a day outweigh a week.
Source     Huber 1964; Holland and Welsch 1977 (iteratively reweighted least squares); Lange, Little and Taylor 1989.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.features import network_features
from configtron.learner.repeated import SIGMAS_PER_MAD

# Standard deviations up to which a load has weight 1: one normal load in eighty lies beyond.
WHOLE_SIGMAS = 2.5
# Prior standard deviations, ln(ms), of a cell's level and of a configuration in its class: two of them cover a network
# that the history has wrong, and a configuration that is three times slower.
LEVEL_LN, CONFIGURATION_LN = 0.5, 0.5
# Loads that a batch's median needs; with fewer, the spread is 1. And the largest spread of a batch: beyond it,
# most reports are wrong.
LEAST_LOADS, MOST_SPREAD = 30, 4.0
# Loads before the model's own expectations are taken in place of the regression over the first ones.
FIRST_LOADS = 1000
# Passes of the regression: each moves the fit by a tenth of the last one's step, or less.
PASSES = 12
# Of the regression, in loads: there to keep it finite.
RIDGE_LOADS = 0.1


def weights_of(deviations: Floats) -> Floats:
    """Return (n,) how much each load counts, by its residual in deviations of its prediction; 1 for NaN."""
    far = np.maximum(np.abs(np.nan_to_num(deviations)), WHOLE_SIGMAS)
    found: Floats = (WHOLE_SIGMAS / far) ** 2
    return found


def spread_of(deviations: Floats) -> float:
    """Return the standard deviation of these residuals, each in its own deviations, by their median: from 1 to
    `MOST_SPREAD`."""
    known = deviations[~np.isnan(deviations)]
    if len(known) < LEAST_LOADS:
        return 1.0
    return float(np.clip(SIGMAS_PER_MAD * np.median(np.abs(known)), 1.0, MOST_SPREAD))


def unknown_ln(noise_ln: float, of_row: Floats, of_configuration: Floats) -> Floats:
    """Return (n,) standard deviation of a prediction, ln(ms). of_row, of_configuration: (n,) loads that its cell, and
    its configuration in its class, had before."""
    level = 1.0 / (LEVEL_LN**-2 + of_row / noise_ln**2)
    configuration = 1.0 / (CONFIGURATION_LN**-2 + of_configuration / noise_ln**2)
    found: Floats = np.sqrt(noise_ln**2 + level + configuration)
    return found


def first_expected(points: Floats, site: Codes, log_ms: Floats) -> Floats:
    """Return (n,) ln(ms) that network and site let expect of each of the first loads; NaN for too few loads, or unknown
    points (n, 3)."""
    known = ~np.isnan(points).any(axis=1)
    found = np.full(len(log_ms), np.nan)
    if known.sum() < LEAST_LOADS:
        return found
    place = np.eye(int(site.max()) + 1)[site[known]]
    x, y = np.concatenate((network_features(points[known]), place), axis=1), log_ms[known]
    weight = weights_of((y - np.median(y)) / max(SIGMAS_PER_MAD * float(np.median(np.abs(y - np.median(y)))), 1e-9))
    for _ in range(PASSES):
        square = x.T @ (weight[:, None] * x) + RIDGE_LOADS * np.eye(x.shape[1])
        fitted = x @ np.linalg.solve(square, x.T @ (weight * y))
        spread = max(SIGMAS_PER_MAD * float(np.median(np.abs(y - fitted))), 1e-9)
        weight = weights_of((y - fitted) / spread)
    found[known] = fitted
    return found
