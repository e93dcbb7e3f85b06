# SPDX-License-Identifier: MIT
"""ConfigTron's ensemble: a Gaussian process finds, an epsilon bandit doubts, a decision tree spreads.

Question   Which configuration is best for this network class and website?
Method     Each cell is searched by expected improvement from a Latin hypercube of 4. Once at least 7 configurations
           were tried and the expected gain is below 5 %, the cell is handed over: a share `epsilon` of its sessions
           falls on any configuration, the rest on what the tree says. While a cell is searched, the operator's degree
           of randomness bounds the share of its sessions that test a configuration; the others get what the tree says,
           or the cell's best so far, or Default. The tree is grown at
           every update from the latest sessions, each labelled with its cell's best; it also gives the first sample of
           a cell that has seen nothing yet, and in place of the hypercube those of a class that is split off.
Stop when  a cell's search by the rule above, or, where others decide, when they do not try what it asks for; the
           ensemble never.
Reads as   one configuration per cell and its arm: lhc, gp, tree, greedy, epsilon.
Fails as   before the first tree: a searched cell's own best (greedy); a client of no class: Default.
Differs    where CT is silent or ambiguous, each an argument here: measurement 0019. CT bounds randomness by an operator
           in one place and tests on a cell's sessions in another: `Ensemble` reads the bound as one on all tests,
           `UnboundedEnsemble` as one on the epsilon bandit alone.
Source     CT sections 4.1.2 and 5.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from configtron.learner.cells import (
    DONE,
    FIRST,
    Searches,
    Stop,
    advance,
    joined_searches,
    observed_best,
    shrunk_best,
    started,
)
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import ARM, Codes, Floats
from configtron.learner.engines.grid import Engine
from configtron.learner.policy import Seen
from configtron.learner.served import Served
from configtron.learner.tree import LEAST_LEAF, Tree, grow, tree_columns
from configtron.model.errors import BadInput

# CT names the operator's bound and no value: a quarter of the sessions searches a cell in some thirty loads.
RANDOMNESS = 0.25

# Rules for the label of a cell's sessions: as CT implies, and with lucky single loads held back.
LABELS = {"observed": observed_best, "shrunk": shrunk_best}


class Ensemble(ClassPolicy):
    """ConfigTron. Its arguments are CT's numbers and this project's readings of what CT leaves open.

    engine          finds the next configuration of a cell
    first_samples   of the Latin hypercube
    stop            when a cell's search is over
    randomness      most of a cell's sessions that test a configuration while the cell is searched, 0 to 1
    epsilon         share of a searched cell's sessions on any configuration at all, at most `randomness`
    least_leaf      samples in a leaf of the tree
    labels          "observed" (lowest mean; one lucky load can win) or "shrunk"
    use_gp          without: cells are explored by epsilon alone (CT's Fig. 6 "no GP")
    use_tree        without: each cell keeps its own best (CT's Fig. 6 "no tree")
    seed_by_tree    without: a class that is split off is searched from a Latin hypercube, as those of the start are
    """

    name: ClassVar[str] = "configtron"
    STATE: ClassVar[tuple[str, ...]] = (*ClassPolicy.STATE, "searches_", "tree_")

    def __init__(
        self,
        *given: Any,
        engine: Engine,
        first_samples: int = 4,
        stop: Stop | None = None,
        randomness: float = RANDOMNESS,
        epsilon: float = 0.1,
        least_leaf: int = LEAST_LEAF,
        labels: str = "observed",
        use_gp: bool = True,
        use_tree: bool = True,
        seed_by_tree: bool = True,
        **more: Any,
    ):
        super().__init__(*given, **more)
        if not 0 < randomness <= 1:
            raise BadInput(f"degree of randomness {randomness}: a share above 0, at most 1")
        self.engine, self.stop = engine, stop or Stop()
        self.randomness, self.epsilon = randomness, min(epsilon, randomness)
        self.least_leaf, self.labels = least_leaf, LABELS[labels]
        self.use_gp, self.use_tree, self.seed_by_tree = use_gp, use_tree, seed_by_tree
        self.searches_ = started(self.rows, self.grid, first_samples, self.rng)
        self.tree_: Tree | None = None
        self.served_ = self._serve()

    def grow(self, before: int) -> None:
        more = started(self.rows - before, self.grid, self.searches_.first.shape[1], self.rng)
        if self.seed_by_tree and self.tree_ is not None:
            told = self._told_by(self.tree_, before, more.first.shape[1])
            # of whom the tree has nothing to say, the hypercube has
            first = np.where(told[:, :1] >= 0, told, more.first)
            more = Searches(more.phase, first[:, 0].copy(), first, more.gain, more.since)
        self.searches_ = joined_searches(self.searches_, more)

    def _told_by(self, tree: Tree, before: int, samples: int) -> Codes:
        """(rows from `before` on, samples) what the tree says of the members of each new class, the most frequent
        first; -1 for none, and at the end: a search that the tree began is told by that."""
        width, found = len(self.sites) + 1, np.full((self.rows - before, samples), -1)
        for row in range(before, self.rows):
            points = self.recent_.point[self.recent_.network == row // width]
            site = np.full(len(points), row % width)
            said = np.bincount(tree.predict(tree_columns(points, site, len(self.sites))), minlength=len(self.grid))
            order = np.argsort(-said, kind="stable")[: samples - 1]
            told = order[said[order] > 0]
            found[row - before, : len(told)] = told
        return found

    def learn(self, seen: Seen) -> None:
        if self.use_gp:
            rows = np.unique(seen.row[seen.row >= 0])
            self.searches_ = advance(self.searches_, self.tally_, rows, self.engine, self.stop)
        if self.use_tree:
            self.tree_ = self._grown()
            self._seed_new_cells()
        self.served_ = self._serve()

    def _searched(self) -> npt.NDArray[np.bool_]:
        """(R,) whether a cell's search is over; without a GP, from its first outcome on."""
        done = self.searches_.phase == DONE if self.use_gp else self.tally_.count.sum(axis=1) > 0
        return np.asarray(done, dtype=np.bool_)

    def _grown(self) -> Tree | None:
        row = self.recent_.row
        labelled = (row >= 0) & self._searched()[np.maximum(row, 0)]
        if not labelled.any():
            return self.tree_
        best = self.labels(self.tally_, self.grid.default)
        columns = tree_columns(self.recent_.point[labelled], self.recent_.site[labelled], len(self.sites))
        return grow(columns, best[row[labelled]], self.sites, least_leaf=self.least_leaf)

    def _cell_columns(self) -> Floats:
        width = len(self.sites) + 1
        site = np.tile(np.arange(width), len(self.classes_))
        return tree_columns(np.repeat(self.classes_.centroid, width, axis=0), site, len(self.sites))

    def _seed_new_cells(self) -> None:
        """The tree's word is the first sample of a cell that has seen nothing yet, of whichever class."""
        if self.tree_ is None:
            return
        new = (self.searches_.phase == FIRST) & ~self.tally_.count.any(axis=1)
        testing = np.where(new, self.tree_.predict(self._cell_columns()), self.searches_.testing)
        state = self.searches_
        self.searches_ = Searches(state.phase, testing, state.first, state.gain, state.since)

    def _serve(self) -> Served:
        done, own = self._searched(), observed_best(self.tally_, self.grid.default)
        after: Codes = own if self.tree_ is None else self.tree_.predict(self._cell_columns())
        picks = np.stack((self.searches_.testing if self.use_gp else after, after), axis=1)
        seen = np.take_along_axis(self.tally_.count, picks, axis=1)
        mean = np.take_along_axis(self.tally_.total, picks, axis=1) / np.maximum(seen, 1.0)
        expected = np.where(seen > 0, np.exp(mean), np.nan)
        tests = np.where(done | (not self.use_gp), 0.0, self.randomness)
        weight = np.stack((tests, 1.0 - tests), axis=1)
        explore = np.where(tests > 0, 0.0, self.epsilon)
        everything = np.arange(len(self.grid))
        return Served(picks, self._arms(), weight, expected, explore, everything, self.grid.default)

    def _arms(self) -> npt.NDArray[np.int8]:
        """(R, 2) why a cell gets what it tests, and why what it gets otherwise."""
        first = np.where(self.searches_.first[:, -1] < 0, ARM["tree"], ARM["lhc"])
        search = np.where(self.searches_.phase == FIRST, first, ARM["gp"])
        unseen = ~self.tally_.count.any(axis=1)
        best = (
            np.where(unseen, ARM["default"], ARM["greedy"]) if self.tree_ is None else np.full(self.rows, ARM["tree"])
        )
        return np.stack((search, best), axis=1).astype(np.int8)


class UnboundedEnsemble(Ensemble):
    """The harsh reading: while a cell is searched, all of its sessions get the configuration under test."""

    name: ClassVar[str] = "configtron_unbounded"

    def __init__(self, *given: Any, randomness: float = 1.0, **more: Any):
        super().__init__(*given, randomness=randomness, **more)
