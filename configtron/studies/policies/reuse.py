# SPDX-License-Identifier: MIT
"""Connection reuse: a client keeps the configuration of its last connections while they went well.

Named in Configanator's Fig. 1 without its rule. Here: a prefix starts on Default. When the mean of its loads under its
present configuration, relative to the sites' means, exceeds that of its best configuration so far by more than
`patience_ln`, or once in `restless` updates with loads, it moves: in the first case back to the best, in the second
on to one it has not tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from configtron.learner.columns import Codes
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.prefix_cells import PrefixCells
from configtron.learner.searches import observed_best
from configtron.learner.serving_table import always
from configtron.learner.setting import Setting
from configtron.learner.state import check_codes, check_shapes, read
from configtron.learner.table_policy import PolicyRow, TablePolicy


@dataclass(frozen=True, slots=True, eq=False)
class ReuseState:
    """Saved: each row's present configuration."""

    kept_: Codes


class Reuse(TablePolicy):
    """patience_ln: how much worse than its best a client's configuration may be; restless: as above."""

    name = "reuse"
    cells: PrefixCells

    def __init__(self, s: Setting, *, patience_ln: float = 0.1, restless: int = 10):
        super().__init__(s.grid, s.sites, s.rng, PrefixCells.of(s), update_every=s.update_every)
        self.patience_ln, self.restless = patience_ln, restless
        self.kept_ = np.full(self.cells.rows, self.grid.default)
        self.served_ = always(self.kept_, "reuse", self.grid.default)

    def learn(self, seen: OutcomeColumns) -> None:
        self.cells.take(seen, self.updates_)
        tally = self.cells.tally_
        rows = np.unique(seen.row[seen.row >= 0])
        mean, best = tally.mean(), observed_best(tally, self.grid.default)
        chance = self.rng.random((len(rows), 2))
        kept = self.kept_.copy()
        for row, (move, where) in zip(rows, chance, strict=True):
            untried = np.flatnonzero(tally.count[row] == 0)
            if move < 1.0 / self.restless and len(untried):
                kept[row] = untried[int(where * len(untried))]
            elif not mean[row, kept[row]] - mean[row, best[row]] <= self.patience_ln:
                kept[row] = best[row]
        self.kept_ = kept
        self.served_ = always(kept, "reuse", self.grid.default)

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells, self)

    def state(self) -> ReuseState:
        """Return the state beside that of the cells."""
        return ReuseState(self.kept_)

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state. Errors: `BadInput` where it does not fit."""
        found = read(ReuseState, saved).kept_
        check_shapes("kept_", self.kept_.shape, found)
        check_codes("kept_", found, len(self.grid))
        self.kept_ = found


ROWS = (PolicyRow("reuse", Reuse, "what a prefix's last connections did well with", place=10),)
