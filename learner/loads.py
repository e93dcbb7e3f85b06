# SPDX-License-Identifier: MIT
"""The load times of logged sessions under any configuration: the model of DR, the last of the values.

Question   How long does this session load under that configuration, as far as a log shows?
Method     Ridge regression of ln(ms): a level by the session's own network (second order, kinks) and site, and effects
           of the configuration's features that depend on both; priors as in `features.py`. Sessions are taken by their
           own network, not by their class's centre: loads of one class differ manifold, and a model's error counts as
           often as the logger avoided the candidate's choices.
Stop when  solved; at most `FIT_SESSIONS` sessions, evenly spread over the log, are looked at.
Reads as   (n, configurations) ms, up to a factor: the mean of a logarithm is no logarithm of a mean; `plain_model`
           finds it for each row and pair from the regression's residuals. Never beyond the log's own extremes.
Fails as   features that are unknown: taken to be usual. Sites beyond the `MOST_SITES` most frequent share one level.
Differs    CT has no such model.
Source     Hoerl and Kennard 1970 (ridge regression).
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.features import (
    CENTRE_LN,
    CURVE_SHARE,
    NETWORK_SHARE,
    SITE_SHARE,
    configuration_features,
    network_features,
)
from configtron.model.grid import Grid

# Deviation of a load from its prediction by network, site and configuration, ln: the noise of a load and of its
# features.
NOISE_LN = 0.25
# Prior standard deviation of every level's term, ln(ms): page load times span e-folds, so it has hardly any effect.
LEVEL_LN = 3.0
# Scaled features at which the level's slope may change: the middle and one spread to either side.
KINKS = (-1.0, 0.0, 1.0)
# Sites with a level and effects of their own: columns grow with sites times features, and work with their square.
MOST_SITES = 20
# Sessions after which a regression of some 600 columns learns little more.
FIT_SESSIONS = 20_000
# Rows whose columns are made at a time: bounds memory at some ten megabytes.
ROWS_AT_ONCE = 2_000


class Loads:
    """The regression, fitted to n sessions: contexts, configuration (n,) rows of the grid, ms (n,)."""

    def __init__(self, grid: Grid, contexts: Contexts, configuration: Codes, ms: Floats):
        self.features, self.sd = configuration_features(grid)
        often = np.bincount(contexts.site[contexts.site >= 0], minlength=len(contexts.sites))
        self.sites = np.argsort(-often, kind="stable")[:MOST_SITES]
        used = np.unique(np.linspace(0, len(ms) - 1, FIT_SESSIONS).astype(np.int64))
        log_ms = np.log(ms[used])
        self.middle_ln = float(log_ms.mean())
        self.seen_ln = float(log_ms.min()), float(log_ms.max())
        self._fit(contexts[used], self.features[configuration[used]], log_ms - self.middle_ln)

    def ms(self, contexts: Contexts, configurations: Codes) -> Floats:
        """Return (n, configurations) expected ms up to a factor, of those configurations: memory for as many
        numbers."""
        level, where = self._columns(contexts)
        return self._bounded((level @ self.level)[:, None] + where @ self.slope.T @ self.features[configurations].T)

    def chosen_ms(self, contexts: Contexts, configuration: Codes) -> Floats:
        """Return (n,) the same for one configuration a session."""
        found = np.empty(len(contexts))
        for start in range(0, len(contexts), ROWS_AT_ONCE):
            at = slice(start, start + ROWS_AT_ONCE)
            level, where = self._columns(contexts[at])
            effect = ((where @ self.slope.T) * self.features[configuration[at]]).sum(axis=1)
            found[at] = self._bounded(level @ self.level + effect)
        return found

    def several_ln(self, contexts: Contexts, configurations: Codes) -> Floats:
        """Return (n, m) expected ln(ms) for m configurations a session, (n, m), each of them its own; of -1,
        anything."""
        found = np.empty(configurations.shape)
        for start in range(0, len(contexts), ROWS_AT_ONCE):
            at = slice(start, start + ROWS_AT_ONCE)
            level, where = self._columns(contexts[at])
            slopes = (where @ self.slope.T)[:, None, :]
            found[at] = (level @ self.level)[:, None] + (slopes * self.features[configurations[at]]).sum(axis=2)
        return self.middle_ln + found

    def _bounded(self, log_ms: Floats) -> Floats:
        found: Floats = np.exp(np.clip(self.middle_ln + log_ms, *self.seen_ln))
        return found

    def _fit(self, contexts: Contexts, features: Floats, log_ms: Floats) -> None:
        level, where = self._columns(contexts)
        shares = [1.0] + [NETWORK_SHARE] * 3 + [CURVE_SHARE] * 6 + [SITE_SHARE] * len(self.sites)
        sd = np.concatenate((np.full(level.shape[1], LEVEL_LN), np.outer(self.sd, np.array(shares)).ravel()))
        precision, shift = np.diag((NOISE_LN / sd) ** 2), np.zeros(len(sd))
        for start in range(0, len(log_ms), ROWS_AT_ONCE):
            at = slice(start, start + ROWS_AT_ONCE)
            products = (features[at, :, None] * where[at, None, :]).reshape(len(features[at]), -1)
            x = np.concatenate((level[at], products), axis=1)
            precision += x.T @ x
            shift += x.T @ log_ms[at]
        found = np.linalg.solve(precision, shift)
        self.level, self.slope = found[: level.shape[1]], found[level.shape[1] :].reshape(features.shape[1], -1)

    def _columns(self, contexts: Contexts) -> tuple[Floats, Floats]:
        """Return the regressors of the level (n, .), and those that scale the configuration's effects (n, q)."""
        points = contexts.points()
        network = network_features(np.where(np.isnan(points), np.array(CENTRE_LN), points))
        site = (contexts.site[:, None] == self.sites[None, :]).astype(np.float64)
        z = network[:, 1:4]
        kinks = [np.maximum(z - kink, 0.0) for kink in KINKS]
        # spelled out, since numpy infers no width where there is no row
        slopes = (site[:, :, None] * z[:, None, :]).reshape(len(z), site.shape[1] * z.shape[1])
        where = np.concatenate((network, site), axis=1)
        return np.concatenate((where, slopes, *kinks), axis=1), where
