# SPDX-License-Identifier: MIT
"""The content of ALN's Figures 10 to 24 and of its daemon's cost: a table each, ours beside what the paper has.

Question   What does each of the figures of the paper show in the lab's world?
Method     Figures 10 to 14 are of the simple estimator, 15 to 19 of wrong predictions, 20 to 24 of live connections;
           each group's content is divided into five tables here.
Reads as   `AlnFigures`, and a `Table` by figure
Differs    of the paper's figures the groups and their main figures are known here, not which axes each one has: the
           division into five is ours. Rules: the paper's figures are constants here, ours come from what was measured.
Source     Applied Learning Networks (ALN), Figures 10 to 24
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes
from configtron.learner.initial.end_states import EndStates
from configtron.learner.initial.initial_strategies import NULL, PRED_ROUND, STRATEGIES
from configtron.studies.initial_states import stress
from configtron.studies.initial_states.daemon_cost import DaemonCost
from configtron.studies.initial_states.live_strategies import LiveTransfers
from configtron.studies.initial_states.parted_gains import (
    PERCENTILES,
    GainSpread,
    PartGain,
    Parts,
    gain_spreads,
    hour_parts,
    parted_gains,
    size_parts,
    trip_parts,
    window_parts,
)
from configtron.studies.initial_states.stress import PENALTY, EstimatedGain
from configtron.studies.output.results import Cell, Table

ESTIMATOR, STRESS, LIVE = "1.1 to 1.4 times, mostly", "30 % exact already gains", "1.16 to 1.22 times"
IN_WORDS = "in words"
# Figure -> what is in ours, and the paper's figure where it is known.
CONTENTS = {
    10: ("estimated gain by strategy", ESTIMATOR),
    11: ("spread of the estimated gain", IN_WORDS),
    12: ("estimated gain by round trip", IN_WORDS),
    13: ("estimated gain by size", IN_WORDS),
    14: ("estimated gain by MaxCwnd", IN_WORDS),
    15: ("gain by share of exact predictions, too large costs nothing", STRESS),
    16: ("gain by share of exact predictions, too large costs two trips", STRESS),
    17: ("gain by share of exact predictions and size", IN_WORDS),
    18: ("gain where predictions are MaxCwnd times a factor", IN_WORDS),
    19: ("gain where predictions are so many bins off", IN_WORDS),
    20: ("live speed-up by strategy", LIVE),
    21: ("live speed-up by round trip", "largest at 100 to 200 ms"),
    22: ("live speed-up by size", IN_WORDS),
    23: ("live speed-up by hour", IN_WORDS),
    24: ("spread of live speed-ups, better and worse", "53-60 % better, 40-47 % worse"),
}
DAEMON = "170 us a connection up to 500 a second; 10 % of connections at 5 000"


class AlnFigures(NamedTuple):
    """estimated, measured: by figure's parts; spreads: estimated and live; the rest by figure."""

    estimated: dict[int, Sequence[PartGain]]
    measured: dict[int, Sequence[PartGain]]
    spread_estimated: Sequence[GainSpread]
    spread_live: Sequence[GainSpread]
    shares: Sequence[EstimatedGain]
    shares_by_size: dict[str, Sequence[EstimatedGain]]
    factors: Sequence[EstimatedGain]
    bins_off: Sequence[EstimatedGain]
    daemon: Sequence[DaemonCost]


def aln_figures(
    null: EndStates, live: LiveTransfers, shares: Sequence[EstimatedGain], daemon: Sequence[DaemonCost],
    rng: np.random.Generator,
) -> AlnFigures:  # fmt: skip
    """Return every figure's content. null: end states of the live transfers under Null, in their order; shares: the
    gains by share of exact predictions."""
    gains, measured = stress.estimated(null, _windows(live)), live.speed_ups
    trips = trip_parts(np.array([one.rtt_ms for one in live.transfers]))
    sizes, hours = size_parts(null.packets_out), hour_parts(null.at_s)
    everything: Parts = {"all": np.ones(len(null), dtype=np.bool_)}
    parts = {10: everything, 12: trips, 13: sizes, 14: window_parts(null.max_cwnd)}
    lives = {**parts, 20: everything, 21: trips, 22: sizes, 23: hours}
    return AlnFigures(
        {figure: parted_gains(gains, null.prefix, of, rng) for figure, of in parts.items()},
        {figure: parted_gains(measured, null.prefix, of, rng) for figure, of in lives.items()},
        gain_spreads(gains), gain_spreads(measured), shares,
        {part: stress.stressed(null[inside], rng) for part, inside in sizes.items() if inside.any()},
        stress.misscaled(null, rng), stress.misplaced(null, rng), daemon,
    )  # fmt: skip


def _windows(live: LiveTransfers) -> Codes:
    return np.array([one.windows for one in live.classes])


