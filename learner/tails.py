# SPDX-License-Identifier: MIT
"""The mean of page load times with a heavy tail: the mean of loads beyond a bound, and its interval.

Question   What is the mean of ratios (load over what a model expects) when a few of them carry most of it?
Method     The largest fiftieth of the ratios is the tail; its smallest is the bound u. Beyond u a Pareto tail is fitted
           by Hill's estimator; its mean u alpha / (alpha - 1) stands in place of each ratio beyond. So how long
           one load takes does not decide (the weight that it met may: `doubly.py`), and nothing is cut off: a trimmed
           mean would be another target. alpha's interval is a gamma's.
Stop when  computed.
Reads as   bound, mean beyond it with its interval, share beyond it. Without a tail (few ratios, or equal ones) the
           share is 0.
Fails as   a mean that is infinite: alpha is 1 or less. An upper end that is infinite: alpha may be 1. Where the tail's
           exponent depends on network or configuration, the pooled one is too light for some of them.
Differs    CT takes medians and means of the measured loads; HC removes outliers.
Source     Hill 1975 (exponent); Embrechts, Klueppelberg and Mikosch 1997, 6.4 (means by a fitted tail).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Floats

# Share of ratios that is the tail, and the fewest and most that an exponent is fitted to.
TAIL_SHARE, LEAST_TAIL, MOST_TAIL = 0.02, 20, 1000
# Of all ratios at most this share is tail: of fewer than 200 none is.
MOST_SHARE = 0.1
# Exponent above which a tail adds nothing to its bound: lighter ones are equal ratios.
LIGHTEST = 1e3
# Probability below either end of the exponent's interval.
BELOW = 0.025


@dataclass(frozen=True, slots=True)
class Tail:
    """Ratios beyond `bound` (a ratio, no unit), `count` of them; `mean`, `low` and `high` are of their mean."""

    bound: float
    mean: float
    low: float
    high: float
    count: int

    def smoothed(self, ratio: Floats) -> Floats:
        """Return (n,) the ratios, with the tail's mean in place of those beyond the bound."""
        return np.where(ratio > self.bound, self.mean, ratio)

    def beyond(self, inside: npt.NDArray[np.bool_]) -> Floats:
        """Return (n,) the mean excess over the bound for ratios in the tail, (n,) `inside`; 0 for others."""
        return np.where(inside, self.mean - self.bound, 0.0) if self.count else np.zeros(len(inside))


NO_TAIL = Tail(np.inf, 0.0, 0.0, 0.0, 0)


def tail_of(ratio: Floats) -> Tail:
    """Return the tail of (n,) positive ratios."""
    from scipy.special import gammaincinv

    k = int(min(max(TAIL_SHARE * len(ratio), LEAST_TAIL), MOST_TAIL))
    if k > MOST_SHARE * len(ratio):
        return NO_TAIL
    bound = float(np.partition(ratio, len(ratio) - k - 1)[len(ratio) - k - 1])
    beyond = ratio[ratio > bound]
    if not len(beyond):
        return NO_TAIL
    logs = np.log(beyond / bound)
    count, total = len(beyond), max(float(logs.sum()), len(beyond) / LIGHTEST)
    # 2 alpha (sum of logs) is a chi-square of 2 k degrees: a gamma of shape k.
    low, high = (float(gammaincinv(count, at)) / total for at in (BELOW, 1.0 - BELOW))
    return Tail(bound, _mean(bound, count / total), _mean(bound, high), _mean(bound, low), count)


def _mean(bound: float, alpha: float) -> float:
    return bound * alpha / (alpha - 1.0) if alpha > 1.0 else np.inf
