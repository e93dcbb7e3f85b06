# SPDX-License-Identifier: MIT
"""Optimal: the fastest configuration for the true network and the site, from the tensor itself.

The simulator gives it the true network (`SEES_TRUTH`), as in CT section 6; all other policies get the history's
estimate.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats, conditions_of, site_codes
from configtron.learner.damage import DamageBound
from configtron.learner.driver_support import Mask
from configtron.learner.serving_table import always
from configtron.learner.setting import Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.learner.tally import no_tally
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor


class ConditionCells:
    """A row per condition and site of a tensor. Contexts must be conditions of that tensor; of conditions with equal
    contexts, the first."""

    class_ids: tuple[str, ...] = ()

    def __init__(self, tensor: Tensor):
        self.sites, self.rows = tensor.sites, len(tensor.names) * len(tensor.sites)
        self.tally_ = no_tally(self.rows, 0)
        self._names = tuple(tensor.characteristics)
        truth = self._columns(conditions_of(tensor))
        self._condition = {row.tobytes(): at for at, row in reversed(list(enumerate(truth)))}

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """Return (row, -1), (n,) each; row -1 for an unknown site. Errors: `BadInput` for an unknown network."""
        points = self._columns(contexts)
        distinct, which = np.unique(points, axis=0, return_inverse=True)
        code = np.array([self._condition.get(row.tobytes(), -1) for row in distinct], dtype=np.int64)
        if (code < 0).any():
            raise BadInput("Optimal was shown a network that the tensor does not hold: hand it the true conditions")
        site = site_codes(contexts, self.sites)
        row = code[which.reshape(-1)] * len(self.sites) + np.minimum(site, len(self.sites) - 1)
        return np.where(site < len(self.sites), row, -1), np.full(len(contexts), -1)

    def _columns(self, contexts: Contexts) -> Floats:
        """Return (n, 3 + characteristics); unknown ones, which no number is, -1."""
        further = [np.nan_to_num(contexts.number(name), nan=-1.0) for name in self._names]
        return np.stack((contexts.bandwidth_kbps, contexts.rtt_ms, contexts.loss, *further), axis=1)

    def row_of(self, network: Codes, contexts: Contexts) -> Codes:
        return self.where(contexts)[0]

    def points(self, contexts: Contexts) -> Floats:
        return contexts.points()

    def class_of_row(self) -> Codes:
        return np.zeros(self.rows, dtype=np.int64)

    def allowed(self, bound: DamageBound) -> Mask:
        return bound.everywhere()[None]


class Optimal(TablePolicy):
    """Per condition and site of a tensor the fastest configuration."""

    name = "optimal"
    LEARNS: ClassVar[bool] = False
    SEES_TRUTH: ClassVar[bool] = True

    def __init__(self, s: Setting):
        tensor = s.oracle()
        super().__init__(tensor.grid, tensor.sites, s.rng, ConditionCells(tensor), update_every=0)
        expected = tensor.best_ms.astype(np.float64).ravel()
        self.served_ = always(tensor.best.ravel(), "optimal", tensor.grid.default, expected)


ROWS = (PolicyRow("optimal", Optimal, "the fastest for the true network and the site", oracle=True, place=16),)
