# SPDX-License-Identifier: MIT
"""Orders of pairs of schemes that papers state in words, beside the orders measured here. Pure.

Question   Do the schemes here stand to each other as their authors' programs did?
Method     Each pair is one that a paper states: the first has less delay than the second. On a path, Kendall's tau over
           the pairs that were measured there is
               tau = (pairs in the stated order - pairs in the other order) / pairs
           which is Kendall's own where the pairs are all those of one order. The figure is the mean of paths; its 95 %
           interval is of bootstrap samples of paths, since a path's pairs share their runs.
Reads as   1: every pair as stated, -1: every pair the other way, 0: as by chance. Pairs within a hundredth are ties.
Differs    from a comparison of ranks in Pantheon's own tables: none is published as numbers in a paper, and its archive
           of reports is not to be had any more. What is compared are statements in words, so this is few pairs.
Source     Kendall 1938; the statements: `PUBLISHED`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Fact

# Delays nearer than this share are equal, as powers are.
TIE = 0.01
SAMPLES, SEED = 2000, 1
# The interval of few paths that agree has no width: on fewer than this, all alike may be chance (2 * 0.5 ** 6 = 3 %).
LEAST_PATHS = 6


class StatedPair(NamedTuple):
    """The first has less delay than the second, by this source."""

    less: str
    more: str
    source: str


COPA = "Copa, NSDI 2018, abstract"
PUBLISHED = (
    StatedPair("copa", "cubic", COPA),
    StatedPair("copa", "bbr", COPA),
    StatedPair("copa", "allegro", COPA),
    StatedPair("vivace", "allegro", "Vivace, NSDI 2018, section 1"),
    StatedPair("verus", "cubic", "Verus, SIGCOMM 2015, abstract"),
)
Delays = Mapping[str, Mapping[str, float]]


def tau(pairs: Sequence[StatedPair], delays: Mapping[str, float]) -> float | None:
    """Return Kendall's tau of one path's delays, ms by scheme; None where no pair was measured."""
    signs = [
        0.0
        if abs(delays[one.more] / delays[one.less] - 1) < TIE
        else float(np.sign(delays[one.more] - delays[one.less]))
        for one in pairs
        if one.less in delays and one.more in delays
    ]
    return fmean(signs) if signs else None


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean by bootstrap samples of these values, one a path."""
    rng = np.random.default_rng(SEED)
    means = rng.choice(np.asarray(values), (SAMPLES, len(values))).mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def agreement_fact(delays: Delays, pairs: Sequence[StatedPair] = PUBLISHED) -> Fact:
    """Compare the stated pairs with the delays by path and scheme, ms."""
    claim, paper = "pairs of schemes have the order of delay that their papers state", "in words"
    taus = [found for row in delays.values() if (found := tau(pairs, row)) is not None]
    if not taus:
        return Fact(claim, paper, "-", UNKNOWN, "no stated pair was measured")
    low, high = interval(taus)
    verdict = HOLDS if low > 0 and len(taus) >= LEAST_PATHS else PARTLY if fmean(taus) > 0 else ABSENT
    met = [pair for pair in pairs if any(pair.less in row and pair.more in row for row in delays.values())]
    words = "; ".join(_by_paths(pair, delays) for pair in met)
    ours = f"Kendall's tau {fmean(taus):.2f} [{low:.2f}, {high:.2f}]"
    return Fact(claim, paper, ours, verdict, f"over {len(taus)} paths, as stated on: {words}")


def _by_paths(pair: StatedPair, delays: Delays) -> str:
    rows = [row for row in delays.values() if pair.less in row and pair.more in row]
    stated = sum(tau([pair], row) == 1 for row in rows)
    return f"{pair.less} below {pair.more} {stated} of {len(rows)} ({pair.source})"
