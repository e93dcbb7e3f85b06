# SPDX-License-Identifier: MIT
"""ConfigTron's ensemble: a Gaussian process finds, an epsilon bandit doubts, a decision tree spreads.

Question   Which configuration is best for this network class and website?
Method     Each cell is searched by expected improvement from a Latin hypercube of 4. Once at least 7 configurations
           were tried and the expected gain is below 5 %, the cell is handed over: a share `epsilon` of its sessions
           falls on any configuration, the rest on the tree's prediction. While a cell is searched, the operator's
           degree of randomness bounds the share of its sessions that test a configuration; the others get the tree's
           prediction, or the cell's best so far, or Default. The tree is grown at every update from the latest
           sessions, each labelled with its cell's best; it also gives the first sample of a cell that has seen nothing
           yet, and in place of the hypercube those of a class that is split off.
Stop when  a cell's search by the rule above, or, where other programs decide, when they do not try its suggestions; the
           ensemble never.
Reads as   one configuration per cell and its arm: lhc, gp, tree, greedy, epsilon.
Fails as   before the first tree: a searched cell's own best (greedy); a client of no class: Default.
Differs    where CT is silent or ambiguous, each an argument here. "80 as the minimum number of leaf nodes" is 80
           samples in a leaf. A process is that of a class and a website, not of a class: page load times differ
           several-fold between sites. The tree predicts one configuration, since knobs do not act by themselves, and
           learns from the best observed mean, which is often one lucky load. Epsilon is 0.1, constant; an iteration of
           CT's Figure 6a is an update. CT bounds randomness by an operator in one place and tests on a cell's sessions
           in another: `Ensemble` reads the bound as one on all tests, `unbounded` as one on the epsilon bandit alone.
Source     CT sections 4.1.2 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from configtron.learner.cell_search import FIRST_SAMPLES, CellSearch
from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import ARM, Codes, Floats
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.searches import DONE, FIRST, Searches, Stop, observed_best, shrunk_best
from configtron.learner.serving_table import Served
from configtron.learner.setting import CLASSES, ENGINE, Setting
from configtron.learner.state import read
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.learner.tree import LEAST_LEAF, Tree, grow, tree_columns
from configtron.model.errors import BadInput

# CT names the operator's bound and no value: a quarter of the sessions searches a cell in some thirty loads.
RANDOMNESS = 0.25

# Rules for the label of a cell's sessions: as CT implies, and with lucky single loads held back.
LABELS = {"observed": observed_best, "shrunk": shrunk_best}


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """CT's numbers, and this project's readings where CT leaves them open.

    first_samples   of the Latin hypercube
    randomness      most of a cell's sessions that test a configuration while the cell is searched, above 0 to 1
    epsilon         share of a searched cell's sessions on any configuration at all, at most `randomness`
    least_leaf      samples in a leaf of the tree
    labels          "observed" (lowest mean; one lucky load can win) or "shrunk"
    use_gp          without: cells are explored by epsilon alone (CT's Fig. 6 "no GP")
    use_tree        without: each cell keeps its own best (CT's Fig. 6 "no tree")
    seed_by_tree    without: a class that is split off is searched from a Latin hypercube, as those of the start are
    """

    first_samples: int = FIRST_SAMPLES
    randomness: float = RANDOMNESS
    epsilon: float = 0.1
    least_leaf: int = LEAST_LEAF
    labels: str = "observed"
    use_gp: bool = True
    use_tree: bool = True
    seed_by_tree: bool = True


BOUNDED = EnsembleOptions()


@dataclass(frozen=True, slots=True, eq=False)
class EnsembleState:
    """Saved: the tree of the last update."""

    tree_: Tree | None


class Ensemble(TablePolicy):
    """ConfigTron. stop: when a cell's search is over."""

    name = "configtron"
    cells: ClassCells

    def __init__(self, s: Setting, options: EnsembleOptions = BOUNDED, *, stop: Stop | None = None):
        super().__init__(s.grid, s.sites, s.rng, ClassCells.of(s), update_every=s.update_every)
        if not 0 < options.randomness <= 1:
            raise BadInput(f"degree of randomness {options.randomness}: a share above 0, at most 1")
        self.options = replace(options, epsilon=min(options.epsilon, options.randomness))
        over, first = stop or Stop(patience=s.patience), options.first_samples
        self.search = CellSearch(self.cells, s.grid, s.rng, s.searcher(), first_samples=first, stop=over)
        self.tree_: Tree | None = None
        self.served_ = self._table()

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells, self.search, self)

    def state(self) -> EnsembleState:
        return EnsembleState(self.tree_)

    def load(self, saved: dict[str, Any]) -> None:
        self.tree_ = read(EnsembleState, saved).tree_

    def _grow(self, before: int) -> None:
        """Begin searches in the rows from `before` on."""
        more = self.search.more(before)
        if self.options.seed_by_tree and self.tree_ is not None:
            seeds = self._seeds(self.tree_, before, more.first.shape[1])
            # where the tree has no member to predict for, the hypercube's samples stay
            first = np.where(seeds[:, :1] >= 0, seeds, more.first)
            more = Searches(more.phase, first[:, 0].copy(), first, more.gain, more.since)
        self.search.extend(more)

    def _seeds(self, tree: Tree, before: int, samples: int) -> Codes:
        """Return (rows from `before` on, samples) the tree's predictions for the members of each new class, the most
        frequent first; -1 for none, and at the end: the mark of a search that the tree began."""
        width, found = len(self.sites) + 1, np.full((self.cells.rows - before, samples), -1)
        for row in range(before, self.cells.rows):
            points = self.cells.recent_.point[self.cells.recent_.network == row // width]
            site = np.full(len(points), row % width)
            votes = np.bincount(tree.predict(tree_columns(points, site, len(self.sites))), minlength=len(self.grid))
            order = np.argsort(-votes, kind="stable")[: samples - 1]
            seeds = order[votes[order] > 0]
            found[row - before, : len(seeds)] = seeds
        return found

    def learn(self, seen: OutcomeColumns) -> None:
        before = self.cells.rows
        seen = self.cells.take(seen, self.updates_)
        if self.cells.rows > before:
            self._grow(before)
        if self.options.use_gp:
            self.search.advance(seen.row)
        if self.options.use_tree:
            self.tree_ = self._grown_tree()
            self._seed_new_cells()
        self.served_ = self._table()

    def _searched(self) -> npt.NDArray[np.bool_]:
        """Return (R,) whether a cell's search is over; without a GP, from its first outcome on."""
        done = self.search.searches_.phase == DONE if self.options.use_gp else self.cells.tally_.count.sum(axis=1) > 0
        return np.asarray(done, dtype=np.bool_)

    def _grown_tree(self) -> Tree | None:
        row = self.cells.recent_.row
        labelled = (row >= 0) & self._searched()[np.maximum(row, 0)]
        if not labelled.any():
            return self.tree_
        best = LABELS[self.options.labels](self.cells.tally_, self.grid.default)
        columns = tree_columns(self.cells.recent_.point[labelled], self.cells.recent_.site[labelled], len(self.sites))
        return grow(columns, best[row[labelled]], self.sites, least_leaf=self.options.least_leaf)

    def _cell_columns(self) -> Floats:
        width = len(self.sites) + 1
        site = np.tile(np.arange(width), len(self.cells.classes_))
        return tree_columns(np.repeat(self.cells.classes_.centroid, width, axis=0), site, len(self.sites))

    def _seed_new_cells(self) -> None:
        """Make the tree's prediction the first sample of each cell that has seen nothing yet."""
        if self.tree_ is None:
            return
        new = (self.search.searches_.phase == FIRST) & ~self.cells.tally_.count.any(axis=1)
        testing = np.where(new, self.tree_.predict(self._cell_columns()), self.search.searches_.testing)
        state = self.search.searches_
        self.search.searches_ = Searches(state.phase, testing, state.first, state.gain, state.since)

    def _table(self) -> Served:
        done, own = self._searched(), observed_best(self.cells.tally_, self.grid.default)
        after: Codes = own if self.tree_ is None else self.tree_.predict(self._cell_columns())
        picks = np.stack((self.search.searches_.testing if self.options.use_gp else after, after), axis=1)
        seen = np.take_along_axis(self.cells.tally_.count, picks, axis=1)
        mean = np.take_along_axis(self.cells.tally_.total, picks, axis=1) / np.maximum(seen, 1.0)
        expected = np.where(seen > 0, np.exp(mean), np.nan)
        tests = np.where(done | (not self.options.use_gp), 0.0, self.options.randomness)
        weight = np.stack((tests, 1.0 - tests), axis=1)
        explore = np.where(tests > 0, 0.0, self.options.epsilon)
        everything = np.arange(len(self.grid))
        return Served(picks, self._arms(), weight, expected, explore, everything, self.grid.default)

    def _arms(self) -> npt.NDArray[np.int8]:
        """Return (R, 2) the arm of a cell's configuration under test, and the arm of its other configuration."""
        first = np.where(self.search.searches_.first[:, -1] < 0, ARM["tree"], ARM["lhc"])
        search = np.where(self.search.searches_.phase == FIRST, first, ARM["gp"])
        unseen = ~self.cells.tally_.count.any(axis=1)
        best = (
            np.where(unseen, ARM["default"], ARM["greedy"])
            if self.tree_ is None
            else np.full(self.cells.rows, ARM["tree"])
        )
        return np.stack((search, best), axis=1).astype(np.int8)


def unbounded(s: Setting) -> Ensemble:
    """Return the harsh reading: while a cell is searched, all of its sessions get the configuration under test."""
    return Ensemble(s, EnsembleOptions(randomness=1.0))


ROWS = (
    PolicyRow("configtron", Ensemble,
        "the paper's ensemble, a quarter of a cell's sessions testing while it is searched",
        takes=ENGINE + CLASSES, place=11),
    PolicyRow("configtron_unbounded", unbounded, "the same, all of a cell's sessions testing while it is searched",
        takes=ENGINE + CLASSES, place=12),
)  # fmt: skip
