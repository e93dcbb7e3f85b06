# SPDX-License-Identifier: MIT
"""How often a page is loaded until the median of its load time is known, and how well it is known then.

Question   After so many loads of one cell, is the median known within a tenth, or must there be more?
Method     Order statistics: of n independent loads, the j-th fastest and the j-th slowest enclose the true median but
           for a chance of 2 P(B < j), B binomial (n, 1/2), whatever the distribution is. Looking several times and
           stopping when it looks good would cheat; so the chance of being wrong, 5 %, is spent over the looks once for
           all (`ranks`): whenever we stop, and at whichever look, the interval misses with at most 5 %.
Stop when  a look finds both ends of its interval within `tolerance` of the median, or at the last look.
Reads as   a `Verdict`: median, interval, and what keeps it from being settled.
Fails as   few-loads (too few for any interval of 95 %: less than six), wide-interval, or, where so many loads failed
           that the median did, the reason of most of them. A failed load counts as slower than all others.
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

    looks       numbers of loads after which the interval is looked at; the last is where it ends in any case
    tolerance   of the median, for both ends of the interval
    error       chance, over all looks, that the interval reported does not hold the median
    """

    # Six is the least that has an interval of 95 %; doubling twice bounds what a restless cell may cost.
    looks: tuple[int, ...] = (6, 12, 24)
    # What the paper's gains of 10 to 20 per cent need to be seen.
    tolerance: float = 0.1
    # By convention.
    error: float = 0.05

    def __post_init__(self) -> None:
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < 1:
            raise BadInput(f"repeats: looks {self.looks} must rise from 1 on")

    def more(self, plt_ms: Sequence[float]) -> int:
        """How many loads to do before the next look; 0: it is enough. A failed load is `math.inf`."""
        later = [look for look in self.looks if look > len(plt_ms)]
        if not later or len(plt_ms) in self.looks and judge(plt_ms, self).settled:
            return 0
        return later[0] - len(plt_ms)


class Verdict(NamedTuple):
    """What loads of one cell say. low_ms and high_ms: the interval, None where there is none; flag: "" when settled."""

    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    loads: int
    flag: str

    @property
    def settled(self) -> bool:
        """Whether the median is known as well as the rule demands."""
        return not self.flag


def judge(plt_ms: Sequence[float], rule: StoppingRule, reasons: Sequence[str] = ()) -> Verdict:
    """The verdict on page load times in the order they were measured; `reasons` are those of the failed, as many."""
    count, ordered = len(plt_ms), sorted(plt_ms)
    found = middle(ordered) if ordered else math.inf
    # between a load and a failed one lies no number
    if math.isinf(found):
        flag = Counter(reasons).most_common(1)[0][0] if reasons else FEW
        return Verdict(None, None, None, count, flag)
    rank = _rank(count, rule)
    if not rank:
        return Verdict(found, None, None, count, FEW)
    low, high = ordered[rank - 1], ordered[count - rank]
    near = max(found - low, high - found) <= rule.tolerance * found
    return Verdict(found, low, None if math.isinf(high) else high, count, "" if near else WIDE)


def _rank(count: int, rule: StoppingRule) -> int:
    """The rank that an interval of so many loads may use; 0: there is none. Between looks, that of the look before."""
    # more loads at the same rank only err less on a wider interval, so the rank of the look before is safe
    passed = [rank for look, rank in zip(rule.looks, ranks(rule.looks, rule.error), strict=True) if look <= count]
    return passed[-1] if passed else 0


@cache
def ranks(looks: tuple[int, ...], error: float) -> tuple[int, ...]:
    """For each look the largest rank whose chance of missing fits into an equal share of what is left of the error.

    The first look takes the least that it can (rank 1) even if that is more than its share; 0 where nothing fits.
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
    """The chance that the rank-th fastest and the rank-th slowest of so many loads do not enclose the median."""
    return min(1.0, 2.0 * sum(math.comb(count, k) for k in range(rank)) / 2.0**count)
