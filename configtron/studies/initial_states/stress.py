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
from configtron.learner.initial.initial_strategies import MOST_INITIAL, STRATEGIES, effective
from configtron.learner.initial.quantisation import MAX_CWND, target_bins
from configtron.studies.initial_states.gain_estimate import speed_up

# What a prediction is multiplied by, and how many bins it is off.
FACTORS = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0)
BINS_OFF = (-4, -3, -2, -1, 0, 1, 2, 3, 4)
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
    true = target_bins(states, MAX_CWND.name)
    found = []
    for penalty in (0.0, PENALTY):
        for share in SHARES:
            bins = np.where(rng.random(len(states)) < share, true, rng.integers(len(MAX_CWND.values), size=len(states)))
            # the value of the true bin may lie above the true window, which is no mistake of the prediction
            values = np.where(bins == true, states.max_cwnd, MAX_CWND.of_bins(bins))
            found.append(_predicted(f"{share:.1f}", penalty, values, states, rng))
    return found


def misscaled(states: EndStates, rng: np.random.Generator) -> list[EstimatedGain]:
    """Return the gain where every prediction is MaxCwnd times one of `FACTORS`, without and with a penalty."""
    return [
        _predicted(f"{factor:g}", penalty, factor * states.max_cwnd, states, rng)
        for penalty in (0.0, PENALTY) for factor in FACTORS
    ]  # fmt: skip


def misplaced(states: EndStates, rng: np.random.Generator) -> list[EstimatedGain]:
    """Return the gain where every prediction is so many of `BINS_OFF` from the true bin, without and with a penalty."""
    true, last = target_bins(states, MAX_CWND.name), len(MAX_CWND.values) - 1
    found = []
    for penalty in (0.0, PENALTY):
        for off in BINS_OFF:
            bins = np.clip(true + off, 0, last)
            values = np.where(bins == true, states.max_cwnd, MAX_CWND.of_bins(bins))
            found.append(_predicted(f"{off:+d}" if off else "0", penalty, values, states, rng))
    return found


def _predicted(name: str, penalty: float, values: Floats, states: EndStates, rng: np.random.Generator) -> EstimatedGain:
    """Return the gain of connections that begin with these (n,) predicted windows."""
    null, first = np.full(len(states), float(DEFAULT_WINDOW)), np.clip(np.rint(values), 1, MOST_INITIAL)
    gains = speed_up(states.packets_out, null, first, states.max_cwnd, penalty)
    return with_interval(name, penalty, gains, states.prefix, rng)
