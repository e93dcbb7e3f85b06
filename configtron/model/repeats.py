# SPDX-License-Identifier: MIT
"""How often to load a page until the median of its load time is known, and the interval that holds the median.

Question   After so many loads of one cell, is the median known within a tenth, or are more loads needed?
Method     Order statistics: of n independent loads, the j-th fastest and the j-th slowest enclose the true median
           except with probability 2 P(B < j), B binomial (n, 1/2), for any distribution. Several looks with a stop at
           the first good one would raise the error; so the looks share the error of 5 % (`ranks`): the interval misses
           the median with at most 5 %, at every look where the rule stops.
Stop when  a look finds both ends of its interval within `tolerance` of the median, or at the last look.
Reads as   a `Verdict`: median, interval, and the reason why it is not settled.
Fails as   few-loads (too few for any interval of 95 %: less than six), wide-interval, or, where the median load is one
           that failed, the most frequent reason. A failed load counts as slower than all others.
Differs    from CT and HC, which load five times: five loads have no interval of 95 % (94 % at best), and the median of
           five was off by a quarter to two fifths for HTTP/2 with loss-based congestion control on a lossy link.
Source     David and Nagaraja, Order Statistics, 7.1; Bonferroni's inequality over the looks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median as middle
from typing import NamedTuple

from configtron.model.errors import BadInput

FEW, WIDE = "few-loads", "wide-interval"


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When to stop.

    looks       numbers of loads after which the rule computes the interval; it ends at the last in any case
    tolerance   largest distance of both ends of the interval from the median, as a share of the median
    error       probability, over all looks, that the reported interval misses the median
    """

    # Six is the least number with an interval of 95 %; doubling twice bounds the cost of a cell with a wide spread.
    looks: tuple[int, ...] = (6, 12, 24)
    # Precise enough for the paper's gains of 10 to 20 per cent.
    tolerance: float = 0.1
    # By convention.
    error: float = 0.05

    def __post_init__(self) -> None:
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < 1:
            raise BadInput(f"repeats: looks {self.looks} must rise from 1 on")

    def more(self, plt_ms: Sequence[float]) -> int:
        """Return how many loads to do before the next look; 0 where no more are needed. A failed load is `math.inf`."""
        later = [look for look in self.looks if look > len(plt_ms)]
        if not later or len(plt_ms) in self.looks and judge(plt_ms, self).settled:
            return 0
        return later[0] - len(plt_ms)


class Verdict(NamedTuple):
    """The median of a cell's loads. low_ms and high_ms: its interval, None where none exists; flag: "" when settled."""

    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    loads: int
    flag: str

    @property
    def settled(self) -> bool:
        """Return whether the interval of the median is as narrow as the rule demands."""
        return not self.flag


def judge(plt_ms: Sequence[float], rule: StoppingRule, reasons: Sequence[str] = ()) -> Verdict:
    """Return the verdict on page load times, in the order of measurement; `reasons`: one for each failed load."""
    count, ordered = len(plt_ms), sorted(plt_ms)
    found = middle(ordered) if ordered else math.inf
    # also if one of two middle loads failed: no number lies between a finished load and a failed one
    if math.isinf(found):
        flag = Counter(reasons).most_common(1)[0][0] if reasons else FEW
        return Verdict(None, None, None, count, flag)
    # between looks the earlier look's rank is safe: with more loads its interval is wider and misses less often
    passed = [at for look, at in zip(rule.looks, ranks(rule.looks, rule.error), strict=True) if look <= count]
    rank = passed[-1] if passed else 0
    if not rank:
        return Verdict(found, None, None, count, FEW)
    low, high = ordered[rank - 1], ordered[count - rank]
    near = max(found - low, high - found) <= rule.tolerance * found
    return Verdict(found, low, None if math.isinf(high) else high, count, "" if near else WIDE)


@cache
def ranks(looks: tuple[int, ...], error: float) -> tuple[int, ...]:
    """Return for each look the largest rank whose chance to miss fits into an equal share of the remaining error.

    The first look takes rank 1 even if that costs more than its share; 0 where no rank fits.
    """
    left = error
    found: list[int] = []
    for position, look in enumerate(looks):
        share = left / (len(looks) - position)
        if misses(look, 1) <= left:
            share = max(share, misses(look, 1)) if not any(found) else share
        rank = 0
        while misses(look, rank + 1) <= share:
            rank += 1
        left -= misses(look, rank) if rank else 0.0
        found.append(rank)
    return tuple(found)


def misses(count: int, rank: int) -> float:
    """Return the chance that the rank-th fastest and the rank-th slowest of so many loads miss the median."""
    return min(1.0, 2.0 * sum(math.comb(count, k) for k in range(rank)) / 2.0**count)
