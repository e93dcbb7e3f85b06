# SPDX-License-Identifier: MIT
"""Sample ratio: whether as many loads are reported of each arm as its share of the draw asks for.

Question   Are the loads that arrived those that were drawn, or did an arm lose some of its own?
Method     Compare the units (client and epoch) of each arm with the weights that they were drawn by: at one look by
           Pearson's chi-square. Read at every look it would be wrong ever more often, so roll-outs use the mixture of
           all shares instead (Dirichlet, centred at the weights), whose inverse is a p-value that holds at all times.
Stop when  counted.
Reads as   a p-value; below `ERROR` the ratio is broken and nothing is claimed.
Fails as   p = 1 where nothing is reported, or only one arm is drawn.
Differs    ConfigTron compares whatever was reported.
Source     Pearson 1900; Fabijan et al. 2019 (sample ratio mismatch); Lindon and Malek 2022 (multinomial mixtures that
           hold at all times).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log

import numpy as np

from configtron.learner.columns import Floats

# Error of one check: it stops every claim, and it is made once a look for as long as the holdback lives.
ERROR = 0.001
# Units that the mixture's centre counts for: shares that are off by about 1 / sqrt(this), a tenth, are found first.
STRENGTH = 100.0
# Expected units of an arm below which chi-square is not near its distribution.
LEAST_EXPECTED = 5.0


def by_strata(strata: Sequence[tuple[Sequence[int], Sequence[float]]]) -> tuple[float, int]:
    """Return Pearson's p-value of several draws together, each of units (k,) with weights (k,), and the units that it
    rests on: 0 where no draw had enough of them.

    Weights are shares of the whole draw: if they sum to less than 1, the rest is the share of arms without any unit.
    """
    total, freedom, rests_on = 0.0, 0, 0
    for units, weights in strata:
        counts, expected = _cells(np.asarray(units, dtype=np.float64), np.asarray(weights, dtype=np.float64))
        if len(counts) > 1:
            total += float(((counts - expected) ** 2 / expected).sum())
            freedom += len(counts) - 1
            rests_on += sum(units)
    return _beyond(total, freedom) if freedom else 1.0, rests_on


def _cells(counts: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return units and expected units of a draw's cells. Arms of few expected units and arms without any unit
    share one cell, so that a rare arm does not keep the others from being compared."""
    expected = counts.sum() * weights / max(float(weights.sum()), 1.0)
    rare = expected < LEAST_EXPECTED
    rest = float(counts.sum() - expected[~rare].sum())
    counts, expected, few = counts[~rare], expected[~rare], float(counts[rare].sum())
    if rest >= LEAST_EXPECTED:
        return np.append(counts, few), np.append(expected, rest)
    if not len(counts):
        return counts, expected
    least = int(expected.argmin())
    counts[least], expected[least] = counts[least] + few, expected[least] + rest
    return counts, expected


def at_all_times(units: Sequence[int], weights: Sequence[float]) -> float:
    """Return a p-value of units (k,) against the weights that they were drawn by, which holds however often it is
    read; take the smallest of all looks."""
    total = float(sum(weights))
    shares = [weight / total for weight in weights]
    if any(count and not share for count, share in zip(units, shares, strict=True)):
        return 0.0
    n, found = sum(units), lgamma(STRENGTH) - lgamma(STRENGTH + sum(units))
    if not n:
        return 1.0
    for count, share in zip(units, shares, strict=True):
        if share:
            found += lgamma(STRENGTH * share + count) - lgamma(STRENGTH * share) - count * log(share)
    return min(1.0, exp(-found)) if found < 700.0 else 0.0


def _beyond(chi_square: float, freedom: int) -> float:
    from scipy.special import gammaincc

    return float(gammaincc(freedom / 2.0, chi_square / 2.0))
