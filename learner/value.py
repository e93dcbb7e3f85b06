# SPDX-License-Identifier: MIT
"""Off-policy value: estimate a candidate policy's page load times on logged sessions, before any client gets it.

Question   What is the mean page load time under the candidate, from sessions that another policy decided?
Method     IPS weighs each load by how much likelier the candidate was to choose it; SNIPS divides by the weights' sum;
           DR adds a model of page load times and weighs only the model's errors. The model (`loads.py`, and its
           residuals' means by row and configuration) is fitted on the other half of the sessions (cross-fitting), so
           that it does not grade itself. Few sessions under large weights, from networks that differ manifold, make
           terms skewed and their spread ill known: intervals are corrected for the skewness, and widened for the
           uncertain spread. Most logs meet no slow network under a large weight, and many under small ones: SNIPS's
           spread is the model's expectation over all possible draws of the logger, corrected by its weighted errors, as
           DR's value is.
Stop when  summed; the logger's propensities are in the log, so no value rests on a guess about it. SNIPS's spread does:
           a choice that was not drawn is taken to be as likely as in other sessions of its row.
Reads as   value and interval (ms) for each, effective sample size, and the share of the candidate's choices that the
           log never made in their row: those rest on the model alone (DR), or are silently left out (IPS, SNIPS).
Fails as   `BadInput` for sessions without propensities, or none at all. `log:never-tried`, `log:partly-tried`: weights
           whose mean is not one leave out choices of the candidate, and their spread does not show that.
           `log:weights-above-one`: no chance does that, so the candidate knew these draws, or they were not made by the
           propensities that are logged. `log:learned-from`: no draw is independent of a policy that learned from it.
           `log:few-effective`: the spread rests on loads that are too few to show it. `log:below-zero`: no page loads
           in less than 0 ms, so a value or an end there shows only that the terms do not carry one. Intervals are for
           the log's own mix of clients: they do not hold for networks that it never met.
Differs    CT has no such check before it pushes a map.
Source     Horvitz and Thompson 1952; Swaminathan and Joachims 2015 (SNIPS); Dudik, Langford and Li 2011 (DR); Hall 1992
           (skewness); Satterthwaite 1946 (degrees of freedom); Isaki 1983 (a variance by a known auxiliary variable).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.doubly import DrawnWeight, Draws, clustered, drawn_weights, tail_weights
from configtron.learner.loads import Loads
from configtron.learner.propensities import fitted
from configtron.learner.table_policy import TablePolicy
from configtron.learner.tails import tail_of
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.student import student_quantile

# Quantile of a two-sided interval that holds the truth 19 times in 20.
UPPER_95 = 0.975
# Quantile beyond which weights' mean is no chance, either way: one in a thousand good logs is judged otherwise.
UPPER_OFF_ONE = 0.999
# Weight that the mean may be off one: propensities are rounded in many a log, and this is less than any interval.
ROUNDED_WEIGHT = 1e-3
# Skewness over the root of the terms' number below which nothing is corrected: the correction divides by it.
LEAST_SKEW = 1e-6
# Effective sessions below which DR's intervals held the truth in fewer than nine replays of ten.
# IPS's and SNIPS's hold a little below that, at several times the truth's width: 0033.
LEAST_EFFECTIVE = 12.0
# Prefixes, by how much each is of a log, from which on intervals know how prefixes differ.
LEAST_PREFIXES = 10.0
# Standard errors of a 95 % interval of the effects that the model leaves out; many placebos show their spread.
ENDS_95 = 1.96
# Difference of a row from the model, as a share: a ninth. With loads that differ by 0.25 that is PRIOR_LOADS.
ROW_RATIO = 0.112
BY_CONTEXT = "log:propensity-depends-on-context"
# Loads by which a cell's configuration is drawn to the product of the cell's and the configuration's own effects.
PRIOR_LOADS = 5.0
# Sessions whose expected loads under every configuration are held at a time: some ten megabytes.
SESSIONS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean page load time in ms, and its 95 % interval; ends infinite, and perhaps no value either, for a reason."""

    ms: float
    low_ms: float
    high_ms: float
    reason: str = ""

    def holds(self, truth_ms: float) -> bool:
        """Return whether the interval covers a value."""
        return self.low_ms <= truth_ms <= self.high_ms


