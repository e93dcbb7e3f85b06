# SPDX-License-Identifier: MIT
"""Posterior distributions of each prefix's and each network's window, on a grid.

Question   Where may a path's window lie, if most connections show a lower bound, and some show a window that is off
           by a factor which the path keeps?
Method     A network's value has a t distribution around the level, a prefix's value a normal one around its network's.
           Both lie on a grid of ln(window), less what round trip, class and hour explain. A prefix's likelihood is the
           product of its connections'. A bound counts as the chance to lie beyond it. Known windows count as one
           measurement, their mean, with an error that the path keeps (`path_variance`), which thousands of them do not
           make smaller. A prefix's likelihood of its network's value allows for an outlier with the
           chance `OUTLIER_CHANCE`, and is no steeper than Huber's constant permits. Expectation maximisation fits the
           variances between networks and between prefixes, with a prior (`NETWORKS_PRIOR`, `PREFIXES_PRIOR`).
Reads as   `PathPoints`: `POINTS` equally likely values a prefix and a network, and the variances between them
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
from configtron.learner.initial.pooled_effects import HUBER, MOST_SQUARES

# The grid around the level, ln(window).
HALF_WIDTH, STEP = 7.5, 0.125
# Priors of variances: (groups, variance). Rates differ by a factor of 100 between networks, of two between prefixes.
NETWORKS_PRIOR, PREFIXES_PRIOR = (8.0, 1.8), (4.0, 0.1)
# Degrees of freedom of networks' values.
DEGREES_OF_FREEDOM = 4.0
# Chance that a prefix says nothing of its network (Tukey's contamination); the least likelihood of a bound.
OUTLIER_CHANCE, LEAST_LIKELIHOOD = 0.02, 1e-6
ITERATIONS, POINTS = 10, 15
# Prior of the variance within one path: (connections, variance); a prefix counts as so many connections at most.
CONNECTIONS_PRIOR, MOST_CONNECTIONS = (10.0, 0.05), 20.0


class PathPoints(NamedTuple):
    """prefixes (p, POINTS), networks (m, POINTS): equally likely values of ln(window). level: the middle of networks;
    between_networks, between_prefixes: variances, the latter within a network."""

    prefixes: Floats
    networks: Floats
    level: float
    between_networks: float
    between_prefixes: float


@dataclass(frozen=True, slots=True, eq=False)
class _PrefixLikelihoods:
    """Likelihoods of prefixes' values on the grid.

    likelihood      (p, grid); network: (p,) of each prefix; grid: (grid,) values of ln(window)
    path_variance   of the factor that a path keeps
    bounded         whether a prefix's influence on its network is limited
    """

    likelihood: Floats
    network: Codes
    grid: Floats
    path_variance: float
    bounded: bool

    def network_logs(self, kernel: Floats, between_prefixes: float) -> Floats:
        """Return (p, grid) logarithms of the likelihood of its network's value by each prefix."""
        outlier = OUTLIER_CHANCE if self.bounded else LEAST_LIKELIHOOD
        mean = self.likelihood.mean(axis=1, keepdims=True)
        logs = np.log((1.0 - outlier) * self.likelihood @ kernel.T + outlier * mean)
        if not self.bounded:
            return np.asarray(logs)
        return _slope_limited(logs, HUBER / (between_prefixes + self.path_variance) ** 0.5)

    def points(self, chances: Floats) -> Floats:
        """Return (n, POINTS) equally likely values of (n, grid) chances."""
        whole = np.cumsum(chances, axis=1)
        shares = (np.arange(POINTS) + 0.5) / POINTS
        return np.array([np.interp(shares * row[-1], row, self.grid + STEP / 2) for row in whole])


def path_points(limits: WindowLimits, base: Floats, prefix: Codes, network: Codes, start: tuple[float, float, float],
                *, bounded: bool) -> PathPoints:  # fmt: skip
    """Return the posterior distributions of all prefixes and networks.

    base     (n,) of each connection: what its round trip, class and hour explain
    prefix   (n,) of each connection; network: (p,) of each prefix
    start    level to begin with, variance within a path, variance of the factor that a path keeps
    bounded  whether one prefix's influence on its network is limited
    """
    level, noise, path_variance = start
    grid = level + np.arange(-HALF_WIDTH, HALF_WIDTH + STEP / 2, STEP)
    found = _likelihoods(limits, base, prefix, grid, (noise, path_variance))
    prefixes = _PrefixLikelihoods(found, network, grid, path_variance, bounded)
    variances = NETWORKS_PRIOR[1], PREFIXES_PRIOR[1]
    for _ in range(ITERATIONS):
        of_networks, by_others, level, variances = _improved(prefixes, level, *variances)
    of_prefixes = by_others @ _kernel(grid, variances[1]) * prefixes.likelihood
    return PathPoints(prefixes.points(of_prefixes), prefixes.points(of_networks), level, *variances)


