# SPDX-License-Identifier: MIT
"""The searches of all cells as a part of a policy: begun with a Latin hypercube each, advanced by an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from configtron.learner.columns import Codes
from configtron.learner.parts import Partition
from configtron.learner.searches import Engine, Searches, Stop, advance, joined_searches, started
from configtron.learner.state import check_codes, check_shapes, read
from configtron.model.grid import Grid

# First samples of a Latin hypercube unless another number is given (CT section 5).
FIRST_SAMPLES = 4


@dataclass(frozen=True, slots=True, eq=False)
class CellSearchState:
    """Saved: where each row's search stands."""

    searches_: Searches


class CellSearch:
    """One search per row of a partition.

    engine         finds the next configuration of a row
    first_samples  of the Latin hypercube
    stop           when a row's search is over
    """

    def __init__(
        self,
        cells: Partition,
        grid: Grid,
        rng: np.random.Generator,
        engine: Engine,
        *,
        first_samples: int = FIRST_SAMPLES,
        stop: Stop | None = None,
    ):
        self.cells, self.grid, self.rng, self.engine, self.stop = cells, grid, rng, engine, stop or Stop()
        self.first_samples = first_samples
        self.searches_ = started(cells.rows, grid, first_samples, rng)

    def advance(self, rows: Codes) -> None:
        """Go on in rows that had outcomes."""
        rows = np.unique(rows[rows >= 0])
        self.searches_ = advance(self.searches_, self.cells.tally_, rows, self.engine, self.stop)

    def more(self, before: int) -> Searches:
        """Return searches for the rows from `before` on."""
        return started(self.cells.rows - before, self.grid, self.searches_.first.shape[1], self.rng)

    def extend(self, more: Searches) -> None:
        """Add the searches of new rows."""
        self.searches_ = joined_searches(self.searches_, more)

    def suggested(self) -> int:
        """Return how many rows the engine has found a configuration to try for."""
        return int(np.isfinite(self.searches_.gain).sum())

    def state(self) -> CellSearchState:
        return CellSearchState(self.searches_)

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state, after the cells took over theirs. Errors: `BadInput` where it does not fit."""
        found = read(CellSearchState, saved).searches_
        check_shapes("searches_", (self.cells.rows,), found.phase, found.testing, found.gain, found.since)
        check_shapes("searches_", (self.cells.rows, self.searches_.first.shape[1]), found.first)
        check_codes("searches_", found.testing, len(self.grid))
        self.searches_ = found
