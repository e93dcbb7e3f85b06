# SPDX-License-Identifier: MIT
"""MAB+NC: epsilon-greedy, one arm per configuration, one bandit per class and site (CT section 6).

CT calls it weighted: an arm's value is its mean, in which every load weighs alike. Until a cell has seen a load its
greedy arm is Default.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.cells import observed_best
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import ARM
from configtron.learner.policy import Seen
from configtron.learner.served import Served


class Bandit(ClassPolicy):
    """epsilon: share of every cell's sessions on any configuration at all."""

    name: ClassVar[str] = "mab_nc"

    def __init__(self, *given: Any, epsilon: float = 0.1, **more: Any):
        super().__init__(*given, **more)
        self.epsilon = epsilon
        self.served_ = self._serve()

    def learn(self, seen: Seen) -> None:
        self.served_ = self._serve()

    def _serve(self) -> Served:
        best = observed_best(self.tally_, self.grid.default)
        mean = self.tally_.mean()[np.arange(self.rows), best]
        arm = np.where(np.isnan(mean), ARM["default"], ARM["greedy"]).astype(np.int8)
        explore = np.full(self.rows, self.epsilon)
        every, ones = np.arange(len(self.grid)), np.ones((self.rows, 1))
        return Served(best[:, None], arm[:, None], ones, np.exp(mean)[:, None], explore, every, self.grid.default)
