# SPDX-License-Identifier: MIT
"""LinUCB over the shared model, in place of Thompson sampling: a reference of the literature.

LinUCB (Li et al. 2010) takes the configuration of the lowest lower bound: mean less `width` deviations.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.class_cells import ClassCells
from configtron.learner.linear import Model
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.serving_table import Served, always
from configtron.learner.setting import CLASSES, WARM, Setting
from configtron.learner.shared_model import PLAIN_MODEL, ModelOptions, SharedModel
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.learner.templates import ready

# Posterior draws from which a deviation is estimated: mostly to within a quarter.
DRAWS = 16


class LinUcb(TablePolicy):
    """The policy. width: posterior deviations from the mean down to the bound; options: of the model."""

    name = "linucb"
    cells: ClassCells
    model: SharedModel

    def __init__(self, s: Setting, options: ModelOptions = PLAIN_MODEL, *, width: float = 0.5):
        model = SharedModel.of(s, options)
        super().__init__(s.grid, s.sites, s.rng, model.cells, model, update_every=s.update_every)
        self.width = width
        self.served_ = self._table(model.model())

    @classmethod
    def make(cls, setting: Setting) -> LinUcb:
        """Return the policy that keeps some configurations ready, where a warm start shows which."""
        return cls(setting, ModelOptions(candidates=ready(setting)))

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells, self.model)

    def learn(self, seen: OutcomeColumns) -> None:
        self.model.take(seen, self.updates_)
        self.served_ = self._table(self.model.update(self.updates_))

    def _table(self, model: Model) -> Served:
        mean, candidates = model.mean(), self.model.candidates_
        drawn = model.draws(DRAWS, self.rng, 1.0, candidates)
        lower_bound = mean[:, candidates] - self.width * drawn.std(axis=1)
        lower_bound = self.only_allowed(mean[:, candidates], lower_bound, candidates)
        picks = candidates[lower_bound.argmin(axis=1)]
        expected = np.exp(mean[np.arange(self.cells.rows), picks] + model.levels())
        return always(picks, "linucb", self.grid.default, expected)


ROWS = (PolicyRow("linucb", LinUcb.make, "LinUCB over the same model", takes=WARM + CLASSES, place=14),)
