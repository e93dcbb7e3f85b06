# SPDX-License-Identifier: MIT
"""A profile's gain over Default, with a lower bound that holds for all compared profiles and classes together.

Question   Which profiles load pages faster than Default does, for all clients or for those of some classes, beyond
           chance in so many comparisons?
Method     A profile is compared with Default by the loads that differ in just its knobs: the other knobs are paired,
           as likely on one side as on the other, so that each comparison uses a large share of the log (marginal
           weights over the structure of knobs). Loads are weighed by the inverse of their propensity, less their
           expectation by `adjusted.py`, plus that expectation's own difference (DR: unbiased where the propensities are
           right, for any regression). Spread by clusters, that is prefixes. All profiles are compared in all
           clients together, in groups of classes that are alike (halves, quarters, eighths of the networks) and in each
           class. A share of the error goes to each level. Within a group the critical value is that of the largest of
           correlated normal differences; between groups Bonferroni's. So the bounds hold even for a profile that was
           chosen by the same outcomes; no holdout is needed. Where a knob's effect depends on other knobs, only
           comparisons with those at their default count.
Stop when  each level's groups are compared.
Reads as   per class the profiles that are proven, each with its gain (share of page load time, of the geometric mean)
           and lower bound; else the reason. A group's bound is that of its mean: a class of it whose own loads show
           that the profile is slower there does not get it.
Fails as   `no-propensities`, `unbalanced` (propensities that are not those by which the log was drawn: network and site
           differ between the sides), `few-loads`, `partly-tried`: nothing can be shown; `not-proven`, `slower-here`.
Differs    CT compares with no default and puts in force the latest choice of its ensemble.
Source     Robins, Rotnitzky and Zhao 1994 (DR); Hothorn, Bretz and Westfall 2008 (largest of correlated
           differences); Holm 1979; Lan and DeMets 1983 (error spent over looks); Satterthwaite 1946.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from configtron.learner.adjusted import Adjusted, adjusted
from configtron.learner.chance import seeded
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.groups import Group
from configtron.learner.split_test import values_of
from configtron.model.grid import Grid
from configtron.model.student import student_quantile

# Share of logs without any effect from which anything may be handed over, all looks at them together.
ERROR = 0.05
# How it is shared among the levels of groups: all clients, halves, quarters, eighths, single classes.
LEVEL_SHARES = (0.5, 0.125, 0.125, 0.125, 0.125)
# Effective loads on either side below which the spread of a difference is not known.
LEAST_EFFECTIVE = 30.0
# Draws of correlated normal differences, and the least error that so many show; below it Bonferroni's bound is taken.
DRAWS, LEAST_DRAWN = 20_000, 0.002
# Error of the test by which knobs are found to act together, and of the test of sides that are not alike.
TOGETHER_ERROR, UNBALANCED_ERROR = 0.01, 1e-4
# A side's weights have a mean of one; further off than this, beyond chance, and clients were left out.
OFF_ONE = 0.05
# The probability at which a gain counts as one that the log would show.
POWER = 0.8
NORMAL = NormalDist()

# Why a class keeps Default, or a prefix its present profile.
HELD_REASONS = {
    "no-propensities": "the log says of too few loads how likely their configuration was",
    "few-loads": "too few loads of Default, or of any profile that may be handed over",
    "partly-tried": "some clients could not have got one of the two sides, by the log's propensities",
    "unbalanced": "clients with and without a knob differ more than the log's propensities allow",
    "not-proven": "no profile's lower bound of the gain over Default is above 0",
    "slower-here": "proven for a group of classes, but this class's own loads say that it is slower here",
    "new-class": "the class is newer than the latest look at the log",
    "human": "a user set this prefix, or a wider one around it",
}


@dataclass(frozen=True, slots=True, eq=False)
class LoggedLoads:
    """n loads of known classes, (n,) each; cluster: number of the prefix, whose loads are correlated."""

    contexts: Contexts
    network: Codes
    configuration: Codes
    propensity: Floats
    ms: Floats
    cluster: Codes

    def __len__(self) -> int:
        return len(self.ms)


@dataclass(frozen=True, slots=True)
class Proof:
    """A profile that is faster than Default: gain and its lower bound in ln(ms); classes: of how many, together."""

    configuration: int
    gain_ln: float
    low_ln: float
    classes: int


@dataclass(frozen=True, slots=True)
class Power:
    """The power of a log for one group ("" for all clients): loads, critical value, standard errors in ln(ms) of the
    median profile and of the best known one; infinite where none can be compared."""

    of: str
    loads: int
    critical: float
    median_ln: float
    least_ln: float

    def smallest(self, error_ln: float) -> float:
        """Return the gain, as a share, that is found with probability `POWER`; infinite where nothing can be
        compared."""
        if not np.isfinite(error_ln):
            return float("inf")
        return float(-np.expm1(-(self.critical + NORMAL.inv_cdf(POWER)) * error_ln))

    def more(self, gain: float) -> float:
        """Return the loads still missing to find a gain of that share, of the median profile, with that probability."""
        if not np.isfinite(self.critical):
            return float("inf")
        needed = self.loads * ((self.critical + NORMAL.inv_cdf(POWER)) * self.median_ln / -np.log1p(-gain)) ** 2
        return max(0.0, float(needed) - self.loads)


@dataclass(frozen=True, slots=True)
class GainVerdict:
    """proven: class -> its proven profiles; held: class -> why it has none."""

    proven: Mapping[int, tuple[Proof, ...]]
    held: Mapping[int, str]
    power: tuple[Power, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One group's differences, Default less each of C profiles, in ln(ms). gain, error, freedom: (C,) mean, standard
    error, degrees of freedom; able: (C,) which could be compared; reason: why none could be."""

    gain: Floats
    error: Floats
    freedom: Floats
    able: Mask
    critical: float = np.inf
    reason: str = ""

    @property
    def low(self) -> Floats:
        """Return (C,) lower bounds, all at once; minus infinity where none is known."""
        found = np.full(len(self.gain), -np.inf)
        if self.able.any():
            edge = student_quantile(self.freedom[self.able], NORMAL.cdf(self.critical))
            found[self.able] = self.gain[self.able] - edge * self.error[self.able]
        return found


