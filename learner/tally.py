# SPDX-License-Identifier: MIT
"""Page loads as sums: per row and configuration their number, and their logarithms' sum and square.

Page load times are kept as logarithms: their noise multiplies, and sites that differ several-fold become comparable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep

# Loads by which one cell's configuration is drawn to that configuration's mean over all cells.
PRIOR_LOADS = 3.0


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Sums over outcomes. count, total, square: (rows, configurations); total and square are of ln(ms). An outcome that
    counts less than whole (`influence.py`) is a part of one in all three."""

    count: Floats
    total: Floats
    square: Floats

    def plus(self, row: Codes, configuration: Codes, log_ms: Floats, weight: Floats | None = None) -> Tally:
        """Return the sums with further outcomes, each counting `weight`, or whole; those of row -1 are left out."""
        known = row >= 0
        at = row[known], configuration[known]
        y, part = log_ms[known], np.ones(int(known.sum())) if weight is None else weight[known]
        sums = self.count.copy(), self.total.copy(), self.square.copy()
        for each, more in zip(sums, (part, part * y, part * y * y), strict=True):
            np.add.at(each, at, more)
        return Tally(*sums)

    def mean(self) -> Floats:
        """Return the mean ln(ms) per row and configuration; NaN where nothing was seen."""
        unseen = np.full(self.count.shape, np.nan)
        found: Floats = np.divide(self.total, self.count, out=unseen, where=self.count > 0)
        return found

    def noise_ln(self, fallback: float) -> float:
        """Return the standard deviation of ln(ms) within row and configuration, over all; `fallback` until there are
        repeats."""
        repeated = self.count > 1
        freedom = float((self.count[repeated] - 1).sum())
        # A variance from fewer repeats than this is less certain than the fallback.
        least_repeats = 30.0
        if freedom < least_repeats:
            return fallback
        within = self.square[repeated] - self.total[repeated] ** 2 / self.count[repeated]
        return float(np.sqrt(max(float(within.sum()) / freedom, 1e-8)))


def no_tally(rows: int, configurations: int) -> Tally:
    """Nothing seen."""
    return Tally(*(np.zeros((rows, configurations)) for _ in range(3)))


def expected_ln(tally: Tally) -> Floats:
    """Return expected ln(ms) up to a constant of the row, (rows, configurations), by each row's own loads.

    The row's mean plus the configuration's mean difference to its rows, and the pair's own mean, each drawn to the
    level above it.
    """
    count, total = tally.count, tally.total
    loads = count.sum(axis=1, keepdims=True)
    level = total.sum(axis=1, keepdims=True) / np.maximum(loads, 1.0)
    rest = total - count * level
    effect = rest.sum(axis=0) / (count.sum(axis=0) + PRIOR_LOADS)
    found: Floats = level + (rest + PRIOR_LOADS * effect) / (count + PRIOR_LOADS)
    return found


def own_excess(tally: Tally, configurations: int) -> Floats:
    """Return (rows, configurations) each row's own mean loads over its mean configuration, ln(ms), drawn to it; zeros
    where nothing is counted."""
    count, total = tally.count, tally.total
    if not count.shape[1]:
        return np.zeros((len(count), configurations))
    tried = np.maximum((count > 0).sum(axis=1, keepdims=True), 1)
    level = (total / np.maximum(count, 1.0)).sum(axis=1, keepdims=True) / tried
    found: Floats = (total - count * level) / (count + PRIOR_LOADS)
    return found
