# SPDX-License-Identifier: MIT
"""The claims of ALN, each with the paper's figure, ours and a computed verdict; and the tables that they are read from.

Rules for this file: pure; the paper's figures are constants here and nowhere else; a verdict's condition stands in code
beside its claim and is the same whatever was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from configtron.learner.initial.hit_ratios import BAYES, CONSTANT, MODELS, NETWORK, SILENCE, HitRatio, ratio_of
from configtron.learner.initial.initial_strategies import FIXED, NULL, PRED_LOW, STRATEGIES
from configtron.learner.initial.quantisation import PAPER_NAMES
from configtron.studies.initial_states.aln_figures import AlnFigures, figure_tables
from configtron.studies.initial_states.live_strategies import BEST_BAND, LiveRow
from configtron.studies.initial_states.strategy_values import CONTROLS, ESTIMATES, OffPolicyRow
from configtron.studies.initial_states.stress import PENALTY, EstimatedGain
from configtron.studies.initial_states.window_quantiles import BAYES_BINS, CENSORED, QuantileRow
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Cell, Curve, Curves, Fact, Plot, Table

# The paper's exact-hit ratios, %: fixed, network, naive Bayes.
PAPER_HITS = {"min_rtt_ms": (30.5, 45.7, 47.6), "max_cwnd": (68.5, 68.3, 68.3), "packets_in": (88.4, 87.9, 88.4)}
ESTIMATED, EXACT_ENOUGH = (1.1, 1.4), 0.3
LIVE, WORSE, BETTER, UNDER = (1.16, 1.22), (0.40, 0.47), (0.53, 0.60), (0.20, 0.30)
# Shares that an interval of 80 % may cover of windows of some hundred prefixes.
COVERING = (0.75, 0.85)
PREDICTING = tuple(name for name in STRATEGIES if name not in (NULL, FIXED))
Span = tuple[float, float]


class AlnResults(NamedTuple):
    """Everything that claims are read from.

    hits          rows of all targets and models
    estimates     by strategy, each without and with the penalty; stress: by share of exact predictions
    measured      mean speed-up of the same transfers in the lab, by strategy, beside `estimates`
    live          by strategy: all transfers, those of each round-trip band, and of prefixes that were never seen
    off_policy    by strategy, estimate and value
    quantiles     by model: what is known of the paths' windows
    figures       the content of each of the paper's figures
    under         mean of predicted (PredMean Low) over the measured MaxCwnd less 1, over Null's transfers
    """

    hits: Sequence[HitRatio]
    estimates: Sequence[EstimatedGain]
    measured: Mapping[str, float]
    stress: Sequence[EstimatedGain]
    live: Sequence[LiveRow]
    bands: Mapping[Span, Sequence[LiveRow]]
    unseen: Sequence[LiveRow]
    off_policy: Sequence[OffPolicyRow]
    under: float
    quantiles: Sequence[QuantileRow]
    figures: AlnFigures


def facts(found: AlnResults) -> list[Fact]:
    """Return every claim."""
    return [
        *(_hits(found, target) for target in PAPER_HITS),
        _estimated(found),
        _stress(found),
        _speed_up(found),
        _best_band(found),
        _better_and_worse(found),
        _low(found),
        _harm(found),
        _unseen(found),
        _off_policy(found),
        _quantiles(found),
    ]


def _hits(found: AlnResults, target: str) -> Fact:
    """MinRTT: both models beat the constant. The others: both are as good as it."""
    fixed, network, bayes = (ratio_of(found.hits, target, model) for model in (CONSTANT, NETWORK, BAYES))
    silence = ratio_of(found.hits, target, SILENCE)
    paper = PAPER_HITS[target]
    gains = paper[2] > paper[0] + 1
    models = (network, bayes)
    alike = [one.low > fixed.high if gains else one.low <= fixed.high and one.high >= fixed.low for one in models]
    as_there = sum(alike)
    words = (
        f"{fixed.judged} transfers, later than those learned from; silence {silence.hits:.1%}. "
        f"By 95 % intervals that lie {'apart' if gains else 'together'}: network {'yes' if alike[0] else 'no'}, "
        f"naive Bayes {'yes' if alike[1] else 'no'}"
    )
    verdict = HOLDS if as_there == len(alike) else PARTLY if as_there else ABSENT
    claim = f"exact hits of {PAPER_NAMES[target]}: models {'beat a constant' if gains else 'are as good as a constant'}"
    ours = ", ".join(
        f"{name} {100 * one.hits:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"
        for name, one in (("fixed", fixed), ("network", network), ("naive Bayes", bayes))
    )
    figures = f"fixed {paper[0]}, network {paper[1]}, naive Bayes {paper[2]} %"
    return Fact(claim, figures, f"{ours} %", verdict, words)


def _estimated(found: AlnResults) -> Fact:
    rows = [one for one in found.estimates if one.name in (*PREDICTING, FIXED) and not one.penalty]
    within = [one for one in rows if one.high >= ESTIMATED[0] and one.low <= ESTIMATED[1]]
    ours = ", ".join(f"{one.name} {one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in rows)
    real = ", ".join(f"{one.name} {found.measured[one.name]:.2f}" for one in rows)
    verdict = HOLDS if len(within) == len(rows) else PARTLY if within else ABSENT
    words = f"The same transfers in the lab: {real}. The estimator knows neither handshakes nor losses"
    return Fact("estimated gain of each strategy", "1.1 to 1.4 times, mostly", ours, verdict, words)


def _stress(found: AlnResults) -> Fact:
    rows = {one.penalty: one for one in found.stress if float(one.name) == EXACT_ENOUGH}
    gaining = [one.low > 1.0 for one in rows.values()]
    ours = "; ".join(f"{one.mean:.2f} [{one.low:.2f}, {one.high:.2f}] where too large a window costs {penalty:g} trips"
                     for penalty, one in rows.items())  # fmt: skip
    verdict = HOLDS if all(gaining) else PARTLY if any(gaining) else ABSENT
    none = ", ".join(f"{one.mean:.2f}" for one in found.stress if not float(one.name))
    words = f"Wrong predictions are drawn evenly from all bins, and many of these are above 10: with none exact {none}"
    return Fact("30 % exact predictions of MaxCwnd already gain", "they do", ours, verdict, words)


def _speed_up(found: AlnResults) -> Fact:
    rows = [one for one in found.live if one.strategy in PREDICTING]
    reached = [one.mean >= LIVE[0] for one in rows]
    fixed = next(one for one in found.live if one.strategy == FIXED)
    verdict = HOLDS if all(reached) else PARTLY if any(one.high >= LIVE[0] for one in rows) else ABSENT
    words = f"Silence (Null) is 1; the constant, FixedCwnd, {_mean(fixed)}; holds where each mean is 1.16 at least"
    return Fact("live speed-up of predicted windows", "1.16 to 1.22", _means(rows), verdict, words)


def _mean(row: LiveRow) -> str:
    return f"{row.mean:.2f} [{row.low:.2f}, {row.high:.2f}]"


def _means(rows: Sequence[LiveRow]) -> str:
    return ", ".join(f"{one.strategy} {_mean(one)}" for one in rows)


def _best_band(found: AlnResults) -> Fact:
    rows = {band: [one for one in of if one.strategy in PREDICTING] for band, of in found.bands.items()}
    means = {band: sum(one.mean for one in of) / len(of) for band, of in rows.items() if of}
    claim, paper = "the speed-up is largest at round trips of 100 to 200 ms", "it is"
    if BEST_BAND not in means:
        return Fact(claim, paper, "no transfer in that band", UNKNOWN)
    best = max(means, key=lambda band: means[band])
    others = max((of.high for of in rows[best]), default=0.0)
    verdict = HOLDS if best == BEST_BAND else PARTLY if max(one.high for one in rows[BEST_BAND]) >= others else ABSENT
    ours = ", ".join(f"{band[0]:.0f}-{band[1]:.0f} ms {mean:.2f}" for band, mean in means.items())
    return Fact(claim, paper, ours, verdict, "Means over PredMean Low, High and Round.")


def _better_and_worse(found: AlnResults) -> Fact:
    rows = [one for one in found.live if one.strategy in PREDICTING]
    ours = ", ".join(f"{one.strategy} {one.better:.0%} / {one.worse:.0%}" for one in rows)
    alike = [BETTER[0] <= one.better <= BETTER[1] and WORSE[0] <= one.worse <= WORSE[1] for one in rows]
    verdict = HOLDS if all(alike) else PARTLY if any(alike) else ABSENT
    words = "Here each transfer is compared with itself under Null; there with others, so that chance makes half worse."
    return Fact("transfers better / worse than untuned", "53-60 / 40-47 %", ours, verdict, words)


def _low(found: AlnResults) -> Fact:
    by = {one.strategy: one for one in found.live}
    low, best = by[PRED_LOW], max((by[name] for name in PREDICTING), key=lambda one: one.mean)
    as_well, under = low.high >= best.mean, UNDER[0] <= -found.under <= UNDER[1]
    verdict = HOLDS if as_well and under else PARTLY if as_well or under else ABSENT
    ours = f"{found.under:+.0%} of MaxCwnd in the mean; {_mean(low)}, the best ({best.strategy}) {_mean(best)}"
    return Fact("PredMean Low predicts 20 to 30 % too little and does as well", "it does", ours, verdict)


def _harm(found: AlnResults) -> Fact:
    rows = [one for one in found.live if one.strategy in PREDICTING]
    ours = ", ".join(
        f"{one.strategy} {one.harmed:.1%}, p95 {one.p95:.2f}, first-flight loss {100 * one.early:+.2f} points"
        for one in rows
    )
    verdict = HOLDS if all(one.harmed <= 0.05 and one.p95 >= 1.0 for one in rows) else ABSENT
    words = "A goal of ours, not the paper's: at most 5 % of transfers over 5 % slower, the 95th percentile not slower."
    return Fact("transfers made worse by more than 5 %", "-", ours, verdict, words)


def _unseen(found: AlnResults) -> Fact:
    rows = [one for one in found.unseen if one.strategy in PREDICTING]
    claim = "prefixes never seen gain too"
    if not rows or not rows[0].transfers:
        return Fact(claim, "-", "no such transfer", UNKNOWN)
    verdict = HOLDS if all(one.low > 1 for one in rows) else PARTLY if any(one.low > 1 for one in rows) else ABSENT
    return Fact(
        claim, "-", _means(rows), verdict, f"{rows[0].transfers} transfers; the network (/16) answers for them."
    )


def _off_policy(found: AlnResults) -> Fact:
    """Every estimate's every interval holds the own run; the controls, by the same judge, are words."""
    drawn = [one for one in found.off_policy if one.drawn]
    held = {name: [one.agrees for one in drawn if one.estimate == name] for name in (*ESTIMATES, *CONTROLS)}
    counts = {name: f"{name} {sum(some)} of {len(some)}" for name, some in held.items()}
    agreeing = [all(held[name]) for name in ESTIMATES]
    verdict = HOLDS if all(agreeing) else PARTLY if any(any(held[name]) for name in ESTIMATES) else ABSENT
    ours = f"intervals of 95 % that hold the strategy's own run: {', '.join(counts[name] for name in ESTIMATES)}"
    controls = ", ".join(counts[name] for name in CONTROLS)
    words = f"Means of ln(s), and of ln(s) less Null's. Controls: {controls}. An interval misses one in twenty."
    return Fact("one log of draws shows each strategy's value", "-", ours, verdict, words)


