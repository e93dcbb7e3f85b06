# SPDX-License-Identifier: MIT
"""The study `hotcloud`: the best configuration of each condition, its gain over the default, and the deciding knobs.

Question   Does a real kernel in virtual time show HC's and CT's findings about configurations?
Method     A measured PLT-tensor alone. Improvements as the papers count them, and over halves of the loads, which
           avoids the bias of choosing the best (`tensors/improvement.py`); the best, near and beaten configurations
           (`comparison.py` beside it); the effect of each knob (`weights.py`); a tree per site, tested on conditions
           outside its training (`choices.py`); then for each claim the paper's figure and ours, with a computed verdict
           (`claims.py`).
Reads as   `Evaluated`. It leaves out and names conditions without measurements; the figures are of the others.
Fails as   `BadInput` where no condition is measured, or the default configuration is not among them; `Missing` without
           scikit-learn.
Differs    HC took the mean of five loads without outliers, and a browser on netem in real time.
Source     HC sections 2 and 3; CT section 6, Figures 8 and 9
"""

from __future__ import annotations

import numpy as np

from configtron.model.errors import BadInput
from configtron.studies.output.results import Cell, Curve, Curves, Evaluated, Heat, Plot, Table
from configtron.studies.registry.kinds import TENSOR, Arguments, ClaimsStudy, PartsProgress
from configtron.studies.tensors import choices as trees
from configtron.studies.tensors import claims
from configtron.studies.tensors.comparison import TOP, Rank, beaten_at, ranking, wins
from configtron.studies.tensors.improvement import Floats, Gain, MeasuredCells, gain, measured
from configtron.studies.tensors.weights import Weight, apart, weights

