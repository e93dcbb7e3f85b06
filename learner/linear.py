"""A Bayesian linear model of the excess over Default, shared by all cells, with a residual of each cell's own.

Question   How much slower or faster than Default is each configuration in each cell, and how sure is that?
Method     ln(ms) = level(cell) + f(configuration)' T g(cell) + residual(cell, configuration) + noise. T has a normal
           prior; the level is flat and integrated out; the residual is normal and independent, so it is integrated out
           too and its share comes back as shrinkage. All from sums per cell and configuration: nothing is replayed.
Stop when  computed; there is no iteration.
Reads as   mean and variance of the excess, draws from their joint distribution, for every cell and configuration.
Fails as   nothing seen: the prior (or the warm start), whose mean without a warm start is no difference at all.
Differs    from a GP per cell (CT): one noisy page load teaches every cell that shares a feature.
Source     Lindley and Smith 1972 (hierarchical linear model); Agrawal and Goyal 2013 (linear Thompson sampling).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.state import keep

# Precision of a cell's level: e-folds of freedom, so that a cell with one load is not taken to know its level.
LEVEL_PRECISION = 1e-4
# Cells whose outer products are summed at a time: bounds memory at some ten megabytes.
CELLS_AT_ONCE = 128


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is known about T, row-major (f x q,): precision (fq, fq) and precision times mean (fq,)."""

    precision: Floats
    shift: Floats

    def plus(self, other: Evidence) -> Evidence:
        """Both."""
        return Evidence(self.precision + other.precision, self.shift + other.shift)

    def times(self, share: float) -> Evidence:
        """Counted `share` as much."""
        return Evidence(share * self.precision, share * self.shift)


def prior(knob_sd_ln: Floats, share: Floats) -> Evidence:
    """Independent normal effects around zero: (f,) standard deviations times (q,) shares."""
    spread = np.outer(knob_sd_ln, share).ravel()
    return Evidence(np.diag(1.0 / spread**2), np.zeros(len(spread)))


def weights(count: Floats, noise_ln: float, residual_ln: float) -> Floats:
    """(cells, configurations) precision of each mean as a witness of the shared model."""
    found: Floats = count / (noise_ln**2 + count * residual_ln**2)
    return found


def evidence(weight: Floats, mean_ln: Floats, features: Floats, cells: Floats) -> Evidence:
    """What means tell about T. weight, mean_ln (cells, configurations); features (configurations, f); cells (cells, q).

    Cells without any weight are skipped: they would add nothing but time.
    """
    used = np.flatnonzero(weight.sum(axis=1) > 0)
    f, q = features.shape[1], cells.shape[1]
    outer = (features[:, :, None] * features[:, None, :]).reshape(len(features), f * f)
    precision, shift = np.zeros((f * f, q * q)), np.zeros((f, q))
    for start in range(0, len(used), CELLS_AT_ONCE):
        rows = used[start : start + CELLS_AT_ONCE]
        w, g = weight[rows], cells[rows]
        wy, total = w * mean_ln[rows], w.sum(axis=1) + LEVEL_PRECISION
        s = w @ features
        inner = w @ outer - ((s / total[:, None])[:, :, None] * s[:, None, :]).reshape(len(rows), f * f)
        precision += inner.T @ (g[:, :, None] * g[:, None, :]).reshape(len(rows), q * q)
        shift += (wy @ features - (wy.sum(axis=1) / total)[:, None] * s).T @ g
    ordered = precision.reshape(f, f, q, q).transpose(0, 2, 1, 3).reshape(f * q, f * q)
    return Evidence(ordered, shift.ravel())


def likelihood_ln(before: Evidence, seen: Evidence) -> float:
    """ln of how likely what was seen is, under what was held before; up to a constant of what was seen."""
    return _weight_ln(before.plus(seen)) - _weight_ln(before)


def _weight_ln(known: Evidence) -> float:
    """ln of the integral of exp(-T'AT/2 + b'T), up to a constant of its size."""
    factor = np.linalg.cholesky(known.precision)
    half = np.linalg.solve(factor, known.shift)
    return float(0.5 * half @ half - np.log(np.diagonal(factor)).sum())


class Model:
    """The posterior over cells and configurations. features (configurations, f), cells (cells, q) as for `evidence`."""

    def __init__(
        self,
        known: Evidence,
        features: Floats,
        cells: Floats,
        count: Floats,
        mean_ln: Floats,
        *,
        noise_ln: float,
        residual_ln: float,
    ):
        from scipy.linalg import cho_solve

        self.features, self.cells = features, cells
        self._factor = np.linalg.cholesky(known.precision)
        self._centre = cho_solve((self._factor, True), known.shift)
        self._weight = weights(count, noise_ln, residual_ln)
        self._mean_ln, self._total = mean_ln, self._weight.sum(axis=1) + LEVEL_PRECISION
        self._shrink = count * residual_ln**2 / (noise_ln**2 + count * residual_ln**2)
        # Variance of the residual once seen `count` times.
        self.residual_variance = residual_ln**2 * (1.0 - self._shrink)

    def linear(self, effect: Floats) -> Floats:
        """(cells, configurations) excess of the shared part, for one T (f x q,)."""
        table: Floats = self.cells @ (effect.reshape(self.features.shape[1], -1).T @ self.features.T)
        return table

    def level(self, shared: Floats) -> Floats:
        """(cells,) ln(ms) of Default, given the shared part; meaningless for a cell that saw nothing."""
        found: Floats = (self._weight * (self._mean_ln - shared)).sum(axis=1) / self._total
        return found

    def table(self, effect: Floats) -> Floats:
        """(cells, configurations): the shared part plus each cell's shrunken residual."""
        shared = self.linear(effect)
        rest: Floats = self._mean_ln - self.level(shared)[:, None] - shared
        return shared + self._shrink * rest

    def mean(self) -> Floats:
        """(cells, configurations) posterior mean of the excess over the cell's level, ln(ms)."""
        return self.table(self._centre)

    def levels(self) -> Floats:
        """(cells,) expected ln(ms) of the cell's level; NaN for a cell that saw nothing."""
        seen = self._weight.sum(axis=1) > 0
        return np.where(seen, self.level(self.linear(self._centre)), np.nan)

    def draw(self, rng: np.random.Generator, boldness: float) -> Floats:
        """(cells, configurations): one table from the posterior, its deviations times `boldness`."""
        from scipy.linalg import solve_triangular

        deviate = rng.standard_normal(len(self._centre))
        effect = self._centre + boldness * solve_triangular(self._factor, deviate, lower=True, trans=1)
        own = rng.standard_normal(self.residual_variance.shape) * np.sqrt(self.residual_variance)
        return self.table(effect) + boldness * own

    def variance(self) -> Floats:
        """(cells, configurations) posterior variance of the shared part's excess over Default, ln(ms) squared."""
        from scipy.linalg import cho_solve

        f, q = self.features.shape[1], self.cells.shape[1]
        spread = cho_solve((self._factor, True), np.eye(f * q)).reshape(f, q, f, q)
        spread = np.ascontiguousarray(spread.transpose(0, 2, 1, 3)).reshape(f * f, q * q)
        outer = (self.features[:, :, None] * self.features[:, None, :]).reshape(-1, f * f)
        inner = outer @ spread
        found = np.empty((len(self.cells), len(self.features)))
        for start in range(0, len(self.cells), CELLS_AT_ONCE):
            g = self.cells[start : start + CELLS_AT_ONCE]
            found[start : start + len(g)] = (g[:, :, None] * g[:, None, :]).reshape(len(g), -1) @ inner.T
        return np.maximum(found, 0.0)
