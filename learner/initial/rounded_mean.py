# SPDX-License-Identifier: MIT
"""From a distribution over bins to the value that is used: its mean, rounded low, high or to the nearest.

Question   Which bin does a predicted distribution stand for?
Method     The mean of the bins' numbers; low is the bin at or below it, high the one at or above it, round the nearest
           (half up). The likeliest bin, which counts exact hits in a classifier's own terms, is beside them.
Reads as   (n,) bins; `BinMap.of_bins` makes values of them
Source     Applied Learning Networks (ALN), strategies PredMean
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats

LOW, HIGH, NEAREST, LIKELIEST = ROUNDINGS = ("low", "high", "round", "likeliest")
# A mean that is a whole number but for the digits of a sum.
DIGITS = 9


def bin_of(shares: Floats, rounding: str) -> Codes:
    """Return (n,) the bin of each of (n, bins) distributions, by one of `ROUNDINGS`."""
    if rounding == LIKELIEST:
        return np.asarray(shares.argmax(axis=1), dtype=np.int64)
    mean = np.round(shares @ np.arange(shares.shape[1]), DIGITS)
    if rounding == NEAREST:
        mean = mean + 0.5
    whole = np.ceil(mean) if rounding == HIGH else np.floor(mean)
    return whole.astype(np.int64)