# Chance is drawn only for intervals; the same for the same seed.
SITE_TREES, REST = 1, 1
# More names of conditions are not read.
MOST_NAMES = 6


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `BadInput`, `Missing`."""
    if arguments.tensor is None:
        raise BadInput("hotcloud reads a measured tensor: configtron learn measure --study hotcloud, or --tensor FILE")
    cells, missing = measured(arguments.tensor)
    if not np.isfinite(cells.ms[:, cells.default]).any():
        raise BadInput(f"{arguments.source}: the default configuration has no page load time anywhere")
    rng, sites = np.random.default_rng(arguments.seed), cells.tensor.sites
    parts = SITE_TREES * len(sites) + REST
    found, ranked = gain(cells), [ranking(cells, at) for at in range(len(sites))]
    heavy = weights(cells, rng)
    arguments.progress(PartsProgress(REST, parts, "gains"))
    chosen = []
    for at, site in enumerate(sites):
        chosen.append(trees.unseen(cells, at))
        arguments.progress(PartsProgress(REST + at + 1, parts, f"trees of {site}"))
    facts = claims.all_of(cells, found, ranked, heavy, apart(heavy, rng), chosen, rng)
    ground = (("tensor", arguments.source), ("made by", cells.tensor.source), *cells.tensor.provenance)
    return Evaluated(
        "hotcloud", "Best over default", "HotCloud 2017; ConfigTron section 6", _method(cells), _tables(
            cells, found, ranked, heavy, chosen
        ), _plots(cells, found, ranked, heavy), facts, DIFFERS, ground, _missing(cells, missing),
    )  # fmt: skip


DIFFERS = (
    "The papers load five times and take the median (CT) or the mean without outliers (HC); here a cell is loaded "
    "until its median is known, and gains are also read from loads that had no part in the choice. Our client has no "
    "cost of computing. HC does not tell its queue nor the side of its delay: docs/experiments.md."
)


def _method(cells: MeasuredCells) -> str:
    shape = f"{len(cells.ms)} conditions, {len(cells.grid)} configurations, {len(cells.tensor.sites)} sites"
    failed = int((~np.isfinite(cells.ms)).sum())
    lost = f" {failed} cells have no median, as half their loads failed: slower than all." if failed else ""
    return (
        f"{shape} ({', '.join(cells.tensor.sites)}). A gain is of the default's page load time. By halves: chosen by "
        "one half of a cell's loads and read from the other; as the papers: the smallest of all medians over the "
        f"default's, which luck makes larger. Intervals are of 95 %, over conditions drawn with replacement.{lost}"
    )


def _missing(cells: MeasuredCells, missing: tuple[str, ...]) -> str:
    if not missing:
        return ""
    more = f" and {len(missing) - MOST_NAMES} more" if len(missing) > MOST_NAMES else ""
    whole = len(cells.ms) + len(missing)
    return f"{len(missing)} of {whole} conditions are not measured yet: {', '.join(missing[:MOST_NAMES])}{more}"


def _tables(
    cells: MeasuredCells,
    found: Gain,
    ranked: list[list[Rank]],
    heavy: list[Weight],
    chosen: list[list[trees.TreeChoice]],
) -> list[Table]:
    tables = [_groups(cells, found), _worth(heavy), _best(cells, ranked), _wins(cells, ranked), _trees(cells, chosen)]
    return [*tables, *([_rules(cells)] if any(chosen) else []), _cells(cells, found)]


def _groups(cells: MeasuredCells, found: Gain) -> Table:
    """Gains by bandwidth, round trip, loss."""
    tensor, rows = cells.tensor, list[tuple[Cell, ...]]()
    names = (("bandwidth, Mbit/s", tensor.bandwidth_kbps / 1e3), ("round trip, ms", tensor.rtt_ms),
             ("loss, %", 100 * tensor.loss))  # fmt: skip
    for name, column in names:
        for value in np.unique(column[~np.isnan(column)]):
            some = column == value
            halves = (None, None) if found.halves is None else _two(found.halves[some])
            rows.append((name, f"{value:g}", int(some.sum()), *_two(found.papers[some]), *halves))
    columns = ("of", "is", "conditions", "median, %", "p95, %", "median by halves, %", "p95 by halves, %")
    return Table("groups", "Gain of the best configuration by network", columns, rows)


def _two(gains: Floats) -> tuple[Cell, Cell]:
    return _percent(float(np.nanmedian(gains))), _percent(float(np.nanpercentile(gains, 95)))


def _percent(share: float) -> Cell:
    return round(100 * share, 2) if np.isfinite(share) else None


def _worth(heavy: list[Weight]) -> Table:
    rows = [(one.knob, str(one.held_at), one.mean.text(), one.tail.text(), one.alone.text()) for one in heavy]
    columns = ("knob", "held at", "lost when held, mean", "lost when held, p95", "gained alone, mean")
    words = "In points of the default's page load time, by halves where there are repeats."
    return Table("knobs", "What each knob is worth", columns, rows, words)


def _best(cells: MeasuredCells, ranked: list[list[Rank]]) -> Table:
    rows = [
        (site, cells.grid.profiles[one.configuration].name, *map(_percent, one[1:]))
        for site, every in zip(cells.tensor.sites, ranked, strict=True)
        for one in every
        if one.best or one.configuration == cells.default
    ]
    columns = ("site", "configuration", "best, %", "within 5 % of best, %", "beaten, %")
    words = (
        "Shares of conditions; the default is always named. Beaten: another's 95 % interval lies wholly below, which "
        "among so many others happens by luck too."
    )
    return Table("coverage", "In how many conditions each configuration is best", columns, rows, words)


def _wins(cells: MeasuredCells, ranked: list[list[Rank]]) -> Table:
    rows = []
    for at, site in enumerate(cells.tensor.sites):
        some = [one.configuration for one in ranked[at][:TOP]]
        shares = wins(cells, at, some)
        for n, one in enumerate(some):
            for m, other in enumerate(some):
                if n != m:
                    names = (cells.grid.profiles[one].name, cells.grid.profiles[other].name)
                    rows.append((site, *names, _percent(shares[n, m])))
    columns = ("site", "configuration", "against", "faster, %")
    words = "Of conditions; what lacks to a hundred in both directions is a draw."
    return Table("wins", "The four that are best most often, pair by pair", columns, rows, words)


def _trees(cells: MeasuredCells, chosen: list[list[trees.TreeChoice]]) -> Table:
    rows = [
        (site, one.way, _percent(one.hits), _percent(float(np.median(one.regret))),
         _percent(float(np.percentile(one.regret, 95))), _percent(float(one.regret.mean())))
        for site, every in zip(cells.tensor.sites, chosen, strict=True)
        for one in every
    ]  # fmt: skip
    columns = ("site", "chosen by", "fastest hit, %", "regret median, %", "regret p95, %", "regret mean, %")
    words = "Each condition is chosen for by what was learned from all others. Regret: slower than its fastest."
    return Table("trees", "A decision tree per site, on conditions it has not seen", columns, rows, words)


def _rules(cells: MeasuredCells) -> Table:
    rows = [
        (site, rule.asks, cells.grid.profiles[rule.configuration].name, rule.conditions)
        for at, site in enumerate(cells.tensor.sites)
        for rule in trees.rules(cells, at)
    ]
    return Table("rules", "The trees' rules, of a cover", ("site", "if", "use", "conditions"), rows)


def _cells(cells: MeasuredCells, found: Gain) -> Table:
    """Every condition and site: the default, the best, how well both are known."""
    rows, beaten = [], [beaten_at(cells, at) for at in range(len(cells.tensor.sites))]
    for c, name in enumerate(cells.tensor.names):
        for at, site in enumerate(cells.tensor.sites):
            ms, low, high = cells.ms[c, :, at], cells.low_ms[c, :, at], cells.high_ms[c, :, at]
            best, d = int(ms.argmin()), cells.default
            halves = None if found.halves is None else _percent(found.halves[c, at])
            known = (round(float(low[best]), 1), round(float(high[best]), 1))
            rows.append(
                (name, site, round(float(ms[d]), 1), cells.grid.profiles[best].name, round(float(ms[best]), 1), *known,
                 _percent(found.papers[c, at]), halves, int((~beaten[at][c]).sum()))
            )  # fmt: skip
    columns = ("condition", "site", "default, ms", "best configuration", "best, ms", "low, ms", "high, ms", "gain, %",
               "gain by halves, %", "not beaten")  # fmt: skip
    words = "Not beaten: configurations that no other's interval lies below; the best is one of so many."
    return Table("cells", "Every condition and site", columns, rows, words)


def _plots(cells: MeasuredCells, found: Gain, ranked: list[list[Rank]], heavy: list[Weight]) -> list[Plot]:
    series = []
    for at, site in enumerate(cells.tensor.sites):
        series.append(_distribution(site, found.papers[:, at]))
        if found.halves is not None:
            series.append(_distribution(f"{site}, by halves", found.halves[:, at]))
    gains = Curves("Gain of the best configuration over the default", "gain, %", "conditions with at most this, %",
                   series)  # fmt: skip
    lost = [_distribution(one.knob, one.lost.ravel()) for one in heavy]
    words = "All conditions and sites; by halves where there are repeats."
    held = Curves("What is lost when one knob is left alone", "lost, points", "conditions with at most this, %", lost,
                  words=words)  # fmt: skip
    return [gains, held, *(_won(cells, at, ranked[at]) for at in range(len(cells.tensor.sites)))]


def _distribution(name: str, values: Floats) -> Curve:
    known = np.sort(values[~np.isnan(values)])
    steps = [(100 * float(v), 100 * (n + 1) / len(known), np.nan, np.nan) for n, v in enumerate(known)]
    return Curve(name, steps)


def _won(cells: MeasuredCells, site: int, ranked: list[Rank]) -> Heat:
    some = [one.configuration for one in ranked[:TOP]]
    shares = 100 * wins(cells, site, some)
    values = [[None if n == m else float(shares[n, m]) for m in range(len(some))] for n in range(len(some))]
    names = [cells.grid.profiles[at].name for at in some]
    return Heat(f"Wins at {cells.tensor.sites[site]}", names, names, values, "% of conditions", True,
                "The row's configuration is faster than the column's.")  # fmt: skip


STUDY = ClaimsStudy(
    "hotcloud",
    "HotCloud 2017, section 2; ConfigTron, section 6",
    "best configuration over the default by condition and site, from a measured tensor",
    "seconds",
    run,
    TENSOR,
    shipped="hotcloud",
)
