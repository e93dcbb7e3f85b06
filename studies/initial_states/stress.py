# SPDX-License-Identifier: MIT
"""The estimator's gains over transfers that were measured, and how wrong predictions may be.

Question   Which gain does the simple estimator promise for each strategy, and how exact must MaxCwnd be for any?
Method     Null's transfers give packets and MaxCwnd; the estimator (`gain_estimate.py`) counts round trips from each
           strategy's first window. Under stress a share of predictions is the true bin and all others are drawn evenly
           from all bins; a window beyond MaxCwnd costs nothing (as in the estimator) or `PENALTY` round trips.
Reads as   mean gains with 95 % intervals of a bootstrap over prefixes
Differs    the paper does not state how its wrong predictions were drawn
Source     Applied Learning Networks (ALN), Figures 10 to 19
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import DEFAULT_WINDOW, EndStates, Names
from configtron.learner.initial.gain_estimate import speed_up
from configtron.learner.initial.initial_strategies import MOST_INITIAL, STRATEGIES, effective
from configtron.learner.initial.quantisation import MAX_CWND, target_bins

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Round trips: a lost first flight waits for one, and is sent in another.
PENALTY = 2.0
RESAMPLES = 400


class EstimatedGain(NamedTuple):
    """name: a strategy, or a share of exact predictions; penalty: round trips of a window beyond MaxCwnd."""

    name: str
    penalty: float
    mean: float
    low: float
    high: float


def estimated(states: EndStates, windows: Codes, penalty: float = 0.0) -> Floats:
    """Return (n, strategies) estimated speed-ups of Null's connections by each strategy's windows, 0: the default."""
    null = np.full(len(states), float(DEFAULT_WINDOW))
    firsts = effective(windows).astype(np.float64)
    columns = [speed_up(states.packets_out, null, firsts[:, at], states.max_cwnd, penalty)
               for at in range(len(STRATEGIES))]  # fmt: skip
    return np.column_stack(columns)


def with_interval(name: str, penalty: float, gains: Floats, prefixes: Names, rng: np.random.Generator) -> EstimatedGain:
    """Return the mean of (n,) gains with its interval, clustered by prefix."""
    blocks = [gains[prefixes == one] for one in np.unique(prefixes)]
    sums, counts = np.array([one.sum() for one in blocks]), np.array([len(one) for one in blocks])
    picks = rng.integers(len(blocks), size=(RESAMPLES, len(blocks)))
    low, high = np.percentile(sums[picks].sum(axis=1) / counts[picks].sum(axis=1), [2.5, 97.5])
    return EstimatedGain(name, penalty, float(gains.mean()), float(low), float(high))


def stressed(states: EndStates, rng: np.random.Generator) -> list[EstimatedGain]:
    """Return the gain at each share of exact predictions, without and with a penalty."""
    true, null = target_bins(states, MAX_CWND.name), np.full(len(states), float(DEFAULT_WINDOW))
    found = []
    for penalty in (0.0, PENALTY):
        for share in SHARES:
            bins = np.where(rng.random(len(states)) < share, true, rng.integers(len(MAX_CWND.values), size=len(states)))
            # the value of the true bin may lie above the true window, which is no mistake of the prediction
            values = np.where(bins == true, states.max_cwnd, MAX_CWND.of_bins(bins))
            first = np.clip(np.rint(values), 1, MOST_INITIAL)
            gains = speed_up(states.packets_out, null, first, states.max_cwnd, penalty)
            found.append(with_interval(f"{share:.1f}", penalty, gains, states.prefix, rng))
    return found