@dataclass(frozen=True, slots=True)
class Value:
    """The candidate's value by each estimator. logged: the logger's own mean.

    dr_ln       exp of the mean of ln(ms) by DR: a typical load, which no tail moves
    effective   sessions that the weights amount to
    unlogged    share of the candidate's choices never logged in their row
    """

    sessions: int
    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    dr_ln: Estimate
    effective: float
    unlogged: float


def value(
    candidate: TablePolicy, contexts: Contexts, logged: Decisions, plt_ms: Floats, *, learned_from: bool = False,
    models: tuple[Loads, Loads] | None = None,
) -> Value:  # fmt: skip
    """Return the candidate's value on n logged sessions. Rows are the candidate's own: it need not share the logger's
    classes. learned_from: whether it learned from these sessions, so that no interval would mean anything. models: from
    `models_of` on the same log and the candidate's grid, where several candidates are judged; None: fit them here."""
    if not len(contexts):
        raise BadInput("no sessions to evaluate on; log some with `configtron learn run`")
    if lack := int((~(logged.propensity > 0)).sum()):
        remedy = "where it was drawn at random, import --propensity P; or choose a --log that has them"
        raise BadInput(f"{lack} of {len(contexts)} outcomes have no propensity of their configuration; {remedy}")
    table, row = _table_of(candidate, contexts)
    cluster, half = clusters_of(contexts)
    by_context = fitted(contexts, logged.configuration, logged.propensity, cluster, half)
    propensity = by_context.propensity if by_context.flagged else logged.propensity
    values = np.stack([candidate.grid.column(knob.name) for knob in candidate.grid.knobs])
    draws = Draws(table, row, logged.configuration, propensity, cluster, values)
    weight = draws.weight()
    effective = float(weight.sum() ** 2 / max(float((weight**2).sum()), 1e-300))
    counted = np.isfinite(propensity)
    tried = row[counted], logged.configuration[counted]
    snips_ms = float((weight * plt_ms).sum()) / max(float(weight.sum()), 1e-300)
    heavy = table * inverse_propensity(table.shape, *tried, propensity[counted])
    crossed = _crossed(candidate, table, heavy, row, contexts, logged.configuration, plt_ms, snips_ms, half,
                       models)  # fmt: skip
    unmet = crossed.drawn - (weight * (crossed.chosen - snips_ms)) ** 2
    tailed, typical = _both_means(draws, crossed, plt_ms)
    terms = crossed.expected + weight * (plt_ms - crossed.modelled)
    ips, snips, dr = _estimates(weight, plt_ms, terms, unmet, effective, cluster=cluster, dr=tailed)
    # A reason that keeps DR from a value or an interval holds for both means; a tail or a low end only for one.
    refused = dr.reason in ("log:never-tried", "log:partly-tried", "log:weights-above-one", "log:few-effective")
    dr_ln = _without_interval(float("nan"), dr.reason) if refused else typical
    if by_context.flagged:
        ips, snips = _by_fitted(ips), _by_fitted(snips)
        dr, dr_ln = _by_fitted(dr, weight), _by_fitted(dr_ln, weight)
    if learned_from:
        ips, snips, dr, dr_ln = _own_lesson(ips), _own_lesson(snips), _own_lesson(dr), _own_lesson(dr_ln)
    seen = np.zeros(table.shape, dtype=np.bool_)
    seen[tried] = True
    unlogged = float((table * ~seen).sum(axis=1)[row].mean())
    own = _possible(mean_of(plt_ms, cluster))
    return Value(len(contexts), own, ips, snips, dr, dr_ln, effective, unlogged)


