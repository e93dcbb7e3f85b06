# SPDX-License-Identifier: MIT
"""What is known of each prefix's and each network's own window, as whole distributions on a grid.

Question   Where may a path's window lie, where most connections show a lower bound, and some show a window that is
           off by a factor of the path's own?
Method     A network has a value, drawn from a t distribution around the level; a prefix its network's, by a normal
           one; each on a grid of ln(window) beside what round trip, class and hour explain. A prefix's likelihood is
           the product of its connections': a bound is the chance to lie beyond it, and known windows are one
           measurement, their mean, which is off by the path's own factor (`slack`): so thousands of them do not make a
           path surer than one factor. Networks hear of a prefix by what its likelihood says of them, with a chance of
           `LIAR` that it says nothing, and no steeper than Huber's `PULL`. Spreads between networks and between
           prefixes are fitted by expectation and maximisation, with a prior (`NETWORKS_BEFORE`, `PREFIXES_BEFORE`).
Reads as   `PathPoints`: `POINTS` equally likely values a prefix and a network, and the spreads
Fails as   nothing: a prefix without a connection that shows anything has its network's values
Differs    from the mode and its curvature: of lower bounds alone the distribution above them is as wide as that of
           other networks, where the curvature at its lower end is narrow.
Source     Efron and Morris (1973); Tukey, A survey of sampling from contaminated distributions (1960)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_windows import WindowLimits

# The grid around the level, ln(window).
REACH, STEP = 7.5, 0.125
# Prior of a spread: so many groups of such a variance. Rates of networks differ by a hundred times, of prefixes by two.
NETWORKS_BEFORE, PREFIXES_BEFORE = (8.0, 1.8), (4.0, 0.1)
# Degrees of freedom of networks' values.
FREEDOM = 4.0
LIAR, LEAST_CHANCE, PULL = 0.02, 1e-6, 1.345
ROUNDS, POINTS = 10, 15
# Prior of the variance of one path's connections: so many connections; and as how many a prefix counts.
CONNECTIONS_BEFORE, MOST_CONNECTIONS = (10.0, 0.05), 20.0
# A prefix's square beyond so many variances counts as so many.
MOST_SQUARES = 6.0


class PathPoints(NamedTuple):
    """prefixes (p, POINTS), networks (m, POINTS): equally likely values of ln(window); `level` is the networks' middle,
    the others variances between networks and between a network's prefixes."""

    prefixes: Floats
    networks: Floats
    level: float
    between_networks: float
    between_prefixes: float


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """(p, grid) likelihoods of prefixes; (p,) network of each; (grid,) values; variance of a path's own factor;
    whether a prefix's influence has an end."""

    like: Floats
    network: Codes
    grid: Floats
    slack: float
    bounded: bool

    def heard(self, kernel: Floats, before: float) -> Floats:
        """Return (p, grid) logarithms of what each prefix says of its network's value."""
        liar = LIAR if self.bounded else LEAST_CHANCE
        logs = np.log((1.0 - liar) * self.like @ kernel.T + liar * self.like.mean(axis=1, keepdims=True))
        return _gentle(logs, PULL / (before + self.slack) ** 0.5) if self.bounded else np.asarray(logs)

    def points(self, chances: Floats) -> Floats:
        """Return (n, POINTS) equally likely values of (n, grid) chances."""
        whole = np.cumsum(chances, axis=1)
        shares = (np.arange(POINTS) + 0.5) / POINTS
        return np.array([np.interp(shares * row[-1], row, self.grid + STEP / 2) for row in whole])


def path_points(limits: WindowLimits, base: Floats, prefix: Codes, network: Codes, spare: tuple[float, float, float],
                *, bounded: bool) -> PathPoints:  # fmt: skip
    """Return what is known of all prefixes and networks.

    base     (n,) of each connection: what its round trip, class and hour explain
    prefix   (n,) of each connection; network: (p,) of each prefix
    spare    level to begin with, variance of a path's connections, variance of a path's own factor
    bounded  whether one prefix's influence on its network has an end
    """
    level, noise, slack = spare
    grid = level + np.arange(-REACH, REACH + STEP / 2, STEP)
    places = _Places(_likelihoods(limits, base, prefix, grid, (noise, slack)), network, grid, slack, bounded)
    networks, before = NETWORKS_BEFORE[1], PREFIXES_BEFORE[1]
    for _ in range(ROUNDS):
        of_networks, beside, level, networks, before = _improved(places, level, networks, before)
    of_prefixes = beside @ _kernel(grid, before) * places.like
    return PathPoints(places.points(of_prefixes), places.points(of_networks), level, networks, before)