def pairings(grid: Grid, candidates: Codes, dear: Floats, *, direct: bool = False) -> Floats:
    """Return (C, configurations) weight of each configuration's loads in the difference Default less candidate.

    dear: (configurations,) mean inverse propensity, which the variance of a mean load is proportional to; infinite if
    never logged. direct: only with all other knobs at their default.
    """
    at, default = grid.positions, grid.positions[grid.default]
    place = {row: n for n, row in enumerate(grid.rows)}
    found = np.zeros((len(candidates), len(grid)))
    for n, candidate in enumerate(candidates):
        mine = at[candidate] != default
        for one in np.flatnonzero((at[:, mine] == at[candidate][mine]).all(axis=1)):
            if direct and one != candidate:
                continue
            other = place.get(tuple(np.where(mine, default, at[one]).tolist()))
            if other is not None and np.isfinite(dear[one] + dear[other]):
                found[n, one], found[n, other] = -1.0 / (dear[one] + dear[other]), 1.0 / (dear[one] + dear[other])
        found[n] /= max(float(found[n][found[n] > 0].sum()), 1e-300)
    return found


class Compared:
    """All profiles of `among` against Default, in any group of loads."""

    def __init__(self, trial: LoggedLoads, grid: Grid, among: Mask):
        self.trial, self.grid = trial, grid
        self.candidates: Codes = np.flatnonzero(among & (np.arange(len(grid)) != grid.default))
        self.inverse = 1.0 / trial.propensity
        self.dear = _mean_inverse(trial, len(grid))
        self.weight = pairings(grid, self.candidates, self.dear)
        self.adjusted: Adjusted = adjusted(grid, trial.contexts, trial.configuration, trial.ms, _halves(trial.cluster))
        self.order = np.argsort(trial.cluster, kind="stable")
        self.terms = self.terms_of(self.weight)

    def terms_of(self, weight: Floats, plain: Floats | None = None) -> Floats:
        """Return (n, C) DR terms whose mean is the gain, by weights (C, configurations); plain: (n,) in place of the
        loads' residuals, to compare quantities that no configuration can have changed."""
        drawn = weight.T[self.trial.configuration]
        if plain is not None:
            return drawn * (plain * self.inverse)[:, None]
        expected = self.adjusted.effect @ (weight @ values_of(self.grid)).T
        return expected + drawn * (self.adjusted.rest * self.inverse)[:, None]

    def unbalanced(self) -> Mask:
        """Return (C,) whether network and site alone separate the sides, beyond chance: propensities are not the
        log's."""
        level = self.adjusted.level - self.adjusted.level.mean()
        found = self._means(self.terms_of(self.weight, level), np.arange(len(self.trial)))[0]
        bound = -NORMAL.inv_cdf(UNBALANCED_ERROR / 2.0)
        return np.abs(found.gain) > bound * np.maximum(found.error, 1e-12)

    def within(self, rows: Codes, error: float, barred: Mask) -> Comparison:
        """Compare by loads `rows` (m,) alone, with that chance of any lower bound above its gain. barred: (C,) not
        compared."""
        effective, whole = self._support(rows)
        enough = effective >= LEAST_EFFECTIVE
        found, scores = self._means(self.terms[rows], rows)
        able = enough & whole & ~barred & (found.error > 0.0)
        if not able.any():
            return Comparison(found.gain, found.error, found.freedom, able, reason=_why_none(enough, whole, barred))
        critical = _critical(scores[:, able], error)
        return self._acting_together(rows, Comparison(found.gain, found.error, found.freedom, able, critical))

    def _acting_together(self, rows: Codes, found: Comparison) -> Comparison:
        """Return replace the comparison of profiles whose knobs act together with others by that at the others' default
        alone."""
        promising = np.flatnonzero(found.low > 0.0)
        if not len(promising):
            return found
        weight = pairings(self.grid, self.candidates[promising], self.dear, direct=True)
        effective, whole = self._support(rows, weight)
        direct = self.terms_of(weight)[rows]
        apart, _ = self._means(self.terms[rows][:, promising] - direct, rows)
        alone, _ = self._means(direct, rows)
        other = (effective >= LEAST_EFFECTIVE) & whole & (alone.error > 0.0)
        other &= apart.gain > student_quantile(apart.freedom, 1.0 - TOGETHER_ERROR) * apart.error
        gain, error, freedom = found.gain.copy(), found.error.copy(), found.freedom.copy()
        to = promising[other]
        gain[to], error[to], freedom[to] = alone.gain[other], alone.error[other], alone.freedom[other]
        return Comparison(gain, error, freedom, found.able, found.critical)

    def _support(self, rows: Codes, weight: Floats | None = None) -> tuple[Floats, Mask]:
        """Return (C,) effective loads of the smaller side; whether both sides' weights have a mean of one."""
        weight = self.weight if weight is None else weight
        which, inverse, n = self.trial.configuration[rows], self.inverse[rows], max(len(rows), 1)
        once = np.bincount(which, weights=inverse, minlength=len(self.grid))
        twice = np.bincount(which, weights=inverse**2, minlength=len(self.grid))
        effective, whole = np.full(len(weight), np.inf), np.ones(len(weight), dtype=np.bool_)
        for side in (np.maximum(weight, 0.0), np.maximum(-weight, 0.0)):
            total, square = side @ once, side**2 @ twice
            effective = np.minimum(effective, np.divide(total**2, square, out=np.zeros(len(total)), where=square > 0))
            chance = 3.3 * np.sqrt(np.maximum(square - total**2 / n, 0.0)) / n
            whole &= total / n > 1.0 - OFF_ONE - chance
        return effective, whole

    def _means(self, terms: Floats, rows: Codes) -> tuple[Comparison, Floats]:
        """Return means of (m, C) terms with their spread by cluster, and each cluster's sums about them (clusters,
        C)."""
        cluster = self.trial.cluster[rows]
        order = np.argsort(cluster, kind="stable")
        starts = np.flatnonzero(np.diff(cluster[order], prepend=-1)) if len(rows) else np.zeros(0, dtype=np.int64)
        if len(starts) < 2:
            none = np.zeros(terms.shape[1])
            return Comparison(none, none, none + 1.0, none > 0), np.zeros((1, terms.shape[1]))
        gain = terms.mean(axis=0)
        sums = np.add.reduceat(terms[order], starts, axis=0) - np.diff(starts, append=len(rows))[:, None] * gain
        square = (sums**2).sum(axis=0)
        count = len(starts)
        error = np.sqrt(square * count / (count - 1.0)) / len(rows)
        spread = np.maximum((sums**4).sum(axis=0) / np.maximum(square, 1e-150) ** 2 - 1.0 / count, 1e-12)
        freedom = np.clip(2.0 / spread, 1.0, count - 1.0)
        return Comparison(gain, error, freedom, error > 0.0), sums


