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

from configtron.learner.cell_sums import LEVEL_PRECISION, CellSums, cell_sums, inverse_factors, renewed
from configtron.learner.columns import Codes, Floats
from configtron.learner.posterior_draws import blocks
from configtron.learner.state import keep

# Classes whose products are summed at a time: bounds memory at some ten megabytes.
CLASSES_AT_ONCE = 32


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


class SufficientStatistics:
    """Sufficient statistics of all cells' f effects, by class: sums (cells in order), places of each class, and what
    follows for classes.

    of_class (classes, f, f): inverse of the lower Cholesky factor of the precision of each class's own effects, given
    T; shift (classes, f): sum over its cells.
    """

    def __init__(self, sums: CellSums, places: int, spread: Spread):
        self.sums, self.places, self.spread = sums, places, spread
        f = sums.shift.shape[1]
        together = sums.precision.reshape(-1, places, f, f).sum(axis=1)
        self.seen = np.trace(together, axis1=1, axis2=2) > 0
        self.of_class = inverse_factors(together + np.linalg.inv(spread.of_class))
        self.shift: Floats = sums.shift.reshape(-1, places, f).sum(axis=1)


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
    weight: Floats,
    mean_ln: Floats,
    features: Floats,
    places: int,
    spread: Spread,
    before: SufficientStatistics | None = None,
) -> SufficientStatistics:
    """Return the sufficient statistics: sums over configurations.

    weight, mean_ln (cells, configurations); features (configurations, f); before: of the same features, with most of
    the loads: of no use afterwards, as of `cell_sums.renewed`.
    """
    if before is None or before.spread is not spread or len(before.sums.weight) != len(weight):
        return SufficientStatistics(cell_sums(weight, mean_ln, features, spread.of_cell), places, spread)
    return SufficientStatistics(renewed(before.sums, weight, mean_ln, features), places, spread)


def evidence(seen: SufficientStatistics, cells: Floats) -> Evidence:
    """Return the evidence about T. cells (cells, q). Classes that saw nothing would add nothing but time."""
    f, q, places = seen.shift.shape[1], cells.shape[1], seen.places
    g = cells.reshape(-1, places, q)
    one, two, place = symmetric(q)
    down, across, where = symmetric(f)
    matrix, own_shift = seen.sums.precision.reshape(-1, places, f, f), seen.sums.shift
    precision, shift = np.zeros((len(down), len(one))), (own_shift.T @ cells).ravel()
    lost, more = np.zeros((f * q, f * q)), np.empty((f * q, f * q))
    used = np.flatnonzero(seen.seen)
    for start in range(0, len(used), CLASSES_AT_ONCE):
        k = used[start : start + CLASSES_AT_ONCE]
        mine, here = matrix[k], g[k]
        cell = here.reshape(-1, q)
        precision += mine[:, :, down, across].reshape(-1, len(down)).T @ (cell[:, one] * cell[:, two])
        cross = (mine.reshape(len(k), places, f * f).transpose(0, 2, 1) @ here).reshape(len(k), f, f * q)
        both = np.concatenate((cross, seen.shift[k][:, :, None]), axis=2)
        found = (seen.of_class[k] @ both).reshape(len(k) * f, f * q + 1)
        lost += np.matmul(found[:, :-1].T, found[:, :-1], out=more)
        shift -= found[:, :-1].T @ found[:, -1]
    # From pairs of effects and pairs of a cell's features to the order of T's: effect by effect.
    ordered = precision[where[:, None, :, None], place[None, :, None, :]].reshape(f * q, f * q)
    ordered -= lost
    return Evidence(ordered, shift)


