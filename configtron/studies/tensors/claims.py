# SPDX-License-Identifier: MIT
"""HotCloud's and ConfigTron's claims about configurations, one a function: the paper's figure, ours, the verdict, why.

Rules for this file: a verdict follows from the numbers by the condition that stands beside it and is the same for any
tensor; where a claim does not come out, the words say what in the numbers is in its way; where the tensor cannot
answer, it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.lab.testbed.model import shipped as pages
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Fact
from configtron.studies.tensors.choices import COVER, DEFAULT, EVERY, ONE, TreeChoice
from configtron.studies.tensors.comparison import CC, Rank, clearly_best, per_value
from configtron.studies.tensors.improvement import (
    Figure,
    Flags,
    Floats,
    Gain,
    MeasuredCells,
    mean,
    over_conditions,
    percentile,
)
from configtron.studies.tensors.improvement import gain as gained
from configtron.studies.tensors.networks import first_of_sites, initial_windows, versions
from configtron.studies.tensors.weights import Apart, Weight, fair

# The papers' figures of gains.
MEDIAN, TAIL = 0.10, 0.40
# The tail: the tenth of conditions and sites that gains most; of 48 conditions the paper's twentieth are two.
TAIL_OF = 10
# HC names four content-rich sites, which have more than this share of the gains.
RICHEST, RICH_SHARE = 4, 0.4
# Worse than the best by so much is CT's "3 to 10 times worse".
MUCH = 3.0
# CT's order of knobs.
ORDER = (CC, "initcwnd", "http_version")


class ClaimInputs(NamedTuple):
    """All that claims are read from."""

    cells: MeasuredCells
    gain: Gain
    ranked: Sequence[Sequence[Rank]]
    heavy: Sequence[Weight]
    apart: Sequence[Apart]
    chosen: Sequence[Sequence[TreeChoice]]
    rng: np.random.Generator


def all_of(
    cells: MeasuredCells,
    gain: Gain,
    ranked: Sequence[Sequence[Rank]],
    heavy: Sequence[Weight],
    apart: Sequence[Apart],
    chosen: Sequence[Sequence[TreeChoice]],
    rng: np.random.Generator,
) -> list[Fact]:
    """Every claim, in the papers' order."""
    read = ClaimInputs(cells, gain, ranked, heavy, apart, chosen, rng)
    claims = (median_gain, tail_gain, where_gains_lie, made_of, content_rich, dominance, coverage, congestion_controls,
              bbr, knobs)  # fmt: skip
    return [*(claim(read) for claim in claims), versions(cells), initial_windows(cells), tree(read)]


def median_gain(read: ClaimInputs) -> Fact:
    """HC: 10 % in the median."""
    return _gain(read, 50, "the best configuration beats the default in the median", f"{100 * MEDIAN:.0f} %", MEDIAN)


def tail_gain(read: ClaimInputs) -> Fact:
    """HC: above 40 % at the 95th percentile."""
    return _gain(read, 95, "and by far at the 95th percentile", f"> {100 * TAIL:.0f} %", TAIL)


def _gain(read: ClaimInputs, share: float, claim: str, paper: str, wanted: float) -> Fact:
    """Holds: the whole interval, by halves, is at the paper's figure or above. Partly: the figure lies within it."""
    papers = over_conditions(read.gain.papers, percentile(share), read.rng)
    if read.gain.halves is None:
        return Fact(claim, paper, papers.text(), _reached(papers, wanted),
                    "without repeats, luck cannot be told from gain")  # fmt: skip
    halves = over_conditions(read.gain.halves, percentile(share), read.rng)
    words = f"chosen and read on the same loads: {papers.text()}; by halves, without luck: {halves.text()}"
    most = max(papers.value - halves.value, 0.0)
    ours = f"{100 * halves.value:.1f} % by halves, {100 * papers.value:.1f} % as the papers count"
    return Fact(claim, paper, ours, _reached(halves, wanted), f"{words}; at most {100 * most:.1f} points are luck")


def _reached(found: Figure, wanted: float) -> str:
    return HOLDS if found.low >= wanted else ABSENT if found.high < wanted else PARTLY


