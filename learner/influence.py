# SPDX-License-Identifier: MIT
"""How much a load counts: outliers have bounded influence, what nobody expected yet is heard.

Question   How far may one reported load move what a cell is taken to be?
Method     A load's residual is measured in standard deviations of its prediction: noise of single loads, what is not
           known of its cell's level, and of its configuration in its class. Where a whole batch lies further off than
           it should by the median, its deviations are larger by as much. Up to `WHOLE_SIGMAS` a load counts whole;
           beyond, its weight falls with the square, so that weight times residual falls, too (a Student's t likelihood
           has such tails). Weights multiply sums; nothing is moved to where it was expected, so a cell whose loads are
           all far off is learned, only later.
           Before anything is known, what is expected is a regression on network and site over the first loads, fitted
           by the same weights.
Stop when  computed: once per load, when it is learned.
Reads as   weights in (0, 1]. One outcome, however it is changed, moves a sum of weighted residuals by at most
           2 x `WHOLE_SIGMAS` of its deviations.
Fails as   weight 1, where there is nothing to compare with.
Differs    from CT, whose means and counts let one load of a day outweigh a week.
Source     Huber 1964; Holland and Welsch 1977 (iteratively reweighted least squares); Lange, Little and Taylor 1989.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.features import network_features
from configtron.learner.repeated import SIGMAS_PER_MAD

# Deviations up to which a load counts whole: one normal load in eighty lies beyond.
WHOLE_SIGMAS = 2.5
# What is not known of a cell that was never loaded, and of a configuration that its class never loaded, ln(ms): two
# e-folds cover a network that the history has wrong, and a configuration that is three times slower.
LEVEL_LN, CONFIGURATION_LN = 0.5, 0.5
# Loads from which a median of residuals is taken; fewer are taken to be as they should. And how far a batch may be
# beyond what it should be: more of a spread says that most of what is reported is wrong.
LEAST_LOADS, MOST_SPREAD = 30, 4.0
# Loads before the model's own expectations are taken in place of the regression over the first ones.
FIRST_LOADS = 1000
# Passes of the regression: each moves the fit by a tenth of the last one's step, or less.
PASSES = 12
# Of the regression, in loads: there to keep it finite.
RIDGE_LOADS = 0.1


def weights_of(deviations: Floats) -> Floats:
    """(n,) how much each load counts, by its residual in deviations of its prediction; 1 for NaN."""
    far = np.maximum(np.abs(np.nan_to_num(deviations)), WHOLE_SIGMAS)
    found: Floats = (WHOLE_SIGMAS / far) ** 2
    return found


def spread_of(deviations: Floats) -> float:
    """How much wider these lie than a standard deviation each, by their median; at least 1."""
    known = deviations[~np.isnan(deviations)]
    if len(known) < LEAST_LOADS:
        return 1.0
    return float(np.clip(SIGMAS_PER_MAD * np.median(np.abs(known)), 1.0, MOST_SPREAD))


def unknown_ln(noise_ln: float, of_row: Floats, of_configuration: Floats) -> Floats:
    """(n,) standard deviation of a prediction, ln(ms), by how many loads its cell and its class's configuration had."""
    level = 1.0 / (LEVEL_LN**-2 + of_row / noise_ln**2)
    configuration = 1.0 / (CONFIGURATION_LN**-2 + of_configuration / noise_ln**2)
    found: Floats = np.sqrt(noise_ln**2 + level + configuration)
    return found


def first_expected(points: Floats, site: Codes, log_ms: Floats) -> Floats:
    """(n,) ln(ms) that network and site let expect of each of the first loads; NaN for too few loads, or unknown
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
