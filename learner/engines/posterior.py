# SPDX-License-Identifier: MIT
"""The common part of Gaussian processes: the Matern correlation and the posterior given noisy values.

Question   Which values does a function have at untried points, given noisy values at tried ones?
Method     Matern 5/2; the covariance's Cholesky factor whitens the values once, and each query point is solved against
           it.
Stop when  never: one pass. Which covariance is likely is the caller's search (`grid.py`: 12 candidates;
           configtron/studies/emulation/gaussian.py: a climb).
Reads as   mean and variance at each point, the noise of a further look not included.
Fails as   numpy's LinAlgError for a covariance that is not positive definite; callers add a jitter.
Differs    from scikit-learn's: nothing is optimised here, and factors computed in a batch can be handed in.
Source     Rasmussen and Williams 2006, algorithm 2.1 and section 4.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Floats


class GaussianPosterior(NamedTuple):
    """factor: lower Cholesky factor (n, n) of the covariance with noise; whitened: (n,) values solved against it."""

    factor: Floats
    whitened: Floats

    def at(self, across: Floats, own: Floats | float) -> tuple[Floats, Floats]:
        """Return the mean and variance, (m,) each, of points with covariances `across` (n, m) and variances `own`
        (m,)."""
        solved = np.linalg.solve(self.factor, across)
        return solved.T @ self.whitened, own - (solved**2).sum(axis=0)


def posterior(covariance: Floats, values: Floats) -> GaussianPosterior:
    """Return the posterior given values (n,) less their mean; covariance (n, n) with the noise on its diagonal."""
    factor = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
    whitened = np.linalg.solve(factor, values).astype(np.float64, copy=False)
    return GaussianPosterior(factor, whitened)


def matern52(away: Floats) -> Floats:
    """Return the correlation at a distance in length scales."""
    return matern52_and_slope(away)[0]


def matern52_and_slope(away: Floats) -> tuple[Floats, Floats]:
    """Return the correlation, and minus twice its derivative by the squared distance."""
    scaled = np.sqrt(5.0) * away
    fallen = np.exp(-scaled)
    return (1.0 + scaled + scaled**2 / 3.0) * fallen, (1.0 + scaled) * fallen * (5.0 / 3.0)