def _table_of(candidate: TablePolicy, contexts: Contexts) -> tuple[Floats, Codes]:
    """Return (rows + 1, configurations) the candidate's probabilities, the last row for unknown clients, and (n,)
    rows."""
    row, _ = candidate.where(contexts)
    table = candidate.served_.probabilities(len(candidate.grid))
    unknown = np.zeros((1, table.shape[1]))
    unknown[0, candidate.grid.default] = 1.0
    table = np.concatenate((table, unknown))
    return table, np.where(row < 0, len(table) - 1, row)


def clusters_of(contexts: Contexts) -> tuple[Codes, Codes]:
    """Return (n,) cluster codes, one for the sessions of a prefix, and (n,) the half, 0 or 1, of each session.

    A session without prefix is a cluster of its own; so is every session of a log of too few prefixes to show how
    prefixes differ: that log is evidence on those prefixes alone.
    """
    n = len(contexts)
    alone = np.arange(n)
    if not len(contexts.prefix) or (contexts.prefix < 0).all():
        return alone, alone % 2
    _, codes = np.unique(np.where(contexts.prefix < 0, -1 - alone, contexts.prefix), return_inverse=True)
    count = np.bincount(codes)
    if n**2 < LEAST_PREFIXES * float((count.astype(np.float64) ** 2).sum()):
        return alone, alone % 2
    return codes, codes % 2


def _both_means(draws: Draws, crossed: Crossed, ms: Floats) -> tuple[Estimate, Estimate]:
    """Return by DR the mean of loads, with one tail for all configurations, and exp of the mean of ln(ms)."""
    ratio = ms / crossed.modelled
    tail = tail_of(ratio)
    missed_ln = np.log(ratio)
    if not np.isfinite(tail.mean):
        (typical,) = drawn_weights(draws, missed_ln)
        return _without_interval(float("nan"), "log:heavy-tail"), _typical(typical, draws, crossed, missed_ln)
    beyond = ratio > tail.bound
    common = tail.beyond(beyond)
    # Loads up to the bound, and the tail's excess: each less its own mean; these means add up to the model's 1.
    missed = (np.minimum(ratio, tail.bound) - (1.0 - common.mean())) * crossed.modelled
    how, typical = drawn_weights(draws, missed, missed_ln)
    rare = tail_weights(draws, how, beyond, crossed.modelled)
    terms = crossed.expected + rare.weight * (common - common.mean()) * crossed.modelled
    found = _of_terms(how, draws, terms, missed)
    # Loads in the tail under the candidate, in units of its mean; never fewer than the log's own share of them.
    share = float(beyond.mean() * crossed.expected.mean())
    apart = ENDS_95 * rare.deviation * float(common.mean() * crossed.expected.mean())
    if rare.share:
        share = max(float((rare.weight * beyond * crossed.modelled).mean()), share)
    found = _wider(found, apart, apart)
    found = _wider(found, share * (tail.mean - tail.low), share * (tail.high - tail.mean) if tail.count else 0.0)
    dr = found if np.isfinite(found.high_ms) else replace(found, reason="log:heavy-tail")
    return dr, _typical(typical, draws, crossed, missed_ln)


def _of_terms(how: DrawnWeight, draws: Draws, expected: Floats, missed: Floats) -> Estimate:
    found = _around_clusters(expected + how.weight * missed, draws.cluster)
    return _wider(found, ENDS_95 * how.deviation, ENDS_95 * how.deviation)


def _typical(how: DrawnWeight, draws: Draws, crossed: Crossed, missed_ln: Floats) -> Estimate:
    found = _of_terms(how, draws, crossed.expected_ln, missed_ln)
    ms, low_ms, high_ms = (float(np.exp(end)) for end in (found.ms, found.low_ms, found.high_ms))
    return Estimate(ms, low_ms, high_ms)


def _wider(found: Estimate, down: float, up: float) -> Estimate:
    """Return the estimate with wider ends, for a further uncertainty that is independent of the interval's own."""
    low = found.ms - float(np.hypot(found.ms - found.low_ms, down))
    return replace(found, low_ms=low, high_ms=found.ms + float(np.hypot(found.high_ms - found.ms, up)))


