# SPDX-License-Identifier: MIT
"""Brute force: every configuration once, in the grid's order, then the best observed. Per prefix, or per class."""

from __future__ import annotations

import numpy as np

from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import ARM
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.prefix_cells import PrefixCells
from configtron.learner.searches import observed_best
from configtron.learner.serving_table import Served
from configtron.learner.setting import CLASSES, Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.learner.tally import Tally


class Brute(TablePolicy):
    """Brute: a row per client prefix."""

    name = "brute"
    cells: ClassCells | PrefixCells

    def __init__(self, s: Setting, cells: ClassCells | PrefixCells | None = None):
        super().__init__(s.grid, s.sites, s.rng, cells or PrefixCells.of(s), update_every=s.update_every)
        self.served_ = exhausting(self.cells.tally_, self.grid.default)

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells,)

    def learn(self, seen: OutcomeColumns) -> None:
        self.cells.take(seen, self.updates_)
        self.served_ = exhausting(self.cells.tally_, self.grid.default)


def exhausting(tally: Tally, default: int) -> Served:
    """Return all configurations that a row has not tried, equally likely; once there is none, its best.

    Sessions of one interval share the table, so "in the grid's order" would give them all the same one.
    """
    rows, width = tally.count.shape
    untried = tally.count == 0
    left = untried.sum(axis=1)
    weight = np.where(left[:, None] > 0, untried / np.maximum(left, 1)[:, None], 0.0)
    over = np.flatnonzero(left == 0)
    weight[over, observed_best(tally, default)[over]] = 1.0
    arm = np.where(left[:, None] > 0, ARM["brute"], ARM["greedy"]) * np.ones((1, width), dtype=np.int64)
    picks = np.tile(np.arange(width), (rows, 1))
    nothing = np.zeros(0, dtype=np.int64)
    return Served(picks, arm.astype(np.int8), weight, np.full((rows, width), np.nan), np.zeros(rows), nothing, default)


ROWS = (
    PolicyRow("brute", Brute, "every configuration once per prefix, then its best", place=3),
    PolicyRow("brute_nc", lambda s: Brute(s, ClassCells.of(s)),
        "every configuration once per class and site, then its best", takes=CLASSES, place=4),
)  # fmt: skip
