# SPDX-License-Identifier: MIT
"""A Bayesian linear model of the excess over Default, shared by all cells, with effects of each class's and cell's own.

Question   How much slower or faster than Default is each configuration in each cell, and how sure is that?
Method     ln(ms) = level(cell) + f(configuration)' (T g(cell) + u(class) + v(cell)) + residual(cell, configuration) +
           noise. T has a normal prior; u and v, the effects that features leave unexplained of a class on all sites and
           of one cell, are normal around zero with covariances (`Spread`); the level is flat; the residual is normal
           and independent. All but T are integrated out exactly, from sums per cell and configuration: nothing is
           replayed. Given T they come back by regression.
Stop when  computed; there is no iteration.
Reads as   mean of the excess and draws from its joint distribution, for every cell and configuration.
Fails as   nothing seen: the prior (or the warm start), whose mean without a warm start is no difference at all.
Differs    from a GP per cell (CT): one noisy page load teaches every cell that shares a feature.
Source     Lindley and Smith 1972 (hierarchical linear model); Laird and Ware 1982 (effects of a group's own); Agrawal
           and Goyal 2013 (linear Thompson sampling).

Cells come class by class, each class with the same number of places (sites and "any other"), in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep

# Precision of a cell's level: e-folds of freedom, so that a cell with one load is not taken to know its level.
LEVEL_PRECISION = 1e-4
# Classes whose products are summed at a time: bounds memory at some ten megabytes.
CLASSES_AT_ONCE = 16


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The posterior of T, row-major (f x q,): precision (fq, fq) and precision times mean (fq,)."""

    precision: Floats
    shift: Floats

    def plus(self, other: Evidence) -> Evidence:
        """Return the sum of both."""
        return Evidence(self.precision + other.precision, self.shift + other.shift)

    def times(self, share: float) -> Evidence:
        """Return the same evidence, weighted by `share`."""
        return Evidence(share * self.precision, share * self.shift)


def prior(knob_sd_ln: Floats, share: Floats) -> Evidence:
    """Return independent normal effects around zero: (f,) standard deviations times (q,) shares."""
    spread = np.outer(knob_sd_ln, share).ravel()
    return Evidence(np.diag(1.0 / spread**2), np.zeros(len(spread)))


