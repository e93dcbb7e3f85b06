# SPDX-License-Identifier: MIT
"""Figures over a few runs: a mean with its interval, an ellipse, an index of shares. Pure.

Question   When a trial is run a few times, what is known of its mean, and how do two of its figures vary together?
Method     Student's interval of the mean, at 95 %, from the runs' own spread. The ellipse is that of one standard
           deviation of the runs, along the axes of their covariance, as Pantheon draws it. Jain's index of n shares is
           (sum)^2 / (n sum of squares): 1 when all are equal, 1/n when one has all.
Fails as   None where there is no figure: no run, an interval of one run, shares that are all zero.
Source     Student 1908; Jain, Chiu, Hawe 1984 (DEC-TR-301); Stephens, JRSS B 1970; Pantheon
           (Yan and others 2018), Figure 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

from configtron.model.student import student

# Digits of Student's t, as in printed tables: figures that were printed before stay as they are.
DIGITS = 3
# Below this Kolmogorov's series has not come to its limit after a hundred terms, and p is 1 to four digits.
LEAST_DISTANCE = 0.3
# Corners of an ellipse: it looks round.
CORNERS = 36


def mean(values: Sequence[float]) -> float | None:
    """Of the numbers among them."""
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else None


def margin(values: Sequence[float]) -> float | None:
    """Half the 95 % interval of their mean."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return None
    return round(student(len(known) - 1), DIGITS) * stdev(known) / math.sqrt(len(known))


def ellipse(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """One standard deviation around the mean of these points, corner by corner; nothing for fewer than two."""
    if len(points) < 2:
        return []
    known = np.array(points, dtype=np.float64)
    lengths, axes = np.linalg.eigh(np.cov(known, rowvar=False))
    turns = np.linspace(0, 2 * math.pi, CORNERS, endpoint=False)
    # a covariance of equal runs may be a hair below zero
    around = np.stack([np.cos(turns), np.sin(turns)], axis=1) * np.sqrt(np.maximum(lengths, 0))
    return [(float(x), float(y)) for x, y in around @ axes.T + known.mean(axis=0)]


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index of these shares."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else None


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the greatest; equal values share the mean of theirs."""
    return [1 + sum(other > value for other in values) + (values.count(value) - 1) / 2 for value in values]


def agreement(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's correlation of two rankings of the same things; None where either has no order."""
    one, two = np.array(ranks(first)), np.array(ranks(second))
    if one.std() == 0 or two.std() == 0:
        return None
    return float(np.corrcoef(one, two)[0, 1])


def kolmogorov(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the largest distance of two samples' distributions, and p: how often equal ones are as far apart.

    Kolmogorov's limit with Stephens's correction for small samples, within 0.01 from ten values on.
    """
    one, two = np.sort(first), np.sort(second)
    every = np.concatenate([one, two])
    far = np.abs(
        np.searchsorted(one, every, "right") / len(one) - np.searchsorted(two, every, "right") / len(two)
    ).max()
    size = math.sqrt(len(one) * len(two) / (len(one) + len(two)))
    at = (size + 0.12 + 0.11 / size) * far
    p = 2 * sum((-1) ** (n - 1) * math.exp(-2 * (n * at) ** 2) for n in range(1, 101))
    return float(far), 1.0 if at < LEAST_DISTANCE else min(max(p, 0.0), 1.0)
