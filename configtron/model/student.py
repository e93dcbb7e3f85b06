# SPDX-License-Identifier: MIT
"""Student's t: its quantiles, by which intervals are made.

Rules for this file: `student` needs the standard library alone, since the lab has no scipy. Source: Student 1908;
Abramowitz and Stegun 1964, 26.7.3 and 26.7.4 (the distribution as a finite sum for whole degrees of freedom).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

# Probability within a two-sided interval.
WITHIN = 0.95
# A double's digits: halving an interval more often moves nothing.
HALVINGS = 80


@lru_cache(maxsize=256)
def student(degrees: int) -> float:
    """Return how many standard errors to either side of a mean its 95 % interval reaches, by degrees of freedom, at
    least 1."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < WITHIN:
        high *= 2.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, degrees) < WITHIN else (low, middle)
    return (low + high) / 2.0


def student_quantile(freedom: npt.NDArray[np.float64] | float, share: float) -> npt.NDArray[np.float64]:
    """Return the quantile of a share for each of any degrees of freedom, shaped as `freedom`."""
    # scipy is an extra: what imports this file runs without it
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, share), dtype=np.float64)


def _within(t: float, degrees: int) -> float:
    """Probability that a t of so many degrees of freedom is between -t and t."""
    angle = math.atan2(t, math.sqrt(degrees))
    square, odd = math.cos(angle) ** 2, degrees % 2
    term = math.cos(angle) if odd else 1.0
    terms = [term] if degrees > 1 else []
    for at in range(2 + odd, degrees - 1, 2):
        term *= square * (at - 1) / at
        terms.append(term)
    found = math.sin(angle) * math.fsum(terms)
    return 2.0 / math.pi * (angle + found) if odd else found
