# SPDX-License-Identifier: MIT
"""Off-policy value: what a candidate policy would have made of logged sessions, before it is let near a client.

Question   What is the mean page load time under the candidate, from sessions that another policy decided?
Method     IPS weighs each load by how much likelier the candidate was to choose it; SNIPS divides by the weights' sum;
           DR adds a model of page load times and weighs only what the model missed. The model (`loads.py`, and what it
           leaves by row and configuration) is fitted on the other half of the sessions (cross-fitting), so that it does
           not grade itself. Few sessions under large weights, from networks that differ manifold, make terms skewed
           and their spread ill known: intervals are corrected for the one and as wide as the other asks. Most logs
           meet no slow network under a large weight, and many under small ones: SNIPS's spread is what the model
           expects of all that the logger might have drawn, corrected by weighing what it missed, as DR's value is.
Stop when  summed; the logger's propensities are in the log, so no value rests on a guess about it. SNIPS's spread does:
           what was not drawn is taken to be as likely as it is in other sessions of its row.
Reads as   value and interval (ms) for each, effective sample size, and the share of the candidate's choices that the
           log never made in their row: those rest on the model alone (DR), or are silently left out (IPS, SNIPS).
Fails as   `BadInput` for sessions without propensities, or none at all. `log:never-tried`, `log:partly-tried`: weights
           whose mean is not one leave out what the candidate would do, and how they spread does not tell that.
           `log:weights-above-one`: no chance does that, so the candidate knew these draws, or they were not made by
           the propensities that are logged. `log:learned-from`: no draw is independent of who learned from it.
           `log:few-effective`: the spread rests on loads that are too few to show it. `log:below-zero`: no page loads
           in less than 0 ms, so a value or an end there says only that the terms do not carry one. Intervals are for
           the log's own mix of clients: of networks that it never met they know nothing.
Differs    CT has no such check before it pushes a map.
Source     Horvitz and Thompson 1952; Swaminathan and Joachims 2015 (SNIPS); Dudik, Langford and Li 2011 (DR); Hall 1992
           (skewness); Satterthwaite 1946 (degrees of freedom); Isaki 1983 (a variance by what is known of all).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.errors import BadInput
from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.loads import Loads
from configtron.learner.policy import TablePolicy

# Quantile of a two-sided interval that holds the truth 19 times in 20.
UPPER_95 = 0.975
# Quantile beyond which weights' mean is no chance, either way: one in a thousand good logs is told otherwise.
UPPER_OFF_ONE = 0.999
# Weight that the mean may be off one: propensities are rounded in many a log, and this is less than any interval.
ROUNDED_WEIGHT = 1e-3
# Skewness over the root of the terms' number below which nothing is corrected: the correction divides by it.
LEAST_SKEW = 1e-6
# Effective sessions below which DR's intervals held the truth in fewer than nine replays of ten: docs/design/0026.
# IPS's and SNIPS's hold a little below that, at several times the truth's width: 0033.
LEAST_EFFECTIVE = 12.0
# Loads by which a cell's configuration is drawn to what cell and configuration make on their own.
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
        """Whether the interval covers a value."""
        return self.low_ms <= truth_ms <= self.high_ms


@dataclass(frozen=True, slots=True)
class Value:
    """The candidate's value by each estimator. logged: the logger's own mean.

    effective   sessions that the weights amount to
    unlogged    share of the candidate's choices never logged in their row
    """

    sessions: int
    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    effective: float
    unlogged: float


def value(
    candidate: TablePolicy, contexts: Contexts, logged: Decisions, plt_ms: Floats, *, learned_from: bool = False
) -> Value:
    """The candidate's value on n logged sessions. Rows are the candidate's own: it need not share the logger's
    classes. learned_from: whether it learned from these sessions, so that no interval would mean anything."""
    if not len(contexts):
        raise BadInput("no sessions to evaluate on; log some with `configtron learn run`")
    if np.isnan(logged.propensity).any() or (logged.propensity <= 0).any():
        raise BadInput("these sessions have no propensities: they were not decided by a policy that logs them")
    row, _ = candidate.where(contexts)
    table = candidate.served_.probabilities(len(candidate.grid))
    unknown = np.zeros((1, table.shape[1]))
    unknown[0, candidate.grid.default] = 1.0
    table = np.concatenate((table, unknown))
    row = np.where(row < 0, len(table) - 1, row)
    weight = table[row, logged.configuration] / logged.propensity
    effective = float(weight.sum() ** 2 / max(float((weight**2).sum()), 1e-300))
    told = np.isfinite(logged.propensity)
    counted = row[told], logged.configuration[told]
    snips_ms = float((weight * plt_ms).sum()) / max(float(weight.sum()), 1e-300)
    heavy = table * inverse_propensity(table.shape, *counted, logged.propensity[told])
    expected, chosen, drawn = _crossed(candidate, table, heavy, row, contexts, logged.configuration, plt_ms, snips_ms)
    unmet = drawn - (weight * (chosen - snips_ms)) ** 2
    terms = expected + weight * (plt_ms - chosen)
    ips, snips, dr = _estimates(weight, plt_ms, terms, unmet, effective)
    if learned_from:
        ips, snips, dr = _own_lesson(ips), _own_lesson(snips), _own_lesson(dr)
    tried = np.zeros(table.shape, dtype=np.bool_)
    tried[counted] = True
    unlogged = float((table * ~tried).sum(axis=1)[row].mean())
    return Value(len(contexts), _possible(mean_of(plt_ms)), ips, snips, dr, effective, unlogged)


def _estimates(weight: Floats, ms: Floats, terms: Floats, unmet: Floats, effective: float
               ) -> tuple[Estimate, Estimate, Estimate]:  # fmt: skip
    """IPS, SNIPS, DR from the (n,) weights, loads, DR's terms and what SNIPS's squares lack (`_around`), as far as the
    weights can carry them.

    The weights' mean is one if the logger could choose all that the candidate does. Below it, what is missing counts
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
        _if_enough(mean_of(weight * ms), effective),
        _if_enough(_self_normalised(weight, ms, unmet), effective),
        _if_enough(mean_of(terms), effective),
    )