def examined(compared: Compared, groups: tuple[Group, ...], names: tuple[str, ...], error: float) -> GainVerdict:
    """Compare every group, with a total error of `error`, and conclude for each class (names: their ids)."""
    trial, per_level = compared.trial, np.bincount([group.level for group in groups], minlength=len(LEVEL_SHARES))
    barred, of_class = compared.unbalanced(), _rows_of(trial.network, len(names))
    seen: list[tuple[Group, Comparison]] = []
    power: list[Power] = []
    for group in groups:
        rows = np.concatenate([of_class[k] for k in group.classes])
        share = error * LEVEL_SHARES[group.level] / per_level[group.level]
        found = compared.within(rows, share, barred)
        seen.append((group, found))
        if group.level == 0 or len(group.classes) == 1:
            power.append(_power("" if group.level == 0 else names[group.classes[0]], len(rows), found))
    whole = seen[0][1]
    proven: dict[int, tuple[Proof, ...]] = {}
    held: dict[int, str] = {}
    for k in range(len(names)):
        own = next(found for group, found in reversed(seen) if k in group.classes)
        proofs, slower = _of_class(compared, [pair for pair in seen if k in pair[0].classes], own)
        if proofs:
            proven[k] = proofs
        else:
            held[k] = "slower-here" if slower else (whole.reason or "not-proven")
    return GainVerdict(proven, held, tuple(power))


