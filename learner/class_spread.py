# SPDX-License-Identifier: MIT
"""Differences between members of one class: page load times corrected for a client's place in its class.

Question   How long would this load have taken for a client at the class's centroid?
Method     Per class a regression of (ln(ms) less the expectation of its cell and configuration) on the client's
           distance from the centroid, from running sums; shrunk to the regression over all classes by `PRIOR_LOADS`.
           The part that it explains is subtracted from ln(ms) before anything is learned.
Stop when  never; sums grow by every load.
Reads as   ln(ms) as at the centroid. Differences between configurations stay; the class's width hides them no more.
Fails as   no correction, for a cell without an expectation yet.
Differs    from CT, which takes members of a class as one: there the width of a class is noise.
Source     Cochran 1957 (analysis of covariance).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep

# Prior loads, by which a class's slopes shrink to those of all classes, and all classes' slopes to zero.
PRIOR_LOADS = 30.0
# How far from its centroid a member typically is, in e-folds: turns prior loads into prior sums.
SCALE_LN = 0.3


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Sums per class: square (K, d, d) of distances from the centroid in d coordinates (3, or more: `Classes.axes`),
    cross (K, d) of them and the residuals."""

    square: Floats
    cross: Floats

    def plus(self, network: Codes, away: Floats, rest: Floats) -> Slopes:
        """Return the sums with further loads. network: (n,) classes; away: (n, d) from the centroid; rest: (n,) ln(ms)
        less its expectation."""
        square, cross = self.square.copy(), self.cross.copy()
        np.add.at(square, network, away[:, :, None] * away[:, None])
        np.add.at(cross, network, away * rest[:, None])
        return Slopes(square, cross)

    def slopes(self) -> Floats:
        """Return (K, d) change of ln(ms) by distance from the centroid."""
        prior = PRIOR_LOADS * SCALE_LN**2 * np.eye(self.cross.shape[1])
        common = np.linalg.solve(self.square.sum(axis=0) + prior, self.cross.sum(axis=0))
        drawn = (self.cross + prior @ common)[:, :, None]
        found: Floats = np.linalg.solve(self.square + prior, drawn)[:, :, 0].astype(np.float64)
        return found

    def grown(self, classes: int) -> Slopes:
        """Return the sums with room for more classes."""
        more = no_slopes(classes - len(self.square), self.cross.shape[1])
        return Slopes(np.concatenate((self.square, more.square)), np.concatenate((self.cross, more.cross)))


def no_slopes(classes: int, width: int = 3) -> Slopes:
    """Return empty sums, for points with so many coordinates."""
    return Slopes(np.zeros((classes, width, width)), np.zeros((classes, width)))