def noise_of(limits: WindowLimits, base: Floats, prefix: Codes) -> float:
    """Return the variance of ln(window) of one path's connections: of those whose window is known, within prefixes,
    with a prior; one prefix counts as `MOST_CONNECTIONS` connections and as `MOST_SQUARES` of the median at most."""
    known = limits.low == limits.high
    rest, places = (limits.low - base)[known], prefix[known]
    count = np.bincount(places, minlength=int(prefix.max()) + 1)
    means = np.bincount(places, weights=rest, minlength=len(count)) / np.maximum(count, 1)
    squares = np.bincount(places, weights=(rest - means[places]) ** 2, minlength=len(count))
    degrees = count - 1.0
    some = degrees > 0
    variance, weight = squares[some] / degrees[some], np.minimum(degrees[some], MOST_CONNECTIONS)
    if len(variance):
        variance = np.minimum(variance, MOST_SQUARES * np.median(variance))
    count_before, variance_before = CONNECTIONS_PRIOR
    total = (variance * weight).sum() + count_before * variance_before
    return max(float(total / (weight.sum() + count_before)), STEP**2)


def _likelihoods(limits: WindowLimits, base: Floats, prefix: Codes, grid: Floats,
                 variances: tuple[float, float]) -> Floats:  # fmt: skip
    """Return (p, grid) likelihoods. variances: within a path, of the factor that a path keeps."""
    noise, path_variance = variances
    size, sd = int(prefix.max()) + 1, np.sqrt(noise)
    known = limits.low == limits.high
    ends = np.clip([limits.low - base, limits.high - base], grid[0], grid[-1])
    count = np.bincount(prefix[known], minlength=size)
    mean = np.bincount(prefix[known], weights=ends[0, known], minlength=size) / np.maximum(count, 1)
    # no narrower than the grid can show
    variance = path_variance + noise / np.maximum(count, 1) + STEP**2 / 4.0
    logs = np.where(count[:, None] > 0, -0.5 * (grid - mean[:, None]) ** 2 / variance[:, None], 0.0)
    logs += _bounds(limits, base, np.where(known, -1, prefix), grid, sd, size)
    found: Floats = np.exp(logs - logs.max(axis=1, keepdims=True)) + LEAST_LIKELIHOOD**2
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
    found[prefix[order][begins]] = np.add.reduceat(np.log(chance + LEAST_LIKELIHOOD), begins, axis=0)
    return found


def _kernel(grid: Floats, variance: float) -> Floats:
    """Return (grid, grid) chances of a prefix's value (columns) by its network's (rows)."""
    weight = np.exp(-0.5 * (grid[:, None] - grid) ** 2 / variance)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _improved(
    prefixes: _PrefixLikelihoods, level: float, between_networks: float, between_prefixes: float
) -> tuple[Floats, Floats, float, tuple[float, float]]:
    """Run one iteration.

    Return (m, grid) chances of networks' values; (p, grid) those of each prefix's network by all other prefixes; the
    new level; the new variances between networks and between prefixes.
    """
    grid, kernel, size = prefixes.grid, _kernel(prefixes.grid, between_prefixes), int(prefixes.network.max()) + 1
    by_prefix = prefixes.network_logs(kernel, between_prefixes)
    squared = (grid - level) ** 2 / (between_networks * DEGREES_OF_FREEDOM)
    logs = np.tile(-(DEGREES_OF_FREEDOM + 1.0) / 2.0 * np.log1p(squared), (size, 1))
    np.add.at(logs, prefixes.network, by_prefix)
    of_networks, by_others = _normalised(logs), _normalised(logs[prefixes.network] - by_prefix)
    means = of_networks @ grid
    most = (MOST_SQUARES * between_networks) ** 0.5
    new_level = level + float(np.clip(means - level, -most, most).mean())
    squares = np.minimum((of_networks * (grid - new_level) ** 2).sum(axis=1), MOST_SQUARES * between_networks)
    joint = (by_others @ (kernel * (grid[:, None] - grid) ** 2)) * prefixes.likelihood
    distances = joint.sum(axis=1) / ((by_others @ kernel) * prefixes.likelihood).sum(axis=1)
    distances = np.minimum(distances, MOST_SQUARES * between_prefixes)
    return of_networks, by_others, new_level, (_variance(squares, NETWORKS_PRIOR), _variance(distances, PREFIXES_PRIOR))


def _variance(squares: Floats, prior: tuple[float, float]) -> float:
    return float((squares.sum() + prior[0] * prior[1]) / (len(squares) + prior[0]))


def _slope_limited(logs: Floats, steepest: float) -> Floats:
    """Return (p, grid) the lowest curves that lie nowhere below these and are no steeper than `steepest`, which bounds
    a prefix's influence on its network."""
    found = logs.copy()
    for at in range(1, found.shape[1]):
        np.maximum(found[:, at], found[:, at - 1] - steepest * STEP, out=found[:, at])
    for at in range(found.shape[1] - 1, 0, -1):
        np.maximum(found[:, at - 1], found[:, at] - steepest * STEP, out=found[:, at - 1])
    return found


def _normalised(logs: Floats) -> Floats:
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