class Model:
    """The posterior over cells and configurations.

    known: of T, solved; seen: the same loads as in it, by cell; features (configurations, f), cells (cells, q);
    usual_ln (configurations,): excess that is expected of all cells, which the loads' means in `seen` are beyond.
    """

    def __init__(
        self,
        known: Known,
        seen: SufficientStatistics,
        features: Floats,
        cells: Floats,
        *,
        residual_ln: float,
        usual_ln: Floats | float = 0.0,
    ):
        self.features, self.cells, self._seen = features, cells, seen
        self._factor, self._centre, self._mean_ln = known.factor, known.centre, seen.sums.mean_ln
        self._usual_ln = np.broadcast_to(usual_ln, self._mean_ln.shape[1:])
        self._shrink = seen.sums.weight * residual_ln**2
        # Variance of the residual once seen `count` times.
        self.residual_variance = residual_ln**2 * (1.0 - self._shrink)
        self._mean_effects = self.effects(self._centre[None])
        self._mean: Floats | None = None

    def effects(self, shared: Floats, rng: np.random.Generator | None = None, boldness: float = 0.0) -> Floats:
        """Return (cells, n, f) effects of each cell for n T's (n, f x q), the class's and the cell's own at their means
        given T; with a generator they are drawn, deviations times `boldness`."""
        seen, sums = self._seen, self._seen.sums
        (classes, f), n, cells = seen.shift.shape, len(shared), len(sums.shift)
        above = (self.cells @ shared.reshape(n * f, -1).T).reshape(cells, n, f)
        shown = (above @ sums.precision).reshape(classes, -1, n, f).sum(axis=1)
        right = (seen.shift[:, None] - shown) @ seen.of_class.transpose(0, 2, 1)
        if rng is not None:
            right += boldness * rng.standard_normal((classes, f, n)).transpose(0, 2, 1)
        above.reshape(classes, -1, n, f)[...] += (right @ seen.of_class)[:, None]
        found: Floats = above @ sums.carry
        found += sums.centre[:, None]
        if rng is not None:
            own = rng.standard_normal((cells, f, n)).transpose(0, 2, 1) @ sums.factor.transpose(0, 2, 1)
            own *= boldness
            found += own
        return found

    def level(self, effects: Floats) -> Floats:
        """Return (cells, n) ln(ms) of Default, given the effects; meaningless for a cell that saw nothing."""
        sums = self._seen.sums
        shown = (effects @ sums.of_features[:, :, None])[:, :, 0]
        found: Floats = (sums.weighted_ln[:, None] - shown) / sums.total[:, None]
        return found

    def table(self, effects: Floats, among: Codes | slice = slice(None), more_ln: Floats | float = 0.0) -> Floats:
        """Return (cells, n, configurations), perhaps some only: the effects' excess plus each cell's shrunken residual;
        more_ln is added to each configuration."""
        features, shrink = np.ascontiguousarray(self.features[among].T), self._shrink[:, among]
        seen = shrink * self._mean_ln[:, among] + self._usual_ln[among] + more_ln
        level, found = self.level(effects), np.empty((*effects.shape[:2], features.shape[1]))
        for rows in blocks(len(found)):
            out = np.matmul(effects[rows], features, out=found[rows])
            out -= shrink[rows, None] * (out + level[rows, :, None])
            out += seen[rows, None]
        return found

    def shared(self) -> Floats:
        """Return (cells, configurations) the posterior mean of the excess from features alone, ln(ms)."""
        found: Floats = self.cells @ self._centre.reshape(self.features.shape[1], -1).T @ self.features.T
        return found

    def mean(self) -> Floats:
        """Return (cells, configurations) posterior mean of the excess over the cell's level, ln(ms); computed once, not
        to be changed."""
        if self._mean is None:
            self._mean = self.table(self._mean_effects)[:, 0]
        return self._mean

    def own_effects(self, own_ln: float) -> Floats:
        """Return (configurations,) the mean effect of each in all cells alike that no feature explains, ln(ms); own_ln:
        its standard deviation."""
        weight, seen_ln = self._seen.sums.weight, self._mean_ln + self._usual_ln
        rest = seen_ln - self.mean() - np.nan_to_num(self.levels())[:, None]
        found: Floats = np.einsum("ck,ck->k", weight, rest) / (weight.sum(axis=0) + own_ln**-2)
        return found

    def levels(self) -> Floats:
        """Return (cells,) expected ln(ms) of the cell's level; NaN for a cell that saw nothing."""
        known = self._seen.sums.total > LEVEL_PRECISION
        return np.where(known, self.level(self._mean_effects)[:, 0], np.nan)

    def draws(
        self,
        n: int,
        rng: np.random.Generator,
        boldness: float,
        among: Codes | slice = slice(None),
        more_ln: Floats | float = 0.0,
    ) -> Floats:
        """Return (cells, n, configurations), perhaps some only: tables from the posterior, deviations times `boldness`;
        more_ln is added to each configuration."""
        from scipy.linalg import solve_triangular

        normal = rng.standard_normal((len(self._centre), n))
        shared = self._centre + boldness * solve_triangular(self._factor, normal, lower=True, trans=1).T
        found = self.table(self.effects(shared, rng, boldness), among, more_ln)
        deviation = boldness * np.sqrt(self.residual_variance[:, among])
        noise = np.empty(deviation.shape)
        for draw in range(n):
            rng.standard_normal(out=noise)
            noise *= deviation
            found[:, draw] += noise
        return found
