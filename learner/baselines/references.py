# SPDX-License-Identifier: MIT
"""Outside references over the same shared model: LinUCB and SquareCB in place of Thompson sampling.

LinUCB (Li et al. 2010) takes what is best if all goes well: mean less `width` deviations. SquareCB (Foster and Rakhlin
2020) spreads a cell over the candidates, the less the worse each looks: 1 / (n + gamma x gap), the rest on the best.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.columns import ARM
from configtron.learner.linear import Model
from configtron.learner.linearpolicy import LinearPolicy
from configtron.learner.served import Served, always

# Posterior draws that a deviation is taken from: within a quarter, mostly.
DRAWS = 16


class LinUcb(LinearPolicy):
    """width: posterior deviations of optimism."""

    name: ClassVar[str] = "linucb"

    def __init__(self, *given: Any, width: float = 0.5, **more: Any):
        self.width = width
        super().__init__(*given, **more)

    def serve(self, model: Model) -> Served:
        mean = model.mean()
        drawn = model.draws(DRAWS, self.rng, 1.0, self.candidates_)
        hopeful = mean[:, self.candidates_] - self.width * drawn.std(axis=0)
        hopeful = self.within_bound(mean[:, self.candidates_], hopeful[None])[0]
        picks = self.candidates_[hopeful.argmin(axis=1)]
        expected = np.exp(mean[np.arange(self.rows), picks] + model.levels())
        return always(picks, "linucb", self.grid.default, expected)


class SquareCb(LinearPolicy):
    """gamma: how sharply a gap in ln(ms) is punished; grows with the square root of the cell's loads."""

    name: ClassVar[str] = "squarecb"

    def __init__(self, *given: Any, gamma: float = 100.0, **more: Any):
        self.gamma = gamma
        super().__init__(*given, **more)

    def serve(self, model: Model) -> Served:
        mean, rows = model.mean()[:, self.candidates_], np.arange(self.rows)
        mean = self.within_bound(mean, mean[None].copy())[0]
        best, many = mean.argmin(axis=1), len(self.candidates_)
        loads = self.tally_.count.sum(axis=1, keepdims=True)
        gap = mean - mean[rows, best][:, None]
        weight = 1.0 / (many + self.gamma * np.sqrt(1.0 + loads) * gap)
        weight[rows, best] = 0.0
        weight[rows, best] = 1.0 - weight.sum(axis=1)
        picks = np.tile(self.candidates_, (self.rows, 1))
        arm = np.full(picks.shape, ARM["squarecb"], dtype=np.int8)
        expected = np.exp(mean + model.levels()[:, None])
        nothing = np.zeros(0, dtype=np.int64)
        return Served(picks, arm, weight, expected, np.zeros(self.rows), nothing, self.grid.default)
