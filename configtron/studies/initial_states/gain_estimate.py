# SPDX-License-Identifier: MIT
"""The simple estimator of gains: exponential growth to MaxCwnd, then constant, over a fixed round trip.

Question   How much sooner would a connection have ended, had it begun with another window?
Method     A connection of N packets that begins with window w sends w, 2w, 4w, ... a round trip, at most its MaxCwnd W,
           until N are sent. Its duration is that number of round trips; a speed-up is Null's over the strategy's.
Reads as   (n,) round trips, (n,) speed-ups; 1 is no gain
Fails as   NaN where packets or windows are unknown
Differs    the paper does not state what a window beyond MaxCwnd costs. By default nothing here beyond W is of use;
           `penalty` adds round trips for it, so that a wrong prediction can cost something (the stress figures).
Source     Applied Learning Networks (ALN), Figures 10 to 19
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Floats

# Doublings after which any window is past 2^30 segments.
MOST_ROUNDS = 31


def round_trips(packets: Floats, first: Floats, most: Floats) -> Floats:
    """Return (n,) round trips to send `packets` from a window of `first`, which doubles up to `most`; segments."""
    window = np.minimum(first, most)
    left, trips = packets.astype(np.float64).copy(), np.zeros(len(packets))
    for _ in range(MOST_ROUNDS):
        growing = (left > 0) & (window < most)
        if not growing.any():
            break
        left[growing] -= window[growing]
        trips[growing] += 1
        window = np.where(growing, np.minimum(2 * window, most), window)
    rest = np.maximum(left, 0.0)
    found: Floats = trips + np.ceil(rest / window)
    return np.where(np.isnan(packets + first + most), np.nan, found)


def speed_up(packets: Floats, null: Floats, first: Floats, most: Floats, penalty: float = 0.0) -> Floats:
    """Return (n,) Null's round trips over those of a strategy that begins with `first`.

    penalty   round trips that a first window beyond `most` costs
    """
    trips = round_trips(packets, first, most) + penalty * (first > most)
    found: Floats = round_trips(packets, null, most) / trips
    return found
