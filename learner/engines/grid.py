# SPDX-License-Identifier: MIT
"""The exact Gaussian process over a finite grid of configurations.

Question   Which configuration should be tried next, and how much may it gain?
Method     Matern 5/2 over knobs' values (an ordered knob by its rank, a name by one-hot), on ln(ms) with its mean taken
           away; 3 length scales x 4 noise shares by marginal likelihood, the signal's variance in closed form; expected
           improvement in page load time, computed for every configuration, since there are few.
Stop when  the caller stops it: it gets the expected improvement as a share of the best.
Reads as   `Suggestion(configuration, gain)`.
Fails as   `BadInput` for nothing tried.
Differs    from GPyOpt: no optimiser runs over a continuous relaxation of a finite set, no configuration is suggested
           twice, and the logarithm makes a page load's noise the same everywhere. Measured: benchmarks.learner.
Source     Rasmussen and Williams 2006, chapters 2 and 5; Jones, Schonlau and Welch 1998 (expected improvement).
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.engines.posterior import GaussianPosterior, matern52
from configtron.learner.searches import Suggestion
from configtron.model.errors import BadInput
from configtron.model.grid import Grid

# In units of the grid's own distances: two names that differ are 1 apart, the ends of an ordered knob too.
LENGTH_SCALES = (0.7, 1.4, 2.8)
# Share of the observed variance that repeats alone explain: from nearly clean to mostly noise.
NOISE_SHARES = (0.01, 0.05, 0.2, 0.6)
# Added to correlation matrices' diagonals: the rounding error of doubles in a Cholesky factor of some hundred rows.
JITTER = 1e-9


class GridEngine:
    """The default engine. grid: the finite domain; its kernels are built once."""

    name = "grid"

    def __init__(self, grid: Grid):
        points = coordinates(grid)
        away = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
        self._kernels = np.stack([matern52(away / scale) for scale in LENGTH_SCALES])

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        if not len(tried):
            raise BadInput("the engine needs at least one configuration that was tried")
        mean, deviation = self.posterior(tried, np.log(ms))
        gain = improvement(mean, deviation, float(mean[tried].min()))
        gain[tried] = -1.0
        gain[pending] = -1.0
        best = int(gain.argmax())
        return Suggestion(best, max(float(gain[best]), 0.0))

    def posterior(self, tried: Codes, log_ms: Floats) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation of ln(ms), (configurations,) each, under the likeliest
        hyper-parameters."""
        level = float(log_ms.mean())
        rest, n = log_ms - level, len(tried)
        among = self._kernels[:, tried[:, None], tried[None, :]]
        noise = np.array(NOISE_SHARES)
        blend = (1.0 - noise)[None, :, None, None] * among[:, None] + (noise + JITTER)[None, :, None, None] * np.eye(n)
        factor = np.linalg.cholesky(blend.reshape(-1, n, n))
        half = np.linalg.solve(factor, np.broadcast_to(rest[:, None], (len(factor), n, 1)))[:, :, 0]
        # A signal of a hundredth e-fold is below the resolution of page loads.
        variance = np.maximum((half**2).sum(axis=1) / n, 1e-4)
        likelihood = -0.5 * n * np.log(variance) - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        best = int(likelihood.argmax())
        share = noise[best % len(noise)]
        across = (1.0 - share) * self._kernels[best // len(noise)][tried]
        mean, left = GaussianPosterior(factor[best], half[best]).at(across, 1.0 - share)
        return level + mean, np.sqrt(variance[best] * np.maximum(left, 0.0))


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the expected improvement of exp(normal) on exp(best), as a share of exp(best)."""
    from scipy.special import ndtr

    spread = np.maximum(deviation, 1e-12)
    z = (best - mean) / spread
    found: Floats = ndtr(z) - np.exp(np.minimum(mean - best + spread**2 / 2, 50.0)) * ndtr(z - spread)
    return np.maximum(found, 0.0)


def coordinates(grid: Grid) -> Floats:
    """Return (configurations, dimensions): ordered knobs (numbers, over two) by rank on [0, 1], others as one-hot /
    sqrt 2."""
    columns: list[Floats] = []
    for at, knob in enumerate(grid.knobs):
        position = grid.positions[:, at]
        if len(knob.values) > 2 and all(isinstance(value, int | float) for value in knob.values):
            columns.append(position / (len(knob.values) - 1.0))
        else:
            columns += [(position == value) / np.sqrt(2.0) for value in range(len(knob.values))]
    return np.stack(columns, axis=1)
