# SPDX-License-Identifier: MIT
"""Posterior distributions of each prefix's and each network's window, on a grid.

Question   Where may a path's window lie, if most connections show a lower bound, and some show a window that is off
           by a factor which the path keeps?
Method     A network's value has a t distribution around the level, a prefix's value a normal one around its network's.
           Both lie on a grid of ln(window), less what round trip, class and hour explain. A prefix's likelihood is the
           product of its connections'. A bound counts as the chance to lie beyond it. Known windows count as one
           measurement, their mean, with an error that the path keeps (`slack`): thousands of them do not make a path
           surer than that. A prefix's likelihood reaches its network with a chance of `LIAR` that it is wrong, and no
           steeper than Huber's `PULL`. Expectation maximisation fits the spreads between networks and between prefixes,
           with a prior (`NETWORKS_BEFORE`, `PREFIXES_BEFORE`).
Reads as   `PathPoints`: `POINTS` equally likely values a prefix and a network, and the spreads
Fails as   nothing: a prefix whose connections show nothing has its network's values
Differs    from a mode and its curvature (Laplace): with lower bounds alone the distribution above them is as wide as
           that of other networks, where the curvature at its lower end would be narrow.
Source     Efron and Morris (1973); Tukey, A survey of sampling from contaminated distributions (1960)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_windows import WindowLimits
from configtron.learner.initial.pooled_effects import MOST_SQUARES
from configtron.learner.initial.pooled_effects import REACH as PULL

# The grid around the level, ln(window).
REACH, STEP = 7.5, 0.125
# Prior of a spread: (groups, variance). Rates differ by a factor of 100 between networks, of two between prefixes.
NETWORKS_BEFORE, PREFIXES_BEFORE = (8.0, 1.8), (4.0, 0.1)
# Degrees of freedom of networks' values.
FREEDOM = 4.0
LIAR, LEAST_CHANCE = 0.02, 1e-6
ROUNDS, POINTS = 10, 15
# Prior of the variance within one path: (connections, variance); a prefix counts as so many connections at most.
CONNECTIONS_BEFORE, MOST_CONNECTIONS = (10.0, 0.05), 20.0


class PathPoints(NamedTuple):
    """prefixes (p, POINTS), networks (m, POINTS): equally likely values of ln(window). level: the middle of networks;
    between_networks, between_prefixes: variances, the latter within a network."""

    prefixes: Floats
    networks: Floats
    level: float
    between_networks: float
    between_prefixes: float


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """like: (p, grid) likelihoods of prefixes; network: (p,) of each; grid: (grid,) values; slack: variance of the
    factor that a path keeps; bounded: whether a prefix's influence is limited."""

    like: Floats
    network: Codes
    grid: Floats
    slack: float
    bounded: bool

    def heard(self, kernel: Floats, before: float) -> Floats:
        """Return (p, grid) logarithms of the likelihood of its network's value by each prefix."""
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
    """Return the posterior distributions of all prefixes and networks.

    base     (n,) of each connection: what its round trip, class and hour explain
    prefix   (n,) of each connection; network: (p,) of each prefix
    spare    level to begin with, variance within a path, variance of the factor that a path keeps
    bounded  whether one prefix's influence on its network is limited
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
    """Run one round. Return (m, grid) chances of networks' values; (p, grid) those of each prefix's network, by all
    other prefixes; the new level and spreads."""
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
    """Return (p, grid) the lowest curves that lie nowhere below these and are no steeper than `steepest`: a prefix
    pulls at its network no harder than that."""
    found = logs.copy()
    for at in range(1, found.shape[1]):
        np.maximum(found[:, at], found[:, at - 1] - steepest * STEP, out=found[:, at])
    for at in range(found.shape[1] - 1, 0, -1):
        np.maximum(found[:, at - 1], found[:, at] - steepest * STEP, out=found[:, at - 1])
    return found


def _shares(logs: Floats) -> Floats:
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