def _estimates(weight: Floats, ms: Floats, terms: Floats, unmet: Floats, effective: float, *,
               cluster: Codes | None = None, dr: Estimate | None = None
               ) -> tuple[Estimate, Estimate, Estimate]:  # fmt: skip
    """Return IPS, SNIPS, DR from the (n,) weights, loads, DR's terms and the part missing from SNIPS's squares
    (`_around`), as far as the weights can carry them. cluster: (n,) codes; dr: the value in place of the terms' mean.

    The weights' mean is one if the logger could choose all that the candidate does. Below it, the missing weight counts
    as loads of 0 ms (IPS), as like the rest (SNIPS), or is the model's alone (DR). Above it, none means anything.
    """
    if effective == 0.0:
        none = _without_interval(float("nan"), "log:never-tried")
        return none, none, none
    weights = _around(float(weight.mean()), weight - weight.mean(), UPPER_OFF_ONE)
    if weights.high_ms < 1.0 - ROUNDED_WEIGHT:
        none = _without_interval(float("nan"), "log:partly-tried")
        return none, none, _possible(_without_interval(float(terms.mean()), "log:partly-tried"))
    if weights.low_ms > 1.0 + ROUNDED_WEIGHT:
        none = _without_interval(float("nan"), "log:weights-above-one")
        return none, none, none
    return (
        _if_enough(mean_of(weight * ms, cluster), effective),
        _if_enough(_self_normalised(weight, ms, unmet, cluster), effective),
        _if_enough(mean_of(terms, cluster) if dr is None else dr, effective),
    )


def mean_of(terms: Floats, cluster: Codes | None = None) -> Estimate:
    """Return the mean of (n,) terms and its interval; terms of one cluster, (n,) codes from 0, are drawn together."""
    return _around_clusters(terms, np.arange(len(terms)) if cluster is None else cluster)


def _around_clusters(terms: Floats, cluster: Codes) -> Estimate:
    mean = float(terms.mean())
    return _around(mean, clustered(terms - mean, cluster))


def _self_normalised(weight: Floats, ms: Floats, unmet: Floats, cluster: Codes | None) -> Estimate:
    alone = np.arange(len(ms)) if cluster is None else cluster
    scale = len(ms) / float(weight.sum())
    mean = float((weight * ms).mean()) * scale
    sums = clustered(weight * (ms - mean) * scale, alone)
    return _around(mean, sums, unmet=clustered(unmet * scale**2, alone) * (len(sums) / len(ms)))


def _if_enough(found: Estimate, effective: float) -> Estimate:
    return _possible(found if effective >= LEAST_EFFECTIVE else _without_interval(found.ms, "log:few-effective"))


def _possible(found: Estimate) -> Estimate:
    """Remove a value, or an interval's lower end, that is not above 0 ms, since no page load time is."""
    if found.ms <= 0.0:
        return _without_interval(float("nan"), "log:below-zero")
    # The upper end stays: without those intervals that reach far, the others would hold the truth less often.
    impossible = np.isfinite(found.low_ms) and found.low_ms <= 0.0
    return Estimate(found.ms, -np.inf, found.high_ms, "log:below-zero") if impossible else found


def _own_lesson(found: Estimate) -> Estimate:
    """Remove the interval, since the candidate learned from these loads; a reason for no value says more, and stays."""
    stays = np.isnan(found.ms) or found.reason == "log:partly-tried"
    return found if stays else _without_interval(found.ms, "log:learned-from")


def _by_fitted(found: Estimate, weight: Floats | None = None) -> Estimate:
    """Return a value by fitted propensities. IPS and SNIPS have no interval: no spread of terms shows their error. Nor
    has DR, (n,) weights given, where these show by their mean that the fit is no good."""
    if weight is None or found.reason in ("log:partly-tried", "log:weights-above-one"):
        return found if np.isnan(found.ms) and weight is None else _without_interval(found.ms, BY_CONTEXT)
    return found if found.reason else replace(found, reason=BY_CONTEXT)