def mean_of(terms: Floats) -> Estimate:
    """The mean of independent terms and its interval."""
    return _around(float(terms.mean()), terms - terms.mean())


def _self_normalised(weight: Floats, ms: Floats, unmet: Floats) -> Estimate:
    scale = len(ms) / float(weight.sum())
    mean = float((weight * ms).mean()) * scale
    return _around(mean, weight * (ms - mean) * scale, unmet=unmet * scale**2)


def _if_enough(found: Estimate, effective: float) -> Estimate:
    return _possible(found if effective >= LEAST_EFFECTIVE else _without_interval(found.ms, "log:few-effective"))


def _possible(found: Estimate) -> Estimate:
    """Without what no page load time can be: a value, or an interval's lower end, that is not above 0 ms."""
    if found.ms <= 0.0:
        return _without_interval(float("nan"), "log:below-zero")
    # The upper end stays: without those intervals that reach far, the others would hold the truth less often.
    impossible = np.isfinite(found.low_ms) and found.low_ms <= 0.0
    return Estimate(found.ms, -np.inf, found.high_ms, "log:below-zero") if impossible else found


def _own_lesson(found: Estimate) -> Estimate:
    """Without the interval, as the candidate learned from these loads; what leaves no value says more, and stays."""
    stays = np.isnan(found.ms) or found.reason == "log:partly-tried"
    return found if stays else _without_interval(found.ms, "log:learned-from")


def _without_interval(ms: float, reason: str) -> Estimate:
    return Estimate(ms, -np.inf, np.inf, reason)


def _around(mean: float, terms: Floats, upper: float = UPPER_95, unmet: Floats | None = None) -> Estimate:
    """The interval of a mean from its (n,) independent terms about it: Student's t, corrected for their skewness.

    A few slow networks under large weights make terms so skewed that the plain interval, as far to either side, misses
    the truth above it; Hall's cubic transformation of t sets that right (Hall 1992), and is the plain one without skew.
    The same few make the spread itself ill known: t has as many degrees of freedom as a chi-square whose variance is
    that of the spread's square (Satterthwaite 1946), n for normal terms and a handful for these.
    upper: the quantile that either end stands for. unmet: (n,) what a model expects of a term's square over all draws
    that might have been made, less what it expects for the one that was. Added to the squares it has them know of heavy
    terms that were not met, and leaves their mean what it was (Isaki 1983; Dudik et al. 2011 do so for a mean). As a
    model may err, it widens the terms' own spread and never narrows it.
    """
    from scipy.special import stdtrit

    n = len(terms)
    if n < 2:
        return _without_interval(mean, "log:few-effective")
    squares = terms**2 if unmet is None else terms**2 + unmet
    square = max(float((terms**2).mean()), float(squares.mean()))
    deviation = float(np.sqrt(square * n / (n - 1)))
    error, end = deviation / np.sqrt(n), float(stdtrit(freedom(squares, square), upper))
    skew = float((terms * squares).mean()) / max(deviation**3, 1e-300) / np.sqrt(n)
    # n terms about their mean have no more; what is left of equal ones by rounding would.
    skew = min(max(skew, -1.0), 1.0)
    ends = [end, -end]
    if abs(skew) > LEAST_SKEW:
        ends = [3.0 / skew * (np.cbrt(1.0 + skew * (end - skew / 6.0)) - 1.0) for end in ends]
    low, high = (mean - error * end for end in ends)
    return Estimate(mean, float(low), float(high))


def freedom(squares: Floats, mean: float) -> float:
    """Degrees of freedom of a variance with these (n,) squares and that mean: 2 n mean^2 over the squares' own variance
    (2 n / (kurtosis - 1), if they are terms'); at least one and at most n - 1."""
    n, spread = len(squares), float(squares.var())
    return float(np.clip(2.0 * n * mean**2 / spread if spread > 0.0 else n - 1.0, 1.0, n - 1.0))


def _crossed(candidate: TablePolicy, table: Floats, heavy: Floats, row: Codes, contexts: Contexts,
             configuration: Codes, ms: Floats, level_ms: float) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """(n,) the model's value of the candidate's choices, of the logged one, and its mean of (weight (load - level))^2
    over what the logger might have drawn. heavy: the (rows, configurations) weights. Fitted on the other half."""
    expected, chosen, drawn = np.empty(len(row)), np.empty(len(row)), np.empty(len(row))
    half, used = np.arange(len(row)) % 2, np.flatnonzero(table.any(axis=0))
    for side in (0, 1):
        mine, other = np.flatnonzero(half == side), np.flatnonzero(half != side)
        if not len(other):
            other = mine
        loads = Loads(candidate.grid, contexts[other], configuration[other], ms[other])
        relative = ms[other] / loads.chosen_ms(contexts[other], configuration[other])
        factor = plain_model(table.shape, row[other], configuration[other], relative)
        share, squared = (table * factor)[:, used], (table * heavy)[:, used]
        chosen[mine] = loads.chosen_ms(contexts[mine], configuration[mine]) * factor[row[mine], configuration[mine]]
        for start in range(0, len(mine), SESSIONS_AT_ONCE):
            at = mine[start : start + SESSIONS_AT_ONCE]
            plain = loads.ms(contexts[at], used)
            expected[at] = (share[row[at]] * plain).sum(axis=1)
            plain *= factor[row[at]][:, used]
            drawn[at] = (squared[row[at]] * (plain - level_ms) ** 2).sum(axis=1)
    return expected, chosen, drawn


def inverse_propensity(shape: tuple[int, ...], row: Codes, configuration: Codes, propensity: Floats) -> Floats:
    """(rows, configurations) mean of 1 / propensity over a row's sessions, drawn or not, from (n,) draws.

    A draw stands for as many sessions as it weighs: likely draws are many, and would have a logger that seldom does
    what it did here look as if it always did.
    """
    inverse = 1.0 / propensity
    return plain_model(shape, row, configuration, inverse**2) / plain_model(shape, row, configuration, inverse)


def plain_model(shape: tuple[int, ...], row: Codes, configuration: Codes, ms: Floats) -> Floats:
    """(rows, configurations) mean of what is told: row's mean times configuration's factor, and what the pair showed.

    Each is drawn to what stands above it by `PRIOR_LOADS` loads.
    """
    rows, width = shape
    if not len(ms):
        return np.ones(shape)
    every = float(ms.mean())
    row_count = np.bincount(row, minlength=rows)
    row_mean = (np.bincount(row, weights=ms, minlength=rows) + PRIOR_LOADS * every) / (row_count + PRIOR_LOADS)
    relative = ms / row_mean[row]
    count = np.bincount(configuration, minlength=width)
    factor = (np.bincount(configuration, weights=relative, minlength=width) + PRIOR_LOADS) / (count + PRIOR_LOADS)
    at = row * width + configuration
    pair_count = np.bincount(at, minlength=rows * width).reshape(shape)
    pair_total = np.bincount(at, weights=ms, minlength=rows * width).reshape(shape)
    above = row_mean[:, None] * factor[None, :]
    found: Floats = (pair_total + PRIOR_LOADS * above) / (pair_count + PRIOR_LOADS)
    return found
