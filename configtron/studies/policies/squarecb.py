# SPDX-License-Identifier: MIT
"""SquareCB over the shared model, in place of Thompson sampling: a reference of the literature.

SquareCB (Foster and Rakhlin 2020) spreads a cell over the candidates, the less the worse each looks:
1 / (n + gamma x gap), the rest on the best.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import ARM
from configtron.learner.linear import Model
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.policy_row import PolicyRow
from configtron.learner.serving_table import Served
from configtron.learner.setting import CLASSES, WARM, Setting
from configtron.learner.shared_model import PLAIN_MODEL, ModelOptions, SharedModel
from configtron.learner.table_policy import TablePolicy
from configtron.learner.templates import ready


class SquareCb(TablePolicy):
    """gamma: how sharply a gap in ln(ms) is punished; it grows with the square root of the cell's loads; options: of
    the model."""

    name = "squarecb"
    cells: ClassCells
    model: SharedModel

    def __init__(self, s: Setting, options: ModelOptions = PLAIN_MODEL, *, gamma: float = 100.0):
        model = SharedModel.of(s, options)
        super().__init__(s.grid, s.sites, s.rng, model.cells, model, update_every=s.update_every)
        self.gamma = gamma
        self.served_ = self._table(model.model())

    @classmethod
    def make(cls, setting: Setting) -> SquareCb:
        """Return the policy that keeps some configurations ready, where a warm start shows which."""
        return cls(setting, ModelOptions(candidates=ready(setting)))

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells, self.model)

    def learn(self, seen: OutcomeColumns) -> None:
        self.model.take(seen, self.updates_)
        self.served_ = self._table(self.model.update(self.updates_))

    def _table(self, model: Model) -> Served:
        candidates, count = self.model.candidates_, self.cells.tally_.count
        mean, rows = model.mean()[:, candidates], np.arange(self.cells.rows)
        mean = self.only_allowed(mean, mean, candidates)
        best, many = mean.argmin(axis=1), len(candidates)
        loads = count.sum(axis=1, keepdims=True)
        gap = mean - mean[rows, best][:, None]
        weight = 1.0 / (many + self.gamma * np.sqrt(1.0 + loads) * gap)
        weight[rows, best] = 0.0
        weight[rows, best] = 1.0 - weight.sum(axis=1)
        picks = np.tile(candidates, (self.cells.rows, 1))
        arm = np.full(picks.shape, ARM["squarecb"], dtype=np.int8)
        expected = np.exp(mean + model.levels()[:, None])
        nothing = np.zeros(0, dtype=np.int64)
        return Served(picks, arm, weight, expected, np.zeros(self.cells.rows), nothing, self.grid.default)


ROWS = (PolicyRow("squarecb", SquareCb.make, "SquareCB over the same model", takes=WARM + CLASSES, place=15),)
