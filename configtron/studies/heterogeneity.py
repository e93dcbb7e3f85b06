# SPDX-License-Identifier: MIT
"""The study `heterogeneity`: published figures of 46 harder networks beside those of a measured tensor.

Question   On how many networks does one configuration fit, how much do the others lose, which knob decides, and how
           many bytes does a page cost its neighbours; does an independent measurement agree?
Method     Regret of a configuration in a condition: its geometric mean over sites of the median page load time over the
           least of its set's, less 1. Four sets (`SETS`). Static: the configuration of a set with the least mean
           regret. Arms: the best of two or three configurations serves each condition, the combination with the least
           mean regret. Gain on held-out loads: optimum of each condition over the static one, both chosen on half of
           the loads and judged on the others, over all splits. Price: bytes that neighbours lose for each byte of page.
Reads as   `Evaluated`: each table has the published figure and ours side by side, in per cent, ms or bytes.
Fails as   `BadInput` for a tensor without the four knobs. The result leaves out and names conditions of the 46 without
           a measurement. A configuration whose loads failed in a condition cannot be the static one; where a published
           one failed, its regret is of the other conditions, and `failed in` counts the failures.
Differs    `DIFFERS`.
Source     `configtron/lab/testbed/realism.py` (the published figures); CT section 6; Ware et al., HotNets 2019 (harm)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from configtron.lab.testbed import realism
from configtron.learner.damage import BOUND
from configtron.model.errors import BadInput
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Cell, Evaluated, Fact, Table
from configtron.studies.registry.kinds import TENSOR, Arguments, ClaimsStudy
from configtron.studies.tensors.improvement import Codes, Floats
from configtron.studies.tensors.published import (
    ALL,
    GRID,
    GUARDED,
    H1,
    H2,
    SETS,
    WITH_BBR,
    PublishedCells,
    PublishedPrice,
    measured,
    prices,
)
from configtron.studies.tensors.regrets import Regrets, excess, held_out, static
from configtron.studies.tensors.visits import cost_of_one_value, versions, visits

# A configuration that is this much slower than the best, or less, fits.
FITS = 0.05
# Shares of conditions: most of them; the half.
MOST, HALF = 0.75, 0.5
# Least buffer, bandwidth-delay products, at which nothing harmed neighbours.
DEEP = 8.0
# What differs between the two measurements; no figure can be nearer than these allow.
DIFFERS = (
    "Published: six loads a cell, neighbours with the page's own round trip and in step with the loads, traces from a "
    "fixed moment, no chance in rate and round trip, `results` in place of `shop` at 0.25 Mbit/s. Here: rate and round "
    "trip are drawn within 6 % where nothing else varies, neighbours have round trips of their own and a drawn phase, "
    "losses in runs are by time or packet as the condition's name says, all sites are measured everywhere, loads a "
    "cell as the tensor has them. A published regret of a condition without chance is known to about 15 points."
)


def run(arguments: Arguments) -> Evaluated:
    """Return the study. Errors: `BadInput`."""
    if arguments.tensor is None:
        raise BadInput(
            "heterogeneity reads a measured tensor: configtron learn measure --study realism, or --tensor FILE"
        )
    cells, missing = measured(arguments.tensor, arguments.source)
    about = (("tensor", arguments.source), ("made by", arguments.tensor.source), *arguments.tensor.provenance)
    title, paper = "Do harder networks need different configurations?", "46 networks, our figures of November 2026"
    if not cells.at:
        return Evaluated("realism", title, paper, METHOD, (), (), (), DIFFERS, about, missing)
    found = {name: _set(cells, name, arguments.seed) for name in SETS if cells.allowed(name).any()}
    again = visits(arguments.tensor)
    first = [_statics(cells, found), _arms(cells), _knobs(cells)]
    tables = (*first, *([again] if again else []), _conditions(cells), _price(cells))
    whole = [_one_size(cells, found), _few_arms(cells, found), _static_first(cells, found)]
    facts = [*whole, _version(cells), *_costs(cells)]
    return Evaluated("realism", title, paper, METHOD, tables, (), facts, DIFFERS, about, missing)


METHOD = (
    "Regret: geometric mean over sites of the median page load time over the least of the set's in that condition, "
    "less 1. Sets: all; guarded (no bbr, unpaced windows up to 30 segments); grid (guarded, all windows up to 30); "
    "grid+bbr. Gain: optimum of each condition over the static one, on loads that had no part in the choice."
)


class SetRegret(NamedTuple):
    """A set: regret of every configuration (inf outside the set), the static one, gains of the splits of loads."""

    regret: Floats
    static: Regrets
    gains: Floats


def _set(cells: PublishedCells, name: str, seed: int) -> SetRegret:
    allowed = cells.allowed(name)
    regret = excess(cells.score, allowed)
    group: Codes = np.arange(len(cells.score))
    gains = held_out(cells.tensor, allowed, group, np.random.default_rng(seed))
    return SetRegret(regret, static(regret, cells.tensor.share), gains)


def served(cells: PublishedCells, regret: Floats, names: Sequence[str]) -> tuple[Regrets, int] | None:
    """Return the regret where the best of these configurations serves each condition, and in how many all failed:
    they are left out. None where one was not measured at all."""
    places = [at for name in names if (at := cells.place(name)) is not None]
    if len(places) < len(names):
        return None
    best = regret[:, places].min(axis=1)
    known = np.isfinite(best)
    share = cells.tensor.share[known]
    return (Regrets(best[known], share / share.sum()), int((~known).sum())) if known.any() else None


def best_arms(cells: PublishedCells, regret: Floats, count: int) -> tuple[tuple[str, ...], Regrets]:
    """Return the `count` configurations of which the best serves each condition with the least mean regret."""
    known = np.flatnonzero(np.isfinite(regret).any(axis=0))
    share = cells.tensor.share
    every = np.array(list(combinations(known, min(count, len(known)))))
    best = np.stack([regret[:, arms].min(axis=1) for arms in every])
    # a combination that serves a condition with nothing but failed loads is no choice
    mean = np.where(np.isfinite(best).all(axis=1), np.nan_to_num(best, posinf=0.0) @ share, np.inf)
    pick = int(mean.argmin())
    return tuple(cells.stacks[at].name for at in every[pick]), Regrets(best[pick], share)


def _statics(cells: PublishedCells, found: Mapping[str, SetRegret]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in realism.STATICS:
        if one.name not in found:
            continue
        mine = found[one.name]
        theirs = served(cells, mine.regret, (one.configuration,))
        same = (*_figures(theirs[0]), None, None, None, theirs[1]) if theirs else (None,) * 8
        gain = _gain(mine.gains)
        rows += [
            (one.name, "published", one.configuration, one.within, one.mean, one.p95, one.most,
             one.gain, one.gain_low, one.gain_high, None),
            (one.name, "measured", cells.stacks[mine.static.pick].name, *_figures(mine.static), *gain, 0),
            (one.name, "measured", one.configuration, *same),
        ]  # fmt: skip
    columns = ("set", "figures", "static configuration", "within 5 % of best, %", "mean regret, %", "p95, %",
               "largest, %", "gain, held-out loads, %", "5th, %", "95th, %", "failed in")  # fmt: skip
    words = "The third row of a set is the published static configuration on this tensor."
    return Table("static", "Where one configuration fits", columns, rows, words)


def _figures(one: Regrets) -> tuple[Cell, ...]:
    """(within 5 %, mean, p95, largest), per cent."""
    return tuple(map(_percent, (one.within(FITS), one.mean, one.quantile(0.95), one.quantile(1.0))))


def _gain(gains: Floats) -> tuple[Cell, ...]:
    if not len(gains):
        return (None,) * 3
    return tuple(map(_percent, (float(gains.mean()), *map(float, np.percentile(gains, (5, 95))))))


def _percent(share: float) -> Cell:
    return round(100 * share, 1) if np.isfinite(share) else None


def _arms(cells: PublishedCells) -> Table:
    regret = excess(cells.score, cells.allowed(GRID))
    rows: list[tuple[Cell, ...]] = []
    for one in realism.ARMS:
        names = " ".join(one.configurations)
        ours = served(cells, regret, one.configurations)
        mean, p95 = (_percent(ours[0].mean), _percent(ours[0].quantile(0.95))) if ours else (None, None)
        rows.append((names, len(one.configurations), one.mean, mean, one.p95, p95, ours[1] if ours else None))
    for count in (1, 2, 3):
        arms, best = best_arms(cells, regret, count)
        rows.append((" ".join(arms), count, None, _percent(best.mean), None, _percent(best.quantile(0.95)), 0))
    columns = ("configurations", "arms", "mean regret published, %", "mean regret, %", "p95 published, %", "p95, %",
               "failed in")  # fmt: skip
    words = "Of the grid (no bbr), the right arm in each condition. Rows without published figures: the best arms here."
    return Table("arms", "Regret where the best of a few configurations serves each condition", columns, rows, words)


def _knobs(cells: PublishedCells) -> Table:
    rows = [
        (knob, _percent(lost)) for knob, lost in sorted(cost_of_one_value(cells, GRID).items(), key=lambda row: -row[1])
    ]
    words = "Published order: http_version, pacing, initcwnd; reno and vegas are not needed. Grid, all others free."
    columns = ("knob", "mean regret, %")
    return Table("knobs", "What is lost where one knob has the same value in all conditions", columns, rows, words)


def _conditions(cells: PublishedCells) -> Table:
    default = [cells.place(f"cubic/10/{version}") for version in (H1, H2)]
    gap = versions(cells)
    rows: list[tuple[Cell, ...]] = []
    for c, row in enumerate(cells.at):
        ours = [None if at is None else _ms(float(cells.score[c, at])) for at in default]
        found: list[Cell] = [row.condition, row.default_h1_ms, ours[0], row.default_h2_ms, ours[1]]
        for name, best, ms in ((ALL, row.best, row.best_ms), (GUARDED, row.guarded, row.guarded_ms)):
            mine = np.where(cells.allowed(name)[c], cells.score[c], np.inf)
            pick = int(mine.argmin())
            found += [best, cells.stacks[pick].name, ms, _ms(float(mine[pick]))]
        rows.append((*found, row.h1_over_h2, _percent(float(gap[c]))))
    columns = (
        "condition", "default h1 published, ms", "default h1, ms", "default h2 published, ms", "default h2, ms",
        "best published", "best", "best published, ms", "best, ms", "best guarded published", "best guarded",
        "best guarded published, ms", "best guarded, ms", "h2 over h1 published, %", "h2 over h1, %",
    )  # fmt: skip
    words = "h2 over h1: how much longer the guarded set's best of HTTP/2 takes; above 0 six connections are faster."
    return Table("conditions", "Page load times by condition", columns, rows, words)


def _ms(value: float) -> Cell:
    return round(value) if np.isfinite(value) else None


def _price(cells: PublishedCells) -> Table:
    words = "1.0 is what the page itself needs; upper end of the 95 % interval of the loads."
    columns = ("condition", "site", "configuration", "published", "measured", "upper end")
    return Table("price", "Bytes that neighbours lose for each byte of page", columns, prices(cells), words)


def _verdict(holds: bool, partly: bool) -> str:
    return HOLDS if holds else PARTLY if partly else ABSENT


def _one_size(cells: PublishedCells, found: Mapping[str, SetRegret]) -> Fact:
    claim = "Where bbr is permitted one configuration fits nearly everywhere, by load time alone"
    paper = "bbr/30/h2 within 5 % of the best in 87 % of conditions, mean regret 3.1 %, gain on held-out loads 2.0 %"
    if WITH_BBR not in found:
        return Fact(claim, paper, "-", UNKNOWN, "no such configuration in the tensor")
    one = found[WITH_BBR]
    within, gain = one.static.within(FITS), _gain(one.gains)[0]
    ours = (f"{cells.stacks[one.static.pick].name} within 5 % in {100 * within:.0f} %, mean regret "
            f"{100 * one.static.mean:.1f} %, gain {'-' if gain is None else gain} %")  # fmt: skip
    words = "Holds from three quarters of conditions on, in part from the half on."
    return Fact(claim, paper, ours, _verdict(within >= MOST, within >= HALF), words)


def _few_arms(cells: PublishedCells, found: Mapping[str, SetRegret]) -> Fact:
    claim = "Without bbr two or three configurations, rightly chosen, leave little of what one leaves"
    paper = "mean regret 7.5 % with one, 1.2 % with two, 0.6 % with three; p95 36, 8, 3.3 %"
    every = [best_arms(cells, found[GRID].regret, count) for count in (1, 2, 3)]
    mean, tail = ([100 * value for value in values] for values in (
        [one.mean for _, one in every], [one.quantile(0.95) for _, one in every]))  # fmt: skip
    ours = (f"mean regret {mean[0]:.1f} % with one, {mean[1]:.1f} % with two, {mean[2]:.1f} % with three; "
            f"p95 {tail[0]:.0f}, {tail[1]:.1f}, {tail[2]:.1f} %")  # fmt: skip
    words = f"Three here: {', '.join(every[2][0])}. Holds where two leave less than half of one's regret."
    return Fact(claim, paper, ours, _verdict(mean[1] < HALF * mean[0], mean[2] < HALF * mean[0]), words)


def _static_first(cells: PublishedCells, found: Mapping[str, SetRegret]) -> Fact:
    claim = "The best static configuration gains more over the default than a choice by condition gains over it"
    paper = "default 33 % mean regret (h1 and h2), best static 7.5 %"
    default = [served(cells, found[GRID].regret, (f"cubic/10/{version}",)) for version in (H1, H2)]
    least = found[GRID].static.mean
    known = [one[0].mean for one in default if one is not None]
    if not known:
        return Fact(claim, paper, "-", UNKNOWN, "the default was not measured in every condition")
    ours = f"default {' and '.join(f'{100 * one:.0f} %' for one in known)}, best static {100 * least:.1f} %"
    holds = [one - least > least for one in known]
    words = "Compared: the default's mean regret less the static's, and the static's."
    return Fact(claim, paper, ours, _verdict(all(holds), any(holds)), words)


def _version(cells: PublishedCells) -> Fact:
    claim = "The choice most worth learning is HTTP's version, that is, the number of connections"
    published = np.array([row.h1_over_h2 for row in cells.at]) / 100
    paper = f"h2 takes {100 * published.min():+.0f} to {100 * published.max():+.0f} % of HTTP/1.1's time more"
    gap, lost = versions(cells), cost_of_one_value(cells, GRID)
    known = ~np.isnan(gap)
    if not known.any():
        return Fact(claim, paper, "-", UNKNOWN, "one version alone was measured")
    same = float((np.sign(gap[known]) == np.sign(published[known])).mean())
    order = sorted(lost, key=lambda knob: -lost[knob])
    ends = f"{100 * np.nanmin(gap):+.0f} to {100 * np.nanmax(gap):+.0f} %"
    ours = f"{ends}; same sign in {100 * same:.0f} % of conditions"
    each = ", ".join(f"{knob} {100 * lost[knob]:.1f} %" for knob in order)
    words = f"Lost where a knob has one value everywhere: {each}."
    return Fact(claim, paper, ours, _verdict(order[:1] == ["http_version"] and same >= MOST, same >= MOST), words)


def _costs(cells: PublishedCells) -> list[Fact]:
    """Damage: who harms at shallow buffers, and that nothing harms at deep ones."""
    every = [one for one in prices(cells) if one.bytes_lost is not None]
    shallow = [one for one in every if _buffer(one.condition) <= 1]
    deep = [one for one in every if _buffer(one.condition) >= DEEP]
    return [
        _most_cost("At up to 1 BDP bbr over one connection costs neighbours more", shallow, "bbr/30/h2", True),
        _most_cost("At up to 1 BDP six paced connections of cubic cost them more", shallow, "cubic/64/fq/h1", True),
        _most_cost(f"At {DEEP:g} BDP and more no configuration costs them more", deep, "", False),
    ]


def _most_cost(claim: str, some: Sequence[PublishedPrice], configuration: str, above: bool) -> Fact:
    mine = [one for one in some if configuration in ("", one.configuration)]
    if not mine:
        return Fact(claim, "-", "-", UNKNOWN, "no such condition with neighbours in the tensor")
    most = [max(mine, key=lambda one: one.published), max(mine, key=lambda one: one.bytes_lost or 0.0)]
    paper = f"up to {most[0].published:.2f} bytes a byte of page ({most[0].condition}, {most[0].configuration})"
    lost = most[1].bytes_lost or 0.0
    interval = f", upper end {most[1].high:.2f}" if most[1].high is not None else ""
    ours = f"up to {lost:.2f}{interval} ({most[1].condition}, {most[1].site}, {most[1].configuration})"
    words = f"More: than the bound of {BOUND:g} bytes a byte of page."
    return Fact(claim, paper, ours, _verdict((lost > BOUND) == above, False), words)


def _buffer(condition: str) -> float:
    """Buffer, bandwidth-delay products, by a condition's name: link:MBIT/RTT/BDP,..."""
    return float(condition.partition(":")[2].partition(",")[0].split("/")[2])


STUDY = ClaimsStudy(
    "heterogeneity",
    "HotCloud 2017; ConfigTron, section 6",
    "published figures of 46 harder networks beside those of a measured tensor",
    "seconds",
    run,
    TENSOR,
    shipped="realism",
)
