# SPDX-License-Identifier: MIT
"""DR: a model corrected by weights, which are drawn towards those of single knobs as far as it misses little.

Question   How much of the model's error is the candidate's own, and how much the chance of few, heavy loads?
Method     DR adds to the model's value the mean of weight x (load - modelled). For one configuration of 168 the weights
           are 168 on one session in 168, and their chance decides. Weights marginalised over the structure of knobs do
           better: w_k weighs a session by its value of knob k alone, as if the candidate chose that and left the rest
           to the logger; it is 6, not 168, where a knob has six values. Each knob's own term is taken whole. Of the
           rest, w - 1 - sum of (w_k - w_0), a share b is taken (w_0: nothing chosen, all left to the logger; near 1). b
           asks how much configurations differ beyond model and knobs, and that shows in all the others: placebos, the
           candidate with its choices exchanged for other configurations, one after the other around the list, have the
           same structure over contexts and are no better known to the model. The spread of their rests, beyond its own
           chance, is tau; b = tau^2 / (tau^2 + chance^2). tau is its upper 95 % bound, so that few or noisy placebos
           leave b near 1, and plain DR; the part left out, (1 - b) tau, widens the interval. A candidate that stands
           out from its placebos (by more than STANDS_OUT) keeps plain weights. Loads in a heavy tail are few, and one
           of them under a large weight would decide. Their excess beyond the tail's bound has weights of one, as if all
           configurations had the same tail, unless the candidate's loads are in the tail more or less often than chance
           allows. By how much its share may still differ is bounded by how much configurations' shares do, as tau is,
           and widens the interval. Terms are summed by prefix: sessions of one prefix share a network that no context
           shows wholly.
Stop when  summed.
Reads as   a mean in the outcome's unit, and its interval.
Fails as   intervals for a candidate that the model misses far more than placebos, and not by enough to stand out:
           then they are too narrow; no such was seen (`benchmarks/offpolicy.py`). A tail that a candidate alone has,
           of which it met too few loads to stand out.
Differs    CT has no off-policy check.
Source     Dudik, Langford and Li 2011 (DR); Saito and Joachims 2022 (marginalised weights); Fay and Herriot 1979
           (shrinking by the areas' spread beyond chance); Efron and Morris 1971 (limits to it); Viechtbauer 2007
           (tau's bound by Q); Liang and Zeger 1986 (sums by cluster); Zou and Donner 2008 (ends of a sum by parts).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Floats

# Placebos at most; sessions that a placebo's weights amount to, and share of its choices that was tried, at least.
MOST_PLACEBOS, LEAST_SESSIONS, LEAST_TRIED = 40, 8.0, 0.5
# Placebos below which nothing is drawn towards one.
LEAST_PLACEBOS = 8
# Standard deviations by which a candidate's own correction may differ from its placebos' and still be drawn.
STANDS_OUT = 2.5
# Loads in the tail that a group of configurations is expected to have, at least, so that its share of them is known;
# and loads that a candidate's weights amount to there, at least, for it to have a share above others'.
LEAST_EXPECTED, LEAST_MET = 1.0, 8.0
# Probability of a chi-square below which tau's bound is sought: it is above the true tau in 19 logs of 20.
BELOW_Q = 0.05
# Halvings of the interval that tau's square is sought in: a double has no more digits.
HALVINGS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The draws of a log, (n,) each. table: (rows, configurations) probabilities of the candidate; row, configuration,
    propensity of each session; cluster: codes from 0, of sessions drawn together; values: (knobs, configurations) codes
    of each knob's value, none for no structure."""

    table: Floats
    row: Codes
    configuration: Codes
    propensity: Floats
    cluster: Codes
    values: Codes

    def weight(self) -> Floats:
        """Return (n,) the ratio of the candidate's to the logger's probability of the draw."""
        found: Floats = self.table[self.row, self.configuration] / self.propensity
        return found

    def others(self) -> Iterator[Floats]:
        """Yield tables of the placebos: each choice exchanged for another configuration that was drawn."""
        used = np.unique(self.configuration[np.isfinite(self.propensity)])
        if len(used) < 2:
            return
        for step in np.unique(np.linspace(1, len(used) - 1, min(MOST_PLACEBOS, len(used) - 1)).astype(np.int64)):
            table = np.zeros_like(self.table)
            table[:, used] = self.table[:, np.roll(used, step)]
            yield table

    def placebos(self) -> Iterator[Draws]:
        """Yield the log as it judges placebos, of those that it tried."""
        for table in self.others():
            placebo = replace(self, table=table)
            weight = placebo.weight()
            total, square = float(weight.sum()), float((weight**2).sum())
            if total >= LEAST_TRIED * len(weight) and total**2 >= LEAST_SESSIONS * square:
                yield placebo