def figure_tables(found: AlnFigures) -> list[Table]:
    """Return a table of all figures, ours beside the paper's, one for each figure, and the daemon's."""
    tables = [_table(figure, found) for figure in CONTENTS]
    rows: list[list[Cell]] = [[figure, *CONTENTS[figure], _ours(figure, found)] for figure in CONTENTS]
    daemon = "; ".join(f"{one.way} at {one.rate}: {one.us:.3g} us, {one.share:.0%}" for one in found.daemon
                       if one.rate in (500, 5000))  # fmt: skip
    rows.append(["daemon", "cost of a prediction for each connection", DAEMON, daemon])
    columns = ("rate, connections/s", "way", "us a connection", "share of a core", "decided by one core")
    cost = [[one.rate, one.way, *_cells(one.us, one.core, one.share)] for one in found.daemon]
    words = "Processor time of this machine: these rows are not the same with each run."
    return [Table("figures", "Each figure, ours beside the paper's", ("figure", "content", "paper", "ours"), rows),
            *tables, Table("daemon", "A prediction for each connection", columns, cost, words)]  # fmt: skip


def _table(figure: int, found: AlnFigures) -> Table:
    name, title = f"figure-{figure}", CONTENTS[figure][0]
    title = f"Figure {figure}: {title}"
    interval = ("low", "high")
    if figure in found.estimated:
        rows = [[mine.part, mine.strategy, mine.transfers, *_cells(*mine[3:]), *_cells(*real[3:])]
                for mine, real in zip(found.estimated[figure], found.measured[figure], strict=True)
                if mine.strategy != NULL]  # fmt: skip
        columns = ("transfers", "strategy", "count", "estimated", *interval, "in the lab", "lab low", "lab high")
        return Table(name, title, columns, rows, "The same transfers; the estimator knows no losses.")
    if figure in found.measured:
        live = [[one.part, one.strategy, one.transfers, *_cells(*one[3:])]
                for one in found.measured[figure] if one.strategy != NULL]  # fmt: skip
        return Table(name, title, ("transfers", "strategy", "count", "speed-up", *interval), live)
    if figure in (11, 24):
        return _spread_table(name, title, found.spread_estimated if figure == 11 else found.spread_live)
    return _stress_table(figure, name, title, found)


def _spread_table(name: str, title: str, spreads: Sequence[GainSpread]) -> Table:
    rows = [[one.strategy, one.transfers, *_cells(*one.percentiles, one.better, *one.better_within, one.worse,
             *one.worse_within)] for one in spreads if one.strategy != NULL]  # fmt: skip
    percentiles = tuple(f"p{one}" for one in PERCENTILES)
    interval = ("better low", "better high", "worse", "worse low", "worse high")
    return Table(name, title, ("strategy", "count", *percentiles, "better", *interval), rows)


def _stress_table(figure: int, name: str, title: str, found: AlnFigures) -> Table:
    gain = ("gain", "low", "high")
    if figure == 17:
        sized: list[list[Cell]] = [
            [part, one.name, one.penalty, *_cells(*one[2:])] for part, some in found.shares_by_size.items()
            for one in some
        ]  # fmt: skip
        return Table(name, title, ("transfers", "exact", "penalty, trips", *gain), sized)
    some, first = {
        15: ([one for one in found.shares if not one.penalty], "exact"),
        16: ([one for one in found.shares if one.penalty], "exact"),
        18: (found.factors, "times MaxCwnd"),
        19: (found.bins_off, "bins off"),
    }[figure]
    rows: list[list[Cell]] = [[one.name, one.penalty, *_cells(*one[2:])] for one in some]
    return Table(name, title, (first, "penalty, trips", *gain), rows)


def _ours(figure: int, found: AlnFigures) -> str:
    """Return a figure's content in a line."""
    if figure in found.measured:
        rows = (found.estimated if figure in found.estimated else found.measured)[figure]
        named = figure in (10, 20)
        return ", ".join(f"{one.strategy if named else one.part} {_mean(one.mean, one.low, one.high)}" for one in rows
                         if one.strategy != NULL and (named or one.strategy == PRED_ROUND))  # fmt: skip
    if figure in (11, 24):
        one = (found.spread_estimated if figure == 11 else found.spread_live)[STRATEGIES.index(PRED_ROUND)]
        low, *_, high = one.percentiles
        return f"5 to 95 % of transfers {low:.2f} to {high:.2f}; {one.better:.0%} better, {one.worse:.0%} worse"
    if figure == 17:
        return ", ".join(f"{part} {_mean(*one[2:])}" for part, some in found.shares_by_size.items() for one in some
                         if one.name == "0.3" and one.penalty)  # fmt: skip
    some, shown = {
        15: (found.shares, ("0.0", "0.3", "1.0")),
        16: (found.shares, ("0.0", "0.3", "1.0")),
        18: (found.factors, ("0.25", "1", "4")),
        19: (found.bins_off, ("-3", "0", "+3")),
    }[figure]
    return ", ".join(f"{one.name}: {_mean(*one[2:])}" for one in some
                     if one.name in shown and one.penalty == (0.0 if figure == 15 else PENALTY))  # fmt: skip


def _mean(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def _cells(*values: float) -> list[Cell]:
    return [None if value != value else round(value, 4) for value in values]