def _without_interval(ms: float, reason: str) -> Estimate:
    return Estimate(ms, -np.inf, np.inf, reason)


def _around(mean: float, terms: Floats, upper: float = UPPER_95, unmet: Floats | None = None) -> Estimate:
    """Return the interval of a mean from its (n,) independent terms about it: Student's t, corrected for their
    skewness.

    A few slow networks under large weights make terms so skewed that the plain interval, as far to either side, misses
    the truth above it; Hall's cubic transformation of t sets that right (Hall 1992), and is the plain one without skew.
    The same few make the spread itself ill known: t has as many degrees of freedom as a chi-square whose variance is
    that of the spread's square (Satterthwaite 1946), n for normal terms and a handful for these.
    upper: the quantile that either end stands for. unmet: (n,) a model's expectation of a term's square over all
    possible draws, less its expectation for the draw made. Added to the squares it accounts for heavy terms that were
    not met, and leaves their mean as it was (Isaki 1983; Dudik et al. 2011 do so for a mean). As a model may err, it
    widens the terms' own spread and never narrows it.
    """
    n = len(terms)
    if n < 2:
        return _without_interval(mean, "log:few-effective")
    squares = terms**2 if unmet is None else terms**2 + unmet
    square = max(float((terms**2).mean()), float(squares.mean()))
    deviation = float(np.sqrt(square * n / (n - 1)))
    error, end = deviation / np.sqrt(n), float(student_quantile(freedom(squares, square), upper))
    skew = float((terms * squares).mean()) / max(deviation**3, 1e-300) / np.sqrt(n)
    # n terms about their mean have no more; the rounding errors of equal terms would.
    skew = min(max(skew, -1.0), 1.0)
    ends = [end, -end]
    if abs(skew) > LEAST_SKEW:
        ends = [3.0 / skew * (np.cbrt(1.0 + skew * (end - skew / 6.0)) - 1.0) for end in ends]
    low, high = (mean - error * end for end in ends)
    return Estimate(mean, float(low), float(high))


