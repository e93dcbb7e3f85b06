# SPDX-License-Identifier: MIT
"""Bayesian optimisation of every row on its own, then its best: BO, BO+NC and CherryPick+NC.

The three differ in their rows and in the end of a search; both are arguments. Source: CT section 6; CherryPick
(NSDI'17): expected improvement below 10 %, at least 6 configurations, 3 first samples.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.cell_search import FIRST_SAMPLES, CellSearch
from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import ARM
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.prefix_cells import PrefixCells
from configtron.learner.searches import DONE, FIRST, Stop, observed_best
from configtron.learner.serving_table import Served
from configtron.learner.setting import CLASSES, ENGINE, Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy

# CherryPick's own numbers (NSDI'17): it stops earlier than CT.
CHERRYPICK_LEAST, CHERRYPICK_GAIN, CHERRYPICK_FIRST = 6, 0.10, 3


class BayesianSearch(TablePolicy):
    """A search per row. cells: by prefix, where a client without one gets Default, or by class and site;
    first_samples, stop: as in `CellSearch`."""

    name = "bo"
    cells: ClassCells | PrefixCells

    def __init__(
        self,
        s: Setting,
        cells: ClassCells | PrefixCells | None = None,
        *,
        first_samples: int = FIRST_SAMPLES,
        stop: Stop | None = None,
    ):
        super().__init__(s.grid, s.sites, s.rng, cells or PrefixCells.of(s), update_every=s.update_every)
        over = stop or Stop(patience=s.patience)
        self.search = CellSearch(self.cells, s.grid, s.rng, s.searcher(), first_samples=first_samples, stop=over)
        self.served_ = self._table()

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells, self.search)

    def learn(self, seen: OutcomeColumns) -> None:
        before = self.cells.rows
        seen = self.cells.take(seen, self.updates_)
        if self.cells.rows > before:
            self.search.extend(self.search.more(before))
        self.search.advance(seen.row)
        self.served_ = self._table()

    def _table(self) -> Served:
        phase, testing = self.search.searches_.phase, self.search.searches_.testing
        best = observed_best(self.cells.tally_, self.grid.default)
        picks = np.where(phase == DONE, best, testing)
        arm = np.where(phase == DONE, ARM["greedy"], np.where(phase == FIRST, ARM["lhc"], ARM["gp"])).astype(np.int8)
        column, rows = np.ones((len(phase), 1)), len(phase)
        nothing = np.zeros(0, dtype=np.int64)
        return Served(picks[:, None], arm[:, None], column, column * np.nan, np.zeros(rows), nothing, self.grid.default)


def cherrypick(s: Setting) -> BayesianSearch:
    """Return the search per class and site by CherryPick's numbers."""
    stop = Stop(least_tested=CHERRYPICK_LEAST, gain=CHERRYPICK_GAIN, patience=s.patience)
    return BayesianSearch(s, ClassCells.of(s), first_samples=CHERRYPICK_FIRST, stop=stop)


ROWS = (
    PolicyRow("bo", BayesianSearch, "Bayesian optimisation per prefix", takes=ENGINE, place=5),
    PolicyRow("bo_nc", lambda s: BayesianSearch(s, ClassCells.of(s)), "the same per class and site",
        takes=ENGINE + CLASSES, place=6),
    PolicyRow("cherrypick_nc", cherrypick, "the same by CherryPick's numbers", takes=ENGINE + CLASSES, place=7),
)  # fmt: skip