def _of_class(
    compared: Compared, seen: list[tuple[Group, Comparison]], own: Comparison
) -> tuple[tuple[Proof, ...], bool]:
    """Return proofs from every group with this class, highest bound first; whether its own loads contradict some."""
    best: dict[int, Proof] = {}
    slower = False
    for group, found in seen:
        low = found.low
        for at in np.flatnonzero(low > 0.0):
            if len(group.classes) > 1 and _opposes(float(found.gain[at]), float(own.gain[at]), float(own.error[at])):
                slower = True
                continue
            proof = Proof(int(compared.candidates[at]), float(found.gain[at]), float(low[at]), len(group.classes))
            if proof.configuration not in best or best[proof.configuration].low_ln < proof.low_ln:
                best[proof.configuration] = proof
    return tuple(sorted(best.values(), key=lambda proof: -proof.low_ln)), slower


def _opposes(group: float, own: float, error: float) -> bool:
    """Return whether a class's own gain, drawn to the group's by a prior as wide as the group's gain, is none."""
    return error > 0.0 and group * error**2 + own * group**2 < 0.0


def chosen(proofs: tuple[Proof, ...], wish: int) -> Proof:
    """Return the policy's choice (wish), if proven and its gain not below another's lower bound; else the highest
    bound."""
    mine = next((proof for proof in proofs if proof.configuration == wish), None)
    return mine if mine is not None and mine.gain_ln >= proofs[0].low_ln else proofs[0]


def error_of(looks: int, error: float = ERROR) -> float:
    """Return the error of the next test after `looks` tests of the same log: all together err by `error`, however
    many."""
    return error / ((looks + 1) * (looks + 2))


def _power(of: str, loads: int, found: Comparison) -> Power:
    errors = found.error[found.able]
    if not len(errors):
        return Power(of, loads, np.inf, np.inf, np.inf)
    edge = student_quantile(float(np.median(found.freedom[found.able])), NORMAL.cdf(found.critical))
    return Power(of, loads, float(edge), float(np.median(errors)), float(errors.min()))


def _critical(scores: Floats, error: float) -> float:
    """Return the critical value, in standard errors, that the largest of C correlated means exceeds with probability
    `error`, by their scores (clusters, C)."""
    count = scores.shape[1]
    bonferroni = -NORMAL.inv_cdf(error / count)
    if error < LEAST_DRAWN or count == 1:
        return bonferroni
    square = scores.T @ scores
    scale = np.sqrt(np.diag(square))
    values, vectors = np.linalg.eigh(square / np.outer(scale, scale))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    largest = (seeded(0).standard_normal((DRAWS, count)) @ root.T).max(axis=1)
    return min(bonferroni, float(np.quantile(largest, 1.0 - error)))


def _why_none(enough: Mask, whole: Mask, barred: Mask) -> str:
    """Return why none of the profiles could be compared."""
    if not enough.any():
        return "few-loads"
    return "unbalanced" if (enough & barred).any() else "partly-tried" if (enough & ~whole).any() else "few-loads"


def _mean_inverse(trial: LoggedLoads, configurations: int) -> Floats:
    """Return (configurations,) mean inverse propensity, by the loads there are; infinite where there are none."""
    total = np.bincount(trial.configuration, weights=trial.propensity**-2.0, minlength=configurations)
    return np.where(total > 0.0, total / len(trial), np.inf)


def _halves(cluster: Codes) -> Codes:
    """Return (n,) 0 or 1: whole clusters, counted off."""
    rank = np.unique(cluster, return_inverse=True)[1].reshape(-1)
    return (rank % 2).astype(np.int64)


def _rows_of(network: Codes, classes: int) -> list[Codes]:
    order = np.argsort(network, kind="stable")
    return list(np.split(order, np.searchsorted(network[order], np.arange(1, classes))))