@dataclass(frozen=True, slots=True, eq=False)
class LoggerByKnob:
    """The logger's usual choices, given a knob's value: nothing of them depends on outcomes.

    given   (knobs, configurations) share of a configuration among those of its value of the knob
    plain   (n,) weights of a candidate that leaves everything to these
    """

    values: Codes
    given: Floats
    plain: Floats

    def weight(self, draws: Draws) -> Floats:
        """Return (n,) the sum of the knobs' own weights: 1 + sum of (w_k - w_0)."""
        found = np.ones(len(draws.row))
        for value, given in zip(self.values, self.given, strict=True):
            chosen = draws.table @ (value[:, None] == np.arange(int(value.max()) + 1))
            mine = chosen[draws.row, value[draws.configuration]] * given[draws.configuration] / draws.propensity
            found += mine - self.plain
        return found


def knobs_of(draws: Draws) -> LoggerByKnob:
    """Return the logger's usual choices: in inverse proportion to the mean of 1 / propensity that each was drawn
    with."""
    width, counted = draws.table.shape[1], np.isfinite(draws.propensity)
    drawn, inverse = draws.configuration[counted], 1.0 / draws.propensity[counted]
    # A draw stands for as many sessions as it weighs.
    total, squares = (np.bincount(drawn, weights=inverse**power, minlength=width) for power in (1, 2))
    usual = np.where(total > 0.0, total / np.maximum(squares, 1e-300), 0.0)
    among = [np.bincount(value, weights=usual)[value] for value in draws.values]
    given = np.array([np.where(of > 0.0, usual / np.maximum(of, 1e-300), 0.0) for of in among]).reshape(-1, width)
    plain = usual[draws.configuration] / max(float(usual.sum()), 1e-300) / draws.propensity
    return LoggerByKnob(draws.values, given, plain)


@dataclass(frozen=True, slots=True, eq=False)
class DrawnWeight:
    """(n,) weights, drawn towards the knobs' own terms; share: of the rest that was kept; deviation: of the part left
    out, in the outcome's unit."""

    weight: Floats
    share: float
    deviation: float


def drawn_weights(draws: Draws, *missed: Floats) -> list[DrawnWeight]:
    """Return the candidate's weights, by a model's error on each session, (n,), for each of several outcomes."""
    knobs, plain = knobs_of(draws), draws.weight()
    marginal = knobs.weight(draws)
    effects: list[list[Effect]] = [[] for _ in missed]
    for one in draws.placebos():
        rest = one.weight() - knobs.weight(one)
        for found, of in zip(effects, missed, strict=True):
            found.append(_effect(rest, of, draws.cluster))
    own = [_effect(plain - marginal, of, draws.cluster) for of in missed]
    return [_drawn(plain, marginal, *both) for both in zip(own, effects, strict=True)]


# A mean of weighted terms, its variance, and the mean square of the weights over the clusters' number.
Effect = tuple[float, float, float]


def _drawn(plain: Floats, marginal: Floats, own: Effect, placebos: list[Effect]) -> DrawnWeight:
    effects = np.array([one for one in placebos if one[2] > 0.0]).reshape(-1, 3)
    # A placebo that met no slow network by chance has too small an effect and too small a variance at once; all of them
    # together show the cost of a weight's square.
    cost = float(effects[:, 1].sum() / max(float(effects[:, 2].sum()), 1e-300))
    chance = max(own[1], cost * own[2])
    if len(effects) < LEAST_PLACEBOS or own[1] <= 0.0 or cost <= 0.0:
        return DrawnWeight(plain, 1.0, 0.0)
    square = between(effects[:, 0], cost * effects[:, 2])
    if own[0] ** 2 > STANDS_OUT**2 * (square + chance):
        return DrawnWeight(plain, 1.0, 0.0)
    share = square / (square + chance)
    return DrawnWeight(marginal + share * (plain - marginal), share, (1.0 - share) * float(np.sqrt(square)))


