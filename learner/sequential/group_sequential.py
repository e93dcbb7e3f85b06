# SPDX-License-Identifier: MIT
"""Group-sequential bounds: a test at a known number of interim analyses whose errors together are the stated one.

Question   A roll-out looks at its loads several times and stops at a known most: how far may an estimate be from zero,
           look by look, so that all looks together are wrong as seldom as one test?
Method     The error is spent by information (1 / variance of the estimate, as a share of what is planned):
           2 (1 - Phi(z(1 - error / 2) / sqrt(share))) one-sided, O'Brien and Fleming's shape: hardly any at the first
           looks. Each look's bound is solved so that the chance of a first crossing there is what the look may spend;
           the density of what has not crossed is carried from look to look by numerical integration (Gauss and
           Legendre's nodes). Estimates of any allocation that is fixed while a test lasts have independent increments
           of information, so that looks need be neither equal nor foreseen.
Stop when  the planned information is reached: that look spends what is left.
Reads as   one bound a look, in standard errors; an estimate less and plus bound x error is an interval, and those of
           all looks hold together (repeated confidence intervals).
Fails as   `ValueError` for information that does not grow, or for more looks than `MOST_LOOKS`.
Differs    ConfigTron pushes a map and tests nothing; NetEdit's roll-out stages have thresholds without a stated error.
Source     Lan and DeMets 1983; O'Brien and Fleming 1979; Armitage, McPherson and Rowe 1969 (recursion); Jennison and
           Turnbull 2000, chapters 2, 7, 9 and 19; Scharfstein, Tsiatis and Robins 1997 (independent increments).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from configtron.learner.columns import Floats

NORMAL = NormalDist()
# Nodes of the quadrature. With 100 looks a step of the walk is a twentieth of the region: fifteen nodes a step.
NODES = 256
# Where the region has no lower bound, it ends so many standard deviations below: what is left out is below 1e-15.
FAR = 8.0
# Looks that one test may have.
MOST_LOOKS = 200
# Halvings of the range 0 to `FAR` that a bound is sought in.
HALVINGS = 45
# What a look may spend below which its bound is not sought: no load is so rare.
LEAST_SPENT = 1e-12


def spent(share: float, error: float) -> float:
    """Return the part of a one-sided error that may be spent by a share, 0 to 1, of the planned information."""
    if share <= 0.0:
        return 0.0
    return 2.0 * (1.0 - NORMAL.cdf(NORMAL.inv_cdf(1.0 - error / 2.0) / float(np.sqrt(min(share, 1.0)))))


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The score of a test that has not crossed by a look: nodes (m,), and at each the density times its weight."""

    information: float
    at: Floats
    weight: Floats


def crossings(
    information: Sequence[float], lower: Sequence[float], upper: Sequence[float], drift: float = 0.0
) -> tuple[Floats, Floats]:
    """Return the chances of a first crossing at each look, below and above.

    information  at each look, growing; lower, upper: bounds in standard errors; drift: the true effect, in the unit
                 whose estimate has the variance 1 / information
    """
    walk, below, above = Walk(0.0, np.zeros(1), np.ones(1)), [], []
    for now, low, high in zip(information, lower, upper, strict=True):
        below.append(_passed(walk, now, low, drift, above=False))
        above.append(_passed(walk, now, high, drift, above=True))
        walk = _onward(walk, now, low, high, drift)
    return np.array(below), np.array(above)


def bounds(shares: Sequence[float], error: float, *, two_sided: bool = False) -> tuple[float, ...]:
    """Return one bound a look, in standard errors, by the shares of the planned information at each; two_sided: either
    side gets half the error, and both bounds end the test."""
    side, walk, before, found = error / 2.0 if two_sided else error, Walk(0.0, np.zeros(1), np.ones(1)), 0.0, []
    if len(shares) > MOST_LOOKS or any(now <= past for past, now in zip((0.0, *shares), shares, strict=False)):
        raise ValueError(f"information must grow, at most {MOST_LOOKS} looks: {tuple(shares)}")
    for share in shares:
        total = spent(share, side)
        bound = _solved(walk, share, total - before)
        found.append(bound)
        walk, before = _onward(walk, share, -bound if two_sided else -np.inf, bound, 0.0), total
    return tuple(found)


def _solved(walk: Walk, information: float, wanted: float) -> float:
    """Return the bound that a first crossing above has the wanted chance at."""
    if wanted < LEAST_SPENT:
        return float("inf")
    low, high = 0.0, FAR
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        more = _passed(walk, information, middle, 0.0, above=True) > wanted
        low, high = (middle, high) if more else (low, middle)
    return high


def _passed(walk: Walk, information: float, bound: float, drift: float, *, above: bool) -> float:
    from scipy.special import ndtr

    step = information - walk.information
    if not np.isfinite(bound):
        return 0.0
    off = (walk.at + drift * step - bound * np.sqrt(information)) / np.sqrt(step)
    return float(walk.weight @ ndtr(off if above else -off))


def _onward(walk: Walk, information: float, low: float, high: float, drift: float) -> Walk:
    """Carry the density of what lies between the bounds, in standard errors, to a look."""
    step, root = information - walk.information, np.sqrt(information)
    centre, deviation = drift * information, root
    first = max(low * root, centre - FAR * deviation)
    last = min(high * root, centre + FAR * deviation)
    if last <= first:
        return Walk(information, np.zeros(1), np.zeros(1))
    nodes, weights = _nodes()
    at = first + (last - first) * (nodes + 1.0) / 2.0
    away = (at[:, None] - walk.at[None, :] - drift * step) / np.sqrt(step)
    density = np.exp(-0.5 * away**2) @ walk.weight / np.sqrt(2.0 * np.pi * step)
    return Walk(information, at, density * weights * (last - first) / 2.0)


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights
