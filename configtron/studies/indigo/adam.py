# SPDX-License-Identifier: MIT
"""Adam: steps of parameters by running means of their derivatives and of these derivatives' squares.

Method     m = .9 m + .1 g;  v = .999 v + .001 g^2;  w -= rate * m' / (sqrt(v') + 1e-8), where m' and v' are corrected
           for their start at zero. A gradient longer than `MOST_LENGTH` is cut to it: one batch of long sequences must
           not undo the batches before.
Source     Kingma and Ba, ICLR 2015, algorithm 1; Pascanu and others, ICML 2013 (cut)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.lab.schemes.indigo_network import IndigoWeights

MEAN_KEPT, SQUARE_KEPT, LEAST = 0.9, 0.999, 1e-8
MOST_LENGTH = 1.0


@dataclass(frozen=True, slots=True)
class AdamState:
    """Running means, and how many steps were taken."""

    means: IndigoWeights
    squares: IndigoWeights
    steps: int

    @classmethod
    def begun(cls, weights: IndigoWeights) -> AdamState:
        """Return the state before the first step."""
        zeros = IndigoWeights(*(np.zeros_like(part) for part in weights))
        return cls(zeros, zeros, 0)


def adam_step(
    weights: IndigoWeights, slopes: IndigoWeights, state: AdamState, rate: float
) -> tuple[IndigoWeights, AdamState]:
    """Return weights and state after one step of `rate`."""
    length = float(np.sqrt(sum(float((part**2).sum()) for part in slopes)))
    cut, steps = min(1.0, MOST_LENGTH / max(length, LEAST)), state.steps + 1
    means = IndigoWeights(*(
        MEAN_KEPT * mean + (1 - MEAN_KEPT) * cut * slope for mean, slope in zip(state.means, slopes, strict=True)
    ))  # fmt: skip
    squares = IndigoWeights(*(
        SQUARE_KEPT * square + (1 - SQUARE_KEPT) * (cut * slope) ** 2
        for square, slope in zip(state.squares, slopes, strict=True)
    ))  # fmt: skip
    pace, spread = rate / (1 - MEAN_KEPT**steps), 1 - SQUARE_KEPT**steps
    moved = [
        (part - pace * mean / (np.sqrt(square / spread) + LEAST)).astype(part.dtype)
        for part, mean, square in zip(weights, means, squares, strict=True)
    ]
    return IndigoWeights(*moved), AdamState(means, squares, steps)
