# SPDX-License-Identifier: MIT
"""The part of a policy that serves: the table until the next update, within two limits.

Two limits, in this order: configurations that can be put in force (`choose_among`), and a bound on damage to neighbours
(`keep_within`). A choice outside a limit is replaced by the most similar one inside it.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.damage import DamageBound, bounded
from configtron.learner.drawn import within_bound
from configtron.learner.parts import Partition
from configtron.learner.reached import Mask, tied_configurations
from configtron.learner.served import Served, always, within
from configtron.model.grid import Grid


class ServedTable:
    """The table that a policy serves until its next update; Default everywhere at the start.

    served  the table, within both limits
    among   (configurations,) those that may be chosen, None for all
    bound   on damage (`damage.py`), None for none; not part of a state (`saved.Recipe` has it)
    """

    def __init__(self, grid: Grid, cells: Partition):
        self.grid, self.cells = grid, cells
        self.among: Mask | None = None
        self.bound: DamageBound | None = None
        self.served = always(np.full(cells.rows, grid.default), "default", grid.default)

    def put(self, served: Served) -> None:
        """Serve this table from now on."""
        if self.among is not None:
            served = within(served, tied_configurations(self.grid, self.among))
        if self.bound is not None:
            mask, of_row = self.allowed()
            served = bounded(served, mask if self.among is None else mask & self.among, of_row, self.grid)
        self.served = served

    def keep_within(self, bound: DamageBound | None) -> None:
        """Serve nothing from now on that harms neighbours where a client is; None: whatever it does to them."""
        self.bound = bound
        self.put(self.served)

    def choose_among(self, among: Mask) -> None:
        """Serve only these configurations, (configurations,), and Default, from now on."""
        self.among = among | (np.arange(len(self.grid)) == self.grid.default)
        self.put(self.served)

    def allowed(self) -> tuple[Mask, Codes]:
        """Return (classes, configurations) whether each may be served, and (rows,) each row's class; without classes
        one for all rows."""
        assert self.bound is not None, "a table with a bound"
        return self.cells.allowed(self.bound), self.cells.class_of_row()

    def may(self, candidates: Codes) -> Mask | None:
        """Return (rows, candidates) which of these may be served by the bound on damage; None: no bound."""
        if self.bound is None:
            return None
        allowed, of_row = self.allowed()
        found: Mask = allowed[of_row][:, candidates]
        return found

    def only_allowed(self, mean: Floats, wanted: Floats, candidates: Codes) -> Floats:
        """Return values (rows, candidates), the less the better, as `drawn.within_bound` does; mean as there."""
        may = self.may(candidates)
        return wanted if may is None else within_bound(wanted[:, None].copy(), mean, may)[:, 0]
