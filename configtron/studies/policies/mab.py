# SPDX-License-Identifier: MIT
"""MAB+NC: epsilon-greedy, one arm per configuration, one bandit per class and site (CT section 6).

CT calls it weighted: an arm's value is its mean, in which every load weighs alike. Until a cell has seen a load its
greedy arm is Default.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import ARM
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.searches import observed_best
from configtron.learner.serving_table import Served
from configtron.learner.setting import CLASSES, Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy


class Bandit(TablePolicy):
    """epsilon: share of every cell's sessions on any configuration at all."""

    name = "mab_nc"
    cells: ClassCells

    def __init__(self, s: Setting, *, epsilon: float = 0.1):
        super().__init__(s.grid, s.sites, s.rng, ClassCells.of(s), update_every=s.update_every)
        self.epsilon = epsilon
        self.served_ = self._table()

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells,)

    def learn(self, seen: OutcomeColumns) -> None:
        self.cells.take(seen, self.updates_)
        self.served_ = self._table()

    def _table(self) -> Served:
        rows, tally = self.cells.rows, self.cells.tally_
        best = observed_best(tally, self.grid.default)
        mean = tally.mean()[np.arange(rows), best]
        arm = np.where(np.isnan(mean), ARM["default"], ARM["greedy"]).astype(np.int8)
        every, ones = np.arange(len(self.grid)), np.ones((rows, 1))
        explore = np.full(rows, self.epsilon)
        return Served(best[:, None], arm[:, None], ones, np.exp(mean)[:, None], explore, every, self.grid.default)


ROWS = (PolicyRow("mab_nc", Bandit, "epsilon-greedy per class and site", takes=CLASSES, place=8),)