def where_gains_lie(read: ClaimInputs) -> Fact:
    """Holds: the 95th percentile is at least twice the median, and a tenth of the cells has a fifth of the gain."""
    gains = _known(fair(read.gain))
    middle, end = float(np.percentile(gains, 50)), float(np.percentile(gains, 95))
    positive = np.sort(np.clip(gains, 0, None))[::-1]
    whole = float(positive.sum())
    share = float(positive[: max(len(positive) // TAIL_OF, 1)].sum()) / whole if whole else 0.0
    verdict = HOLDS if end >= 2 * middle > 0 and share > 0.2 else PARTLY if end >= 2 * middle else ABSENT
    ours = f"p95 is {end / middle:.1f} times the median" if middle > 0 else f"median {100 * middle:.1f} %"
    words = f"the tenth of conditions and sites that gains most has {100 * share:.0f} % of all that is gained"
    return Fact("the gains are in the tail", "p95 4 times the median", ours, verdict, words)


def made_of(read: ClaimInputs) -> Fact:
    """Holds: most of the tail as the paper has it. Partly: only with its own ends counted in."""
    claim, paper = "the tail is lossy and slow: loss above 2.5 %, below 1 Mbit/s", "68 % of tail conditions"
    tensor, gains = read.cells.tensor, fair(read.gain)
    strict: Flags = (tensor.loss > 0.025) & (tensor.bandwidth_kbps < 1000)
    loose: Flags = (tensor.loss >= 0.025) & (tensor.bandwidth_kbps <= 1000)
    if not strict.any():
        return Fact(claim, paper, "-", UNKNOWN, "no condition here is both")
    known = np.sort(_known(gains))
    tail: Flags = gains >= known[-max(len(known) // TAIL_OF, 1)]
    shares = [float((tail & flags[:, None]).sum() / tail.sum()) for flags in (strict, loose)]
    verdict = HOLDS if shares[0] > 0.5 else PARTLY if shares[1] > 0.5 else ABSENT
    common = [f"{100 * flags.mean():.0f} % of all" for flags in (strict, loose)]
    words = (
        f"with 2.5 % and 1 Mbit/s themselves {100 * shares[1]:.0f} % ({common[1]}); the tail, {int(tail.sum())} "
        f"conditions and sites, is {_makeup(read.cells, tail)}; median gain by Mbit/s: {_by_rate(read.cells, gains)}"
    )
    return Fact(claim, paper, f"{100 * shares[0]:.0f} % ({common[0]} are so)", verdict, words)


def _makeup(cells: MeasuredCells, tail: Flags) -> str:
    texts = []
    columns = (("loss %", 100 * cells.tensor.loss), ("Mbit/s", cells.tensor.bandwidth_kbps / 1e3),
               ("RTT ms", cells.tensor.rtt_ms))  # fmt: skip
    for unit, column in columns:
        spread = np.broadcast_to(column[:, None], tail.shape)[tail]
        values, counts = np.unique(spread[~np.isnan(spread)], return_counts=True)
        texts.append(f"{unit}: " + ", ".join(f"{v:g} x{n}" for v, n in zip(values, counts, strict=True)))
    return "; ".join(texts)


def _by_rate(cells: MeasuredCells, gains: Floats) -> str:
    rates = cells.tensor.bandwidth_kbps
    some = [(rate, gains[rates == rate]) for rate in np.unique(rates[~np.isnan(rates)])]
    return ", ".join(f"{rate / 1e3:g}: {100 * float(np.nanmedian(one)):.1f} %" for rate, one in some)


def content_rich(read: ClaimInputs) -> Fact:
    """HC: above 40 %. Holds: the richest sites' share of all gains is above 40 % and above an equal share, with its
    whole interval. Partly: it is, but not beyond doubt."""
    claim = "content-rich sites have most of what is gained"
    paper = f"> {100 * RICH_SHARE:.0f} % of the gains (msn, tmall, espn, qq)"
    sites = read.cells.tensor.sites
    objects = {name: len(page.objects) for name, page in pages().items()}
    if len(sites) <= RICHEST or not set(sites) <= set(objects):
        return Fact(claim, paper, "-", UNKNOWN, f"needs more than {RICHEST} of the shipped sites in one tensor")
    rich = sorted(sites, key=lambda site: objects[site], reverse=True)[:RICHEST]
    gains = np.clip(np.nan_to_num(fair(read.gain)), 0, None)
    pairs = np.stack([gains[:, [site in rich for site in sites]].sum(axis=1), gains.sum(axis=1)], axis=1)
    found, equal = over_conditions(pairs, _share_of_pairs, read.rng), RICHEST / len(sites)
    wanted = max(RICH_SHARE, equal)
    named = ", ".join(f"{one} ({objects[one]})" for one in rich)
    words = (
        f"the {RICHEST} of {len(sites)} sites with most objects: {named}; "
        f"an equal share is {100 * equal:.0f} %; gains as shares of the default's page load time, losses as none"
    )
    return Fact(claim, paper, found.text(), HOLDS if found.low > wanted else PARTLY if found.value > wanted else ABSENT,
                words)  # fmt: skip


def _share_of_pairs(values: Floats) -> Floats:
    """Return the share of the first of each pair in the second, summed over conditions: (draws, n) to (draws,)."""
    part, whole = values.reshape(len(values), -1, 2).sum(axis=1).T
    found: Floats = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return found


def dominance(read: ClaimInputs) -> Fact:
    """Holds: choosing for each condition gains over any one, surely and at every site. Partly: not surely.

    That none is the best everywhere is no sign of it: of many equal ones none is.
    """
    tops = [max(every, key=lambda one: one.best) for every in read.ranked]
    near = [max(every, key=lambda one: one.near) for every in read.ranked]
    left = [_left(read, at) for at in range(len(read.cells.tensor.sites))]
    is_open = any(one.near == 1 for one in near) or not all(gains.low > 0 for _, gains in left)
    verdict = ABSENT if any(top.best == 1 for top in tops) else PARTLY if is_open else HOLDS
    words = first_of_sites(
        read.cells,
        [f"choosing for each condition gains {gains.text()} in the mean over {name}, the one over which it gains least "
         f"(by halves); at most {100 * n.near:.0f} % of conditions within 5 % of the best, by {_name(read, n)}"
         for (name, gains), n in zip(left, near, strict=True)],
    )  # fmt: skip
    ours = f"best in at most {100 * max(top.best for top in tops):.1f} % of conditions"
    return Fact("no configuration strictly dominates", "none", ours, verdict, words)


def _left(read: ClaimInputs, site: int) -> tuple[str, Figure]:
    """What choosing by condition gains over the one configuration that leaves least to gain; its name. By halves."""
    there = np.isfinite(read.cells.ms[:, :, site]).any(axis=1)
    gains = [fair(gained(read.cells, over=at))[there, site] for at in range(len(read.cells.grid))]
    # one that did not load somewhere is no one for all
    means = [float(one.mean()) if np.isfinite(one).all() else np.inf for one in gains]
    least = int(np.argmin(means))
    if not np.isfinite(means[least]):
        return "any", Figure(np.nan, np.nan, np.nan)
    return read.cells.grid.profiles[least].name, over_conditions(gains[least], mean, read.rng)


def coverage(read: ClaimInputs) -> Fact:
    """Holds: the one that is best most often is so in fewer than half of the conditions, at every site."""
    tops = [max(every, key=lambda one: one.best) for every in read.ranked]
    shares = [top.best for top in tops]
    verdict = HOLDS if max(shares) < 0.5 else PARTLY if min(shares) < 0.5 else ABSENT
    words = first_of_sites(read.cells, [f"{_name(read, top)} in {100 * top.best:.1f} %" for top in tops])
    default = [next(one for one in every if one.configuration == read.cells.default) for every in read.ranked]
    words += "; the default in " + ", ".join(f"{100 * one.best:.1f}" for one in default) + " %"
    return Fact("the top configuration is best in a minority of conditions", "37.5 % (a news site)",
                ", ".join(f"{100 * share:.1f} %" for share in shares), verdict, words)  # fmt: skip


def _name(read: ClaimInputs, one: Rank) -> str:
    return read.cells.grid.profiles[one.configuration].name


def congestion_controls(read: ClaimInputs) -> Fact:
    """Holds: as the paper says. With four of them, one is best in a quarter at least."""
    claim, paper = "no congestion control is best for more than a quarter of networks", "25 %"
    values, ms = per_value(read.cells, CC)
    least = ms.min(axis=0)
    best = [float((np.isfinite(least) & (ms[at] == least)).mean()) for at in range(len(values))]
    _, clear = clearly_best(read.cells, CC)
    sure = [float((clear == at).mean()) for at in range(len(values))]
    verdict = HOLDS if max(best) <= 0.25 else ABSENT
    texts = [f"{v} {100 * b:.0f} (sure {100 * s:.0f})" for v, b, s in zip(values, best, sure, strict=True)]
    words = (
        f"of {len(values)} one is best in at least {100 / len(values):.0f} %, so the claim needs more of them than the "
        f"kernel has here; sure where its 95 % interval lies below all others: {100 * (clear >= 0).mean():.0f} % in all"
    )
    return Fact(claim, paper, ", ".join(texts) + " %", verdict, words)


def bbr(read: ClaimInputs) -> Fact:
    """Holds: three times worse in a tenth of the cells. Partly: anywhere."""
    claim, paper = "BBR is far worse than the best in many networks", "3 to 10 times"
    values, ms = per_value(read.cells, CC)
    if "bbr" not in values or len(values) < 2:
        return Fact(claim, paper, "-", UNKNOWN, "no BBR here")
    # where nothing loads no configuration is worse
    ratio = ms[values.index("bbr")] / np.where(np.isfinite(ms).any(axis=0), ms.min(axis=0), np.nan)
    worst = np.unravel_index(int(np.nanargmax(ratio)), ratio.shape)
    many = float((ratio >= MUCH).mean())
    verdict = HOLDS if many >= 0.1 else PARTLY if many else ABSENT
    free = read.cells.tensor.loss == 0
    best = [f"{100 * float((ratio[some] == 1).mean()):.0f} %" if some.any() else "-" for some in (free, ~free)]
    ours = f"at most {ratio[worst]:.2f} times; median {np.nanmedian(ratio):.2f}"
    where = f"{read.cells.tensor.names[worst[0]]}, {read.cells.tensor.sites[worst[1]]}"
    words = (
        f"{100 * many:.1f} % of conditions and sites are {MUCH:g} times worse or more; the worst is {where}; BBR has "
        f"the best in {best[0]} of those without loss, in {best[1]} of those with loss by chance, which it does not "
        "slow down for; each with its best other knobs"
    )
    return Fact(claim, paper, ours, verdict, words)


def knobs(read: ClaimInputs) -> Fact:
    """Holds: in that order, each step sure. Partly: the first one is first. An order of two knobs says nothing."""
    claim, paper = "congestion control matters most, then ICW, then HTTP version, then the others", "in this order"
    names = [one.knob for one in read.heavy]
    if not set(ORDER) <= set(names):
        return Fact(claim, paper, "-", UNKNOWN, f"the tensor varies {', '.join(names) or 'no knob'}")
    right = tuple(names[: len(ORDER)]) == ORDER
    sure = all(step.sure for step in read.apart)
    verdict = HOLDS if right and sure else PARTLY if names[0] == CC else ABSENT
    ours = ", ".join(f"{one.knob} {one.mean.text(unit='')}" for one in read.heavy)
    windows = sorted({int(str(dict(one.settings)["initcwnd"])) for one in read.cells.grid.profiles})
    steps = f"windows here are {windows[0]} to {windows[-1]}; " + "; ".join(
        f"{step.more} over {step.less} {step.difference.text(unit='')}, {'sure' if step.sure else 'not sure'}"
        for step in read.apart
    )
    return Fact(claim, paper, f"{ours} points lost when held", verdict, steps)


def tree(read: ClaimInputs) -> Fact:
    """Holds: a tree errs less, in the mean, than the default and than one configuration for all, at every site."""
    claim, paper = "a tree per site chooses well", "C4.5, no accuracy told (CT: 95.6 %)"
    if not any(read.chosen):
        return Fact(claim, paper, "-", UNKNOWN, "too few conditions to leave one out")
    wins, texts = [], []
    for every, ranked in zip(read.chosen, read.ranked, strict=True):
        if not every:
            texts.append("too few conditions")
            continue
        by = {one.way: one for one in every}
        means = {way: float(by[way].regret.mean()) for way in by}
        wins.append(means[EVERY] < min(means[ONE], means[DEFAULT]))
        near = max(one.near for one in ranked)
        texts.append(
            f"mean regret {100 * means[EVERY]:.1f} %, of a cover's tree {100 * means[COVER]:.1f} %; one for all "
            f"{100 * means[ONE]:.1f} %, default {100 * means[DEFAULT]:.1f} %; it hits the very fastest in "
            f"{100 * by[EVERY].hits:.0f} %; one configuration is within 5 % of the best in {100 * near:.0f} %, so much "
            "no tree need tell apart"
        )
    verdict = HOLDS if all(wins) else PARTLY if any(wins) else ABSENT
    middle = [next(one for one in every if one.way == EVERY) for every in read.chosen if every]
    ours = ", ".join(f"{100 * float(np.median(one.regret)):.1f} %" for one in middle) + " median regret, unseen"
    return Fact(claim, paper, ours, verdict, first_of_sites(read.cells, texts))


def _known(values: Floats) -> Floats:
    found: Floats = values[~np.isnan(values)]
    return found


__all__ = ["Figure", "ClaimInputs", "all_of"]
