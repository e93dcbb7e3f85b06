# SPDX-License-Identifier: MIT
"""The parts that a policy holds: context -> cell, the expectation in each cell, the served table (`table_policy.py`).

A policy is a `TablePolicy` with one of each. `ClassCells`, `PrefixCells`, `OneCell` and `ConditionCells` are
partitions; `OwnLoads` and `SharedModel` are expectations. A part that learns declares its saved state (`state.read`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.damage import DamageBound
from configtron.learner.driver_support import Mask, find_substitutes
from configtron.learner.serving_table import Served
from configtron.learner.tally import Tally, expected_ln, no_tally, own_excess
from configtron.model.grid import Grid

# The weight of the rows' own means beside a client's vote: they decide ties alone.
TIE = 1e-6


class Saved(Protocol):
    """A part with a saved state: a dataclass, whose fields are the names in the saved text."""

    def state(self) -> Any:
        """Return the state as its dataclass."""

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state. Errors: `BadInput` where a field is missing or of another type or shape."""


class Partition(Protocol):
    """How a policy divides its clients: each context is of one cell, a row of the served table, or of none (-1)."""

    tally_: Tally

    @property
    def rows(self) -> int:
        """Cells."""

    @property
    def class_ids(self) -> tuple[str, ...]:
        """Network classes by name; () where the partition has none."""

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """Return (cell, network class) of each context, (n,) each, -1 where unknown."""

    def row_of(self, network: Codes, contexts: Contexts) -> Codes:
        """Return the cells (n,) of contexts that an outcome assigns to these classes (n,)."""

    def points(self, contexts: Contexts) -> Floats:
        """Return where this partition places contexts, (n, 3 + axes)."""

    def class_of_row(self) -> Codes:
        """Return the network class of each cell, (rows,); 0 for all where there are no classes."""

    def allowed(self, bound: DamageBound) -> Mask:
        """Return (classes, configurations) whether a bound lets a class have a configuration; one row without
        classes."""


class CellModel(Protocol):
    """A policy's expectation of configurations in each cell, by all outcomes so far."""

    @property
    def shared(self) -> bool:
        """Return whether it extends to configurations that a cell never loaded, by loads of other cells."""

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """Return the partition's cells; -1 also for clients whose outcomes contradict their features."""

    def restrict(self, among: Mask) -> None:
        """Consider only these configurations, (configurations,), and Default."""

    def expected_ln(self) -> Floats:
        """Return expected ln(ms) up to a constant of the row, (rows, configurations)."""

    def cost(self, among: Mask, served: Served) -> Floats:
        """Return (rows, configurations) the cost that rules sum over their clients when they merge rows; the lowest
        wins, and configurations outside `among` are infinite."""


class OneCell:
    """All clients alike: one row."""

    rows = 1
    class_ids: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.tally_ = no_tally(self.rows, 0)

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        return np.zeros(len(contexts), dtype=np.int64), np.full(len(contexts), -1)

    def row_of(self, network: Codes, contexts: Contexts) -> Codes:
        return self.where(contexts)[0]

    def points(self, contexts: Contexts) -> Floats:
        return contexts.points()

    def class_of_row(self) -> Codes:
        return np.zeros(self.rows, dtype=np.int64)

    def allowed(self, bound: DamageBound) -> Mask:
        return bound.everywhere()[None]


class OwnLoads:
    """Each cell by its own loads alone: nothing is carried from one row to another."""

    shared = False

    def __init__(self, cells: Partition, grid: Grid):
        self.cells, self.grid = cells, grid

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        return self.cells.where(contexts)

    def restrict(self, among: Mask) -> None:
        """Every configuration that was observed counts all the same."""

    def expected_ln(self) -> Floats:
        return expected_ln(self.cells.tally_)

    def cost(self, among: Mask, served: Served) -> Floats:
        """Count votes: every client for the configuration that its own row serves most, or the most similar one
        allowed. A tie goes to the lower mean by the rows' own loads."""
        likeliest = served.probabilities(len(self.grid)).argmax(axis=1)
        vote = find_substitutes(self.grid, among)[likeliest]
        cost = 1.0 + TIE * own_excess(self.cells.tally_, len(self.grid))
        cost[np.arange(len(vote)), vote] -= 1.0
        return np.where(among, cost, np.inf)