def tail_weights(draws: Draws, how: DrawnWeight, beyond: npt.NDArray[np.bool_], modelled: Floats) -> DrawnWeight:
    """Return weights of loads in the tail, (n,) `beyond`; deviation: of the candidate's share of them over the log's
    share.

    modelled: (n,) expected load time of that session. One where configurations have the tail in common, `how`'s where
    the candidate stands out, or where they are too few to show it.
    """
    share, n = float(beyond.mean()), len(beyond)
    effects, chance = _tail_shares(draws, beyond, share)
    if len(effects) < LEAST_PLACEBOS:
        return DrawnWeight(how.weight, 1.0, 0.0)
    off = (how.weight - 1.0) * modelled
    error = float(np.sqrt(share * (1.0 - share) * (off**2).sum())) / n
    own, met = float((off * (beyond - share)).mean()), how.weight * modelled * beyond
    known = own < 0.0 or float(met.sum()) ** 2 >= LEAST_MET * float((met**2).sum())
    if known and abs(own) > STANDS_OUT * error:
        return DrawnWeight(how.weight, 1.0, 0.0)
    return DrawnWeight(np.ones(n), 0.0, float(np.sqrt(between(effects, chance))))


def _tail_shares(draws: Draws, beyond: npt.NDArray[np.bool_], share: float) -> tuple[Floats, Floats]:
    """Return (groups,) of configurations, neighbours in the grid: by how much their loads are in the tail more often
    than all, over all's share, and its variance by chance."""
    if not 0.0 < share < 1.0:
        return np.zeros(0), np.ones(0)
    counted = np.isfinite(draws.propensity)
    width = draws.table.shape[1]
    count = np.bincount(draws.configuration[counted], minlength=width)
    met = np.bincount(draws.configuration[counted], weights=beyond[counted], minlength=width)
    group = (np.cumsum(count) * (share / LEAST_EXPECTED)).astype(np.int64)
    sessions, found = np.bincount(group, weights=count), np.bincount(group, weights=met)
    enough = sessions * share >= LEAST_EXPECTED / 2.0
    expected = (sessions[enough] * share).astype(np.float64)
    chance: Floats = ((1.0 - share) / expected).astype(np.float64)
    effects: Floats = (found[enough] / expected - 1.0).astype(np.float64)
    return effects, chance


def between(effects: Floats, chance: Floats) -> float:
    """Return an upper bound of the variance of m true effects about zero, from estimates (m,) and their variances
    (m,)."""
    from scipy.special import gammaincinv

    # A chi-square's quantile by a gamma's, as its own function is not in every scipy.
    wanted = 2.0 * float(gammaincinv(len(effects) / 2.0, BELOW_Q))
    low, high = 0.0, float((effects**2).sum()) / wanted
    if float((effects**2 / chance).sum()) <= wanted:
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        above = float((effects**2 / (chance + middle)).sum()) > wanted
        low, high = (middle, high) if above else (low, middle)
    return high


def _effect(weight: Floats, missed: Floats, cluster: Codes) -> Effect:
    terms = weight * missed
    mean, sums = float(terms.mean()), clustered(terms - terms.mean(), cluster)
    variance = float((sums**2).sum()) / max(len(sums) - 1, 1) / len(sums)
    return mean, variance, float((weight**2).mean()) / len(sums)


def clustered(terms: Floats, cluster: Codes) -> Floats:
    """Return (clusters,) sums of (n,) terms by cluster, so scaled that their mean is that of the terms."""
    sums: Floats = np.bincount(cluster, weights=terms).astype(np.float64)
    found: Floats = sums * (len(sums) / len(terms))
    return found