def weights(count: Floats, noise_ln: float, residual_ln: float) -> Floats:
    """Return the precision of each mean as an observation of the shared model, (cells, configurations)."""
    found: Floats = count / (noise_ln**2 + count * residual_ln**2)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The spread of effects beyond the features' explanation: covariances (f, f) of classes, and of cells within a
    class."""

    of_class: Floats
    of_cell: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SufficientStatistics:
    """Sufficient statistics of each cell's f effects once its level is integrated out, by class.

    precision (classes, places, f, f), shift (classes, places, f): of T g(cell) + u(class), the cell's own effects
    integrated out, too; raw_precision (cells, f, f), raw_shift (cells, f): of the sum of all three.
    """

    precision: Floats
    shift: Floats
    raw_precision: Floats
    raw_shift: Floats
    own_covariance: Floats
    spread: Spread

    def of_class(self) -> Floats:
        """Return (classes, f, f): Cholesky factors of the precision of each class's own effects, given T."""
        found: Floats = np.linalg.cholesky(self.precision.sum(axis=1) + np.linalg.inv(self.spread.of_class))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The posterior of T, solved once until it changes: lower Cholesky factor of its precision, mean, and ln
    of the integral of exp(-T'AT/2 + b'T), up to a constant of its size."""

    factor: Floats
    centre: Floats
    weight_ln: float


def solved(evidence: Evidence) -> Known:
    """Return precision and shift as factor and mean."""
    from scipy.linalg import cho_solve

    factor = np.asarray(np.linalg.cholesky(evidence.precision), dtype=np.float64)
    centre: Floats = cho_solve((factor, True), evidence.shift)
    weight_ln = 0.5 * evidence.shift @ centre - np.log(np.diagonal(factor)).sum()
    return Known(factor, centre, float(weight_ln))


def symmetric(n: int) -> tuple[Codes, Codes, Codes]:
    """Return rows and columns of an n x n matrix's upper triangle, and (n, n) the place of each of the matrix's cells
    in it."""
    one, two = np.triu_indices(n)
    place = np.empty((n, n), dtype=np.int64)
    place[one, two] = place[two, one] = np.arange(len(one))
    return one, two, place


def sufficient_statistics(
    weight: Floats, mean_ln: Floats, features: Floats, places: int, spread: Spread
) -> SufficientStatistics:
    """Return the sufficient statistics: sums over configurations.

    weight, mean_ln (cells, configurations); features (configurations, f).
    """
    f = features.shape[1]
    one, two, place = symmetric(f)
    wy, total, s = weight * mean_ln, weight.sum(axis=1) + LEVEL_PRECISION, weight @ features
    precision = (weight @ (features[:, one] * features[:, two])).take(place, axis=1)
    precision -= (s / total[:, None])[:, :, None] * s[:, None, :]
    shift = wy @ features - (wy.sum(axis=1) / total)[:, None] * s
    own = np.linalg.inv(precision + np.linalg.inv(spread.of_cell))
    lost = precision @ own
    left = lost @ precision
    np.subtract(precision, left, out=left)
    rest = shift - (lost @ shift[:, :, None])[:, :, 0]
    return SufficientStatistics(
        left.reshape(-1, places, f, f), rest.reshape(-1, places, f), precision, shift, own, spread
    )


def evidence(seen: SufficientStatistics, cells: Floats) -> Evidence:
    """Return the evidence about T. cells (cells, q). Classes that saw nothing would add nothing but time."""
    classes, places, f, _ = seen.precision.shape
    q = cells.shape[1]
    g, factor = cells.reshape(classes, places, q), seen.of_class()
    one, two, place = symmetric(q)
    precision, shift = np.zeros((f * f, len(one))), np.einsum("ksf,ksq->fq", seen.shift, g).ravel()
    lost, more = np.zeros((f * q, f * q)), np.empty((f * q, f * q))
    used = np.flatnonzero(np.trace(seen.precision.sum(axis=1), axis1=1, axis2=2) > 0)
    for start in range(0, len(used), CLASSES_AT_ONCE):
        k = used[start : start + CLASSES_AT_ONCE]
        flat, here = seen.precision[k].reshape(len(k), places, f * f), g[k]
        cell = here.reshape(-1, q)
        precision += flat.reshape(-1, f * f).T @ (cell[:, one] * cell[:, two])
        cross = (flat.transpose(0, 2, 1) @ here).reshape(len(k), f, f * q)
        both = np.concatenate((cross, seen.shift[k].sum(axis=1)[:, :, None]), axis=2)
        found = np.linalg.solve(factor[k], both).reshape(len(k) * f, f * q + 1)
        lost += np.matmul(found[:, :-1].T, found[:, :-1], out=more)
        shift -= found[:, :-1].T @ found[:, -1]
    ordered = precision.take(place, axis=1).reshape(f, f, q, q).transpose(0, 2, 1, 3).reshape(f * q, f * q)
    ordered -= lost
    return Evidence(ordered, shift)


class Model:
    """The posterior over cells and configurations.

    known: of T, solved; seen: the same loads as in it, by cell; features (configurations, f), cells (cells, q);
    count, mean_ln (cells, configurations).
    """

    def __init__(
        self,
        known: Known,
        seen: SufficientStatistics,
        features: Floats,
        cells: Floats,
        count: Floats,
        mean_ln: Floats,
        *,
        noise_ln: float,
        residual_ln: float,
        usual_ln: Floats | float = 0.0,
    ):
        self.features, self.cells, self._seen = features, cells, seen
        mean_ln, self._usual_ln = mean_ln - usual_ln, np.broadcast_to(usual_ln, mean_ln.shape[1:])
        self._factor, self._centre = known.factor, known.centre
        self._of_class, self._own_factor = seen.of_class(), np.linalg.cholesky(seen.own_covariance)
        weight = weights(count, noise_ln, residual_ln)
        self._mean_ln, self._total = mean_ln, weight.sum(axis=1) + LEVEL_PRECISION
        self._s, self._wy = weight @ features, (weight * mean_ln).sum(axis=1)
        self._shrink = count * residual_ln**2 / (noise_ln**2 + count * residual_ln**2)
        # Variance of the residual once seen `count` times.
        self.residual_variance = residual_ln**2 * (1.0 - self._shrink)
        self._mean_effects = self.effects(self._centre[None])
        self._mean: Floats | None = None

    def effects(self, shared: Floats, rng: np.random.Generator | None = None, boldness: float = 0.0) -> Floats:
        """Return (n, cells, f) effects of each cell for n T's (n, f x q), the class's and the cell's own at their means
        given T; with a generator they are drawn, deviations times `boldness`."""
        classes, places, f = self._seen.shift.shape
        of_cell = (self.cells @ shared.reshape(len(shared) * f, -1).T).reshape(classes * places, len(shared), f)
        by_class = of_cell.transpose(0, 2, 1).reshape(classes, places, f, -1)
        rest = self._seen.shift[..., None] - self._seen.precision @ by_class
        right = np.linalg.solve(self._of_class, rest.sum(axis=1))
        if rng is not None:
            right += boldness * rng.standard_normal(right.shape)
        of_class = np.linalg.solve(self._of_class.transpose(0, 2, 1), right)
        above = (by_class + of_class[:, None]).reshape(classes * places, f, -1)
        own = self._seen.own_covariance @ (self._seen.raw_shift[:, :, None] - self._seen.raw_precision @ above)
        if rng is not None:
            own += boldness * (self._own_factor @ rng.standard_normal(own.shape))
        return np.ascontiguousarray((above + own).transpose(2, 0, 1))

    def level(self, effects: Floats) -> Floats:
        """Return (n, cells) ln(ms) of Default, given the effects; meaningless for a cell that saw nothing."""
        found: Floats = (self._wy - (self._s * effects).sum(axis=2)) / self._total
        return found

    def table(self, effects: Floats, among: Codes | slice = slice(None)) -> Floats:
        """Return (n, cells, configurations), perhaps some only: the effects' excess plus each cell's shrunken
        residual."""
        level, found = self.level(effects), np.empty((len(effects), *self._mean_ln[:, among].shape))
        features, mean_ln, shrink = self.features[among].T, self._mean_ln[:, among], self._shrink[:, among]
        # One by one: the arrays of a draw stay within a core's cache.
        for one, out, base in zip(effects, found, level, strict=True):
            linear = one @ features
            np.subtract(mean_ln, base[:, None], out=out)
            out -= linear
            out *= shrink
            out += linear
            out += self._usual_ln[among]
        return found

    def shared(self) -> Floats:
        """Return (cells, configurations) the posterior mean of the excess from features alone, ln(ms)."""
        found: Floats = self.cells @ self._centre.reshape(self.features.shape[1], -1).T @ self.features.T
        return found

    def mean(self) -> Floats:
        """Return (cells, configurations) posterior mean of the excess over the cell's level, ln(ms); computed once, not
        to be changed."""
        if self._mean is None:
            self._mean = self.table(self._mean_effects)[0]
        return self._mean

    def levels(self) -> Floats:
        """Return (cells,) expected ln(ms) of the cell's level; NaN for a cell that saw nothing."""
        return np.where(self._total > LEVEL_PRECISION, self.level(self._mean_effects)[0], np.nan)

    def draws(self, n: int, rng: np.random.Generator, boldness: float, among: Codes | slice = slice(None)) -> Floats:
        """Return (n, cells, configurations), perhaps some only: tables from the posterior, deviations times
        `boldness`."""
        from scipy.linalg import solve_triangular

        normal = rng.standard_normal((len(self._centre), n))
        shared = self._centre + boldness * solve_triangular(self._factor, normal, lower=True, trans=1).T
        found = self.table(self.effects(shared, rng, boldness), among)
        deviation, noise = boldness * np.sqrt(self.residual_variance[:, among]), np.empty(found.shape[1:])
        for one in found:
            rng.standard_normal(out=noise)
            noise *= deviation
            one += noise
        return found
