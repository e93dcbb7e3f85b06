# SPDX-License-Identifier: MIT
"""A Gaussian process: the values of a smooth noisy function of a few coordinates where it was not sampled.

Question   After some dozens of costly looks, what is the function elsewhere, and how surely?
Method     Prior: a constant and a slope for each coordinate, which carry it beyond the points, and on top a Matern 5/2
           with a length of its own for each coordinate. Noise is independent. The variances and lengths are those that
           are likeliest after the points and a weak prior (MAP), climbed to by Rprop along the exact gradient.
Reads as   mean and standard deviation of the function itself, without the noise of a look.
Fails as   ValueError where there are no points.
Differs    from the learner's search (`learner/engines/grid.py`), which has the same posterior and correlation: points
           may lie anywhere, and lengths are climbed to. From scikit-learn's: no library but numpy, the slopes, a prior
           on lengths (a dozen points in seven coordinates fit any length), and a climb without chance: the same points
           give the same bits.
Source     Rasmussen and Williams, Gaussian Processes for Machine Learning, 2.2, 2.7, 4.2, 5.4; Riedmiller and Braun,
           ICNN 1993
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.engines.posterior import matern52_and_slope, posterior

# Added to the covariance's diagonal, of values of variance 1: keeps equal points apart for the arithmetic.
JITTER = 1e-8
# Rprop: the first step of each logarithm, its factors where the sign stays and where it turns, and its bounds.
FIRST_STEP, GROW, SHRINK, LEAST_STEP, MOST_STEP = 0.2, 1.2, 0.5, 1e-4, 1.0
# By then steps are below a hundredth on all that was tried.
STEPS = 60
# Logarithms of variances and lengths stay within, whatever the points say.
MOST_LOG = 8.0


class Prior(NamedTuple):
    """Mean and standard deviation of a logarithm. Coordinates are about 0 to 1, values are made to have variance 1."""

    mean: float
    deviation: float


# A function that turns once or twice between 0 and 1; Matern's variance; the slopes'; the noise's.
LENGTH, CURVED = Prior(math.log(0.7), 0.8), Prior(0.0, 1.0)
SLOPED, NOISE = Prior(math.log(2.0), 1.5), Prior(math.log(0.01), 1.5)


@dataclass(frozen=True)
class _Laid:
    """Points as the likelihood needs them: squared distances by coordinate (d, n, n), and of the slopes (n, n)."""

    squares: Floats
    sloped: Floats
    values: Floats


class Process:
    """Fitted to points (n, d) and values (n). `start` is another's `logs`, from where the climb begins."""

    def __init__(self, points: Floats, values: Floats, start: Floats | None = None, steps: int = STEPS) -> None:
        if not len(points):
            raise ValueError("a process without points")
        self._points = points
        self._middle, self._scale = float(values.mean()), float(values.std()) or 1.0
        laid = _Laid(_squares(points, points), _sloped(points, points), (values - self._middle) / self._scale)
        self.logs = _climbed(laid, _prior(points.shape[1])[0] if start is None else start, steps)
        self._condition(laid.values)

    @property
    def noise(self) -> float:
        """Standard deviation of one look, in the values' unit."""
        return math.exp(self.logs[-1] / 2) * self._scale

    def _condition(self, values: Floats) -> None:
        covariance = self._between(self._points, self._points)
        covariance[np.diag_indices_from(covariance)] += math.exp(self.logs[-1]) + JITTER
        self._values = values
        self._posterior = posterior(covariance, values)

    def _between(self, left: Floats, right: Floats) -> Floats:
        matern, _ = _matern(_squares(left, right), self.logs)
        return matern + math.exp(self.logs[-2]) * _sloped(left, right)

    def at(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at points (m, d): two arrays (m)."""
        across = self._between(self._points, points)
        own = math.exp(self.logs[-3]) + math.exp(self.logs[-2]) * (1 + ((points - 0.5) ** 2).sum(axis=1))
        mean, left = self._posterior.at(across, own)
        return mean * self._scale + self._middle, np.sqrt(np.maximum(left, JITTER)) * self._scale

    def believing(self, point: Floats) -> Process:
        """The same, as if a look at `point` (d) had found just what is expected there."""
        more = object.__new__(Process)
        more.logs, more._middle, more._scale = self.logs, self._middle, self._scale
        more._points = np.vstack([self._points, point])
        expected = (self.at(point[None])[0][0] - self._middle) / self._scale
        more._condition(np.append(self._values, expected))
        return more


def likelihood(points: Floats, values: Floats, logs: Floats) -> tuple[float, Floats]:
    """Logarithm of the posterior density of `logs` (lengths; variances curved, sloped, noise), and its gradient."""
    return _likelihood(_Laid(_squares(points, points), _sloped(points, points), values), logs)


def _squares(left: Floats, right: Floats) -> Floats:
    return np.ascontiguousarray((left.T[:, :, None] - right.T[:, None, :]) ** 2)


def _sloped(left: Floats, right: Floats) -> Floats:
    return 1 + (left - 0.5) @ (right - 0.5).T


def _matern(squares: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """The covariance, and what its derivative by a length's logarithm is to that coordinate's scaled square."""
    correlation, slope = matern52_and_slope(np.sqrt(np.tensordot(np.exp(-2 * logs[:-3]), squares, axes=1)))
    return math.exp(logs[-3]) * correlation, math.exp(logs[-3]) * slope


def _prior(dimensions: int) -> tuple[Floats, Floats]:
    rows = [*[LENGTH] * dimensions, CURVED, SLOPED, NOISE]
    return np.array([row.mean for row in rows]), np.array([row.deviation for row in rows])


def _likelihood(laid: _Laid, logs: Floats) -> tuple[float, Floats]:
    matern, slant = _matern(laid.squares, logs)
    sloped, noise = math.exp(logs[-2]) * laid.sloped, math.exp(logs[-1])
    covariance = matern + sloped
    covariance[np.diag_indices_from(covariance)] += noise + JITTER
    lower = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(covariance)
    weights = inverse @ laid.values
    fitted = -0.5 * laid.values @ weights - np.log(np.diag(lower)).sum()
    pull = np.outer(weights, weights) - inverse
    lengths = np.tensordot(laid.squares, pull * slant, axes=([1, 2], [0, 1])) * np.exp(-2 * logs[:-3])
    variances = [(pull * matern).sum(), (pull * sloped).sum(), np.trace(pull) * noise]
    mean, deviation = _prior(len(laid.squares))
    off = (logs - mean) / deviation
    return float(fitted - 0.5 * off @ off), 0.5 * np.append(lengths, variances) - off / deviation


def _climbed(laid: _Laid, start: Floats, steps: int) -> Floats:
    """Rprop: each logarithm by a step of its own, longer while the slope's sign stays, shorter once it turns."""
    here, step, before = start.copy(), np.full(len(start), FIRST_STEP), np.zeros(len(start))
    best, found = -math.inf, start
    for _ in range(steps):
        height, slope = _likelihood(laid, here)
        if height > best:
            best, found = height, here.copy()
        turned = slope * before
        factor = np.where(turned > 0, GROW, np.where(turned < 0, SHRINK, 1.0))
        step = np.clip(step * factor, LEAST_STEP, MOST_STEP)
        before = np.where(turned < 0, 0.0, slope)
        here = np.clip(here + np.sign(before) * step, -MOST_LOG, MOST_LOG)
    return found