def freedom(squares: Floats, mean: float) -> float:
    """Return the degrees of freedom of a variance with these (n,) squares and that mean: 2 n mean^2 over the squares'
    own variance (2 n / (kurtosis - 1), if they are terms'); at least one and at most n - 1."""
    n, spread = len(squares), float(squares.var())
    return float(np.clip(2.0 * n * mean**2 / spread if spread > 0.0 else n - 1.0, 1.0, n - 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Crossed:
    """(n,) each, by a model of the other half.

    expected, expected_ln   value of the candidate's choices: ms, and the mean of ln(ms)
    modelled                ms of the logged choice, by the same model, which knows of a configuration only the effects
                            shared by all loads: the effect of its own loads has a variance, which DR has to see
    chosen                  ms of the logged choice, as that configuration's own loads have it in its row
    drawn                   mean of (weight (load - level))^2 over the logger's possible draws, by the latter
    """

    expected: Floats
    expected_ln: Floats
    modelled: Floats
    chosen: Floats
    drawn: Floats


def models_of(grid: Grid, contexts: Contexts, configuration: Codes, ms: Floats, half: Codes) -> tuple[Loads, Loads]:
    """Return the regressions for the sessions of half 0 and of half 1, each fitted to the other."""
    first, second = (np.flatnonzero(half != side) for side in (0, 1))
    if not len(first):
        first = second
    if not len(second):
        second = first
    one, other = (Loads(grid, contexts[at], configuration[at], ms[at]) for at in (first, second))
    return one, other


def _crossed(candidate: TablePolicy, table: Floats, heavy: Floats, row: Codes, contexts: Contexts,
             configuration: Codes, ms: Floats, level_ms: float, half: Codes | None = None,
             models: tuple[Loads, Loads] | None = None) -> Crossed:  # fmt: skip
    """Return models of either half's loads, for the other. heavy: the (rows, configurations) weights; half: (n,) 0 or
    1."""
    n, used = len(row), np.flatnonzero(table.any(axis=0))
    half = np.arange(n) % 2 if half is None else half
    models = models or models_of(candidate.grid, contexts, configuration, ms, half)
    expected, expected_ln, modelled, chosen, drawn = (np.empty(n) for _ in range(5))
    share, squared = table[:, used], (table * heavy)[:, used]
    for side in (0, 1):
        mine, other = np.flatnonzero(half == side), np.flatnonzero(half != side)
        if not len(other):
            other = mine
        loads = models[side]
        ratio = ms[other] / loads.chosen_ms(contexts[other], configuration[other])
        factor = plain_model(table.shape, row[other], configuration[other], ratio)
        level = _levels(len(table), row[other], ratio)
        plain_ms = loads.chosen_ms(contexts[mine], configuration[mine])
        modelled[mine] = plain_ms * level[row[mine]]
        chosen[mine] = plain_ms * factor[row[mine], configuration[mine]]
        for start in range(0, len(mine), SESSIONS_AT_ONCE):
            at = mine[start : start + SESSIONS_AT_ONCE]
            plain = loads.ms(contexts[at], used)
            expected[at] = (share[row[at]] * plain).sum(axis=1) * level[row[at]]
            expected_ln[at] = (share[row[at]] * np.log(plain)).sum(axis=1) + np.log(level[row[at]])
            plain *= factor[row[at]][:, used]
            drawn[at] = (squared[row[at]] * (plain - level_ms) ** 2).sum(axis=1)
    return Crossed(expected, expected_ln, modelled, chosen, drawn)


def _levels(rows: int, row: Codes, ratio: Floats) -> Floats:
    """Return (rows,) means of (n,) ratios, the tail's mean in place of ratios in the tail; the wider their spread, the
    more loads a row needs."""
    tail = tail_of(ratio)
    smooth = tail.smoothed(ratio) if np.isfinite(tail.mean) else np.minimum(ratio, tail.bound)
    loads = max(PRIOR_LOADS, float(smooth.var()) / ROW_RATIO**2)
    return plain_model((rows, 1), row, np.zeros(len(row), dtype=np.int64), smooth, loads)[:, 0]


def inverse_propensity(shape: tuple[int, ...], row: Codes, configuration: Codes, propensity: Floats) -> Floats:
    """Return (rows, configurations) the mean of 1 / propensity over a row's sessions, drawn or not, from (n,) draws.

    A draw stands for as many sessions as it weighs: likely draws are many, and unweighted they would make a logger's
    rare choice look like its usual one.
    """
    inverse = 1.0 / propensity
    return plain_model(shape, row, configuration, inverse**2) / plain_model(shape, row, configuration, inverse)


def plain_model(
    shape: tuple[int, ...], row: Codes, configuration: Codes, ms: Floats, prior: float = PRIOR_LOADS
) -> Floats:
    """Return (rows, configurations) mean ms: the row's mean times the configuration's factor, and the pair's own loads.

    Each is drawn to the level above it by `prior` loads.
    """
    rows, width = shape
    if not len(ms):
        return np.ones(shape)
    every = float(ms.mean())
    row_count = np.bincount(row, minlength=rows)
    row_mean = (np.bincount(row, weights=ms, minlength=rows) + prior * every) / (row_count + prior)
    relative = ms / row_mean[row]
    count = np.bincount(configuration, minlength=width)
    factor = (np.bincount(configuration, weights=relative, minlength=width) + prior) / (count + prior)
    at = row * width + configuration
    pair_count = np.bincount(at, minlength=rows * width).reshape(shape)
    pair_total = np.bincount(at, weights=ms, minlength=rows * width).reshape(shape)
    above = row_mean[:, None] * factor[None, :]
    found: Floats = (pair_total + prior * above) / (pair_count + prior)
    return found
