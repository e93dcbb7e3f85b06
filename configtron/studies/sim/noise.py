# SPDX-License-Identifier: MIT
"""How much one page load differs from the median: a lognormal body and, now and then, a Pareto tail.

Every load takes the same number of uniforms from the generator, in order, so a million loads at once are the same
bits as a million loads one by one; that is why the normal deviate is made here (Box and Muller 1958) and not drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from configtron.learner.columns import Floats

# Two for the normal deviate, one for the tail.
DRAWS = 3
# Smallest positive double step of a uniform number: keeps its logarithm finite.
LEAST_CHANCE = 2.0**-53


@dataclass(frozen=True, slots=True)
class Noise:
    """Multiplicative noise with median close to 1.

    sigma_ln    standard deviation of the logarithm of the body
    tail_share  share of loads that also meet a bad moment
    tail_alpha  Pareto exponent of how bad it is; 0 shares have no tail
    """

    # Same-condition repeats in the lab spread by a tenth; browsers on real paths by a little more.
    sigma_ln: float = 0.12
    # One load in twenty with a tail reproduces the heavy upper end that HC removes as outliers.
    tail_share: float = 0.05
    # Finite mean and variance, still a factor of two once in eight bad moments.
    tail_alpha: float = 3.0

    def factors(self, n: int, rng: np.random.Generator) -> Floats:
        """Return (n,) factors on the median page load time."""
        chance = rng.random((n, DRAWS))
        first, second, third = (np.ascontiguousarray(chance[:, i]) for i in range(DRAWS))
        normal = np.sqrt(-2.0 * np.log(1.0 - first)) * np.cos(2.0 * np.pi * second)
        body = np.exp(self.sigma_ln * normal)
        if self.tail_share <= 0.0:
            return body
        rank = np.maximum(third / self.tail_share, LEAST_CHANCE)
        bad = np.exp(np.log(rank) * (-1.0 / self.tail_alpha))
        return np.where(third < self.tail_share, body * bad, body)


NO_NOISE = Noise(sigma_ln=0.0, tail_share=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Pooled(Noise):
    """Factors that were measured, drawn alike: each load's ratio to its cell's median, all cells together, sorted."""

    ratios: Floats = field(default_factory=lambda: np.ones(1))

    def factors(self, n: int, rng: np.random.Generator) -> Floats:
        """Return (n,) factors; as many uniforms a load as the formula takes."""
        at = (rng.random((n, DRAWS))[:, 0] * len(self.ratios)).astype(np.int64)
        return self.ratios[np.minimum(at, len(self.ratios) - 1)]