def noise_of(limits: WindowLimits, base: Floats, prefix: Codes) -> float:
    """Return the variance of ln(window) of one path's connections: of those whose window is known, within prefixes,
    with a prior; one prefix counts as `MOST_CONNECTIONS` connections and as `MOST_SQUARES` of the median at most."""
    known = limits.low == limits.high
    rest, some = (limits.low - base)[known], prefix[known]
    count = np.bincount(some, minlength=int(prefix.max()) + 1)
    means = np.bincount(some, weights=rest, minlength=len(count)) / np.maximum(count, 1)
    squares = np.bincount(some, weights=(rest - means[some]) ** 2, minlength=len(count))
    free = count - 1.0
    variance, weight = (squares / np.maximum(free, 1.0))[free > 0], np.minimum(free[free > 0], MOST_CONNECTIONS)
    if len(variance):
        variance = np.minimum(variance, MOST_SQUARES * np.median(variance))
    before, prior = CONNECTIONS_BEFORE
    return max(float(((variance * weight).sum() + before * prior) / (weight.sum() + before)), STEP**2)


def _likelihoods(limits: WindowLimits, base: Floats, prefix: Codes, grid: Floats, spare: tuple[float, float]) -> Floats:
    noise, slack = spare
    size, sd = int(prefix.max()) + 1, np.sqrt(noise)
    known = limits.low == limits.high
    ends = np.clip([limits.low - base, limits.high - base], grid[0], grid[-1])
    count = np.bincount(prefix[known], minlength=size)
    mean = np.bincount(prefix[known], weights=ends[0, known], minlength=size) / np.maximum(count, 1)
    # no narrower than the grid can show
    variance = slack + noise / np.maximum(count, 1) + STEP**2 / 4.0
    logs = np.where(count[:, None] > 0, -0.5 * (grid - mean[:, None]) ** 2 / variance[:, None], 0.0)
    logs += _bounds(limits, base, np.where(known, -1, prefix), grid, sd, size)
    found: Floats = np.exp(logs - logs.max(axis=1, keepdims=True)) + LEAST_CHANCE**2
    return found


def _bounds(limits: WindowLimits, base: Floats, prefix: Codes, grid: Floats, sd: float, size: int) -> Floats:
    """Return (p, grid) logarithms of the chance that each prefix's connections lie within their limits."""
    from scipy.special import ndtr

    found = np.zeros((size, len(grid)))
    order = np.argsort(prefix, kind="stable")[int((prefix < 0).sum()) :]
    if not len(order):
        return found
    low, high = limits.low[order] - base[order], limits.high[order] - base[order]
    chance = 1.0 - ndtr((low[:, None] - grid) / sd)
    upper = np.isfinite(high)
    chance[upper] -= 1.0 - ndtr((high[upper, None] - grid) / sd)
    begins = np.flatnonzero(np.diff(prefix[order], prepend=-1))
    found[prefix[order][begins]] = np.add.reduceat(np.log(chance + LEAST_CHANCE), begins, axis=0)
    return found


def _kernel(grid: Floats, variance: float) -> Floats:
    """Return (grid, grid) chances of a prefix's value (columns) by its network's (rows)."""
    weight = np.exp(-0.5 * (grid[:, None] - grid) ** 2 / variance)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _improved(places: _Places, level: float, networks: float, before: float
              ) -> tuple[Floats, Floats, float, float, float]:  # fmt: skip
    """One round. Return (m, grid) chances of networks' values, (p, grid) those of each prefix's network by all others,
    and level and spreads anew."""
    grid, kernel, size = places.grid, _kernel(places.grid, before), int(places.network.max()) + 1
    heard = places.heard(kernel, before)
    logs = np.tile(-(FREEDOM + 1.0) / 2.0 * np.log1p((grid - level) ** 2 / (networks * FREEDOM)), (size, 1))
    np.add.at(logs, places.network, heard)
    chances, beside = _shares(logs), _shares(logs[places.network] - heard)
    middle = chances @ grid
    reach = MOST_SQUARES**0.5 * networks**0.5
    moved = level + float(np.clip(middle - level, -reach, reach).mean())
    squares = np.minimum((chances * (grid - moved) ** 2).sum(axis=1), MOST_SQUARES * networks)
    away = ((beside @ (kernel * (grid[:, None] - grid) ** 2)) * places.like).sum(axis=1)
    away = np.minimum(away / ((beside @ kernel) * places.like).sum(axis=1), MOST_SQUARES * before)
    return chances, beside, moved, _spread(squares, NETWORKS_BEFORE), _spread(away, PREFIXES_BEFORE)


def _spread(squares: Floats, prior: tuple[float, float]) -> float:
    return float((squares.sum() + prior[0] * prior[1]) / (len(squares) + prior[0]))


def _gentle(logs: Floats, steepest: float) -> Floats:
    """Return (p, grid) the least curves above these that change by no more than `steepest` per unit of the grid: one
    prefix pulls at its network no harder than that."""
    found = logs.copy()
    for at in range(1, found.shape[1]):
        np.maximum(found[:, at], found[:, at - 1] - steepest * STEP, out=found[:, at])
    for at in range(found.shape[1] - 1, 0, -1):
        np.maximum(found[:, at - 1], found[:, at] - steepest * STEP, out=found[:, at - 1])
    return found


def _shares(logs: Floats) -> Floats:
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