def _quantiles(found: AlnResults) -> Fact:
    rows = {one.model: one for one in found.quantiles}
    claim = "lower bounds counted as such show the windows of paths, in 80 % intervals that cover"
    if CENSORED not in rows:
        return Fact(claim, "-", "no transfer met its path's limit", UNKNOWN)
    ours, bayes = rows[CENSORED], rows[BAYES_BINS]
    better, covers = ours.loss < bayes.loss, COVERING[0] <= ours.covered <= COVERING[1]
    verdict = HOLDS if better and covers else PARTLY if better or covers else ABSENT
    words = "; ".join(f"{one.model} {one.loss:.3f}, {one.covered:.0%}" for one in found.quantiles)
    if ours.unseen_loss == ours.unseen_loss:
        words += f". Prefixes never seen: {ours.unseen_loss:.3f}, {ours.unseen_covered:.0%}"
    figures = f"pinball loss {ours.loss:.3f} of ln(window), {ours.covered:.0%} covered; naive Bayes {bayes.loss:.3f}, "
    return Fact(claim, "-", f"{figures}{bayes.covered:.0%}", verdict, words)


def tables(found: AlnResults) -> list[Table]:
    """Return every table."""
    hits = [[PAPER_NAMES[one.target], one.model, one.rounding, one.judged, *_rounded(one.hits, one.low, one.high),
             *_rounded(one.mean_error, one.variance)] for one in found.hits]  # fmt: skip
    gains = [[one.name, one.penalty, *_rounded(one.mean, one.low, one.high, found.measured.get(one.name, float("nan")))]
             for one in found.estimates]  # fmt: skip
    stress = [[one.name, one.penalty, *_rounded(one.mean, one.low, one.high)] for one in found.stress]
    parts = [("all", found.live), ("never seen", found.unseen)]
    parts += [(f"{band[0]:.0f}-{band[1]:.0f} ms", rows) for band, rows in found.bands.items()]
    live: list[list[Cell]] = [
        [part, one.strategy, one.transfers,
         *_rounded(one.mean, one.low, one.high, one.better, one.worse, one.harmed, one.p95, one.early)]
        for part, rows in parts for one in rows
    ]  # fmt: skip
    off = [[one.strategy, one.value, one.estimate, one.drawn, *_rounded(one.mean, one.low, one.high, one.own)]
           for one in found.off_policy]  # fmt: skip
    interval = ("low", "high")
    paths = [[one.model, one.transfers, *_rounded(*one[2:])] for one in found.quantiles]
    return [
        Table("hits", "Exact hits and errors", ("variable", "model", "rounding", "judged", "hits", *interval,
              "mean error, bins", "error variance"), hits, f"Models: {', '.join(MODELS)}."),
        Table("estimates", "The simple estimator, and the lab", ("strategy", "penalty, trips", "estimated", *interval,
              "measured"), gains),
        Table("stress", "Gain by the share of exact predictions", ("exact", "penalty, trips", "gain", *interval),
              stress),
        Table("live", "Each strategy over Null", ("transfers", "strategy", "count", "speed-up", *interval, "better",
              "worse", "worse by 5 %", "p95 speed-up", "first-flight loss more"), live),
        Table("off-policy", "Values from one log of draws", ("strategy", "value", "estimate", "drawn", "mean",
              *interval, "own run"), off),
        Table("windows", "What is known of the paths' windows", ("model", "transfers", "pinball loss", "covered",
              "never seen, loss", "never seen, covered"), paths, "Of ln(window); 80 % intervals."),
        *figure_tables(found.figures),
    ]  # fmt: skip


def _rounded(*values: float) -> list[Cell]:
    return [None if value != value else round(value, 4) for value in values]


def plots(found: AlnResults) -> list[Plot]:
    """Return gain by exactness, speed-up by band."""
    by_share = [
        Curve(f"too large costs {penalty:g} trips", [(float(one.name), one.mean, one.low, one.high)
                                                     for one in found.stress if one.penalty == penalty])
        for penalty in (0.0, PENALTY)
    ]  # fmt: skip
    by_band = [
        Curve(strategy, [(sum(band) / 2, row.mean, row.low, row.high) for band, rows in found.bands.items()
                         for row in rows if row.strategy == strategy])
        for strategy in STRATEGIES
    ]  # fmt: skip
    return [
        Curves("Gain by exactness", "share of exact predictions", "estimated speed-up", by_share),
        Curves("Speed-up by round trip", "round trip, ms", "speed-up over Null", by_band, log_x=True),
    ]
