# SPDX-License-Identifier: MIT
"""Cells of a network class and a website: one row of the table for each pair.

The row of class c and site s is c x (sites + 1) + s; the last site stands for all that are not in the vocabulary.
Classes are only ever added, at the end, so a row keeps its meaning and its sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from configtron.learner.chance import seeded
from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts, Floats, site_codes
from configtron.learner.damage import DamageBound
from configtron.learner.driver_support import Mask
from configtron.learner.evolve import Divergence, parted, remainders, split, split_by_wants
from configtron.learner.outcome_columns import OutcomeColumns, joined, no_outcomes
from configtron.learner.setting import Setting
from configtron.learner.split_test import values_of
from configtron.learner.state import check_shapes, read
from configtron.learner.tally import Tally, no_tally
from configtron.learner.warmstart import FIRST_NOISE_LN
from configtron.model.errors import BadInput
from configtron.model.grid import Grid

if TYPE_CHECKING:
    from configtron.learner.table_policy import TablePolicy

# First number of the seeds of a split's 2-means: of its own, so that looking and not splitting changes no decision.
SPLITTING = 31
# Sums of weights below this are rounding errors: no load counts as little.
ROUNDING = 1e-9
# Members of a class that is cut from another: a centroid is found to a fifth of its class's width.
PART_MEMBERS = 25
# How often classes are cut: first by the loads so far, then as fine as later loads allow.
CUTS = 2
# (outcomes before, under the classes of now; the classes before) -> the outcomes as they count in their new cells.
Move = Callable[[OutcomeColumns, OutcomeColumns, Classes], OutcomeColumns]


@dataclass(frozen=True, slots=True, eq=False)
class ClassCellsState:
    """Saved: classes, latest outcomes, sums per cell, cuts so far, splits so far."""

    classes_: Classes
    recent_: OutcomeColumns
    tally_: Tally
    parted_: int
    splits_: int


class ClassCells:
    """Cells by network class and website, and the loads in each.

    classes     those to start with, made offline (`classes.fit`, `classes.choose_k`)
    divergence  when a class is split; None: classes stay as they are
    window      latest outcomes that are kept, to judge classes (and to grow trees) by
    part_at     outcomes after which every class is cut into one for every PART_MEMBERS of its members by then,
                and again, once, after twice as many; 0: never
    counts      whether loads are counted: a policy that never learns has no sums
    splitting   seeds -> the generator of a split's 2-means
    """

    def __init__(
        self,
        grid: Grid,
        sites: tuple[str, ...],
        rng: np.random.Generator,
        classes: Classes,
        *,
        divergence: Divergence | None = None,
        window: int = 10_000,
        part_at: int = 0,
        counts: bool = True,
        splitting: Callable[[int, int], np.random.Generator] = seeded,
    ):
        self.grid, self.sites, self.rng = grid, sites, rng
        self.divergence, self.window, self.part_at, self.splitting = divergence, window, part_at, splitting
        self.classes_, self.recent_ = classes, no_outcomes()
        self.parted_ = 0
        self.splits_ = 0
        self.tally_ = no_tally(self.rows, len(grid) if counts else 0)
        # The sums of which the noise was computed last, and it.
        self._noise: tuple[Tally, float] | None = None

    @classmethod
    def of(cls, setting: Setting, *, window: int = 10_000, part_at: int = 0) -> ClassCells:
        """Return the cells of a setting's classes and sites."""
        world = (setting.grid, setting.sites, setting.rng, setting.classes)
        return cls(*world, divergence=setting.divergence, window=window, part_at=part_at)

    @property
    def rows(self) -> int:
        """Cells: classes x (sites + 1)."""
        return len(self.classes_) * (len(self.sites) + 1)

    @property
    def class_ids(self) -> tuple[str, ...]:
        return self.classes_.ids

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        network = self.classes_.of(contexts)
        return self.row_of(network, contexts), network

    def row_of(self, network: Codes, contexts: Contexts) -> Codes:
        row = network * (len(self.sites) + 1) + site_codes(contexts, self.sites)
        return np.where(network < 0, -1, row)

    def points(self, contexts: Contexts) -> Floats:
        return self.classes_.points(contexts)

    def class_of_row(self) -> Codes:
        return np.repeat(np.arange(len(self.classes_)), len(self.sites) + 1)

    def noise_ln(self) -> float:
        """Return the standard deviation of ln(ms) within cell and configuration; computed once for the same sums."""
        if self._noise is None or self._noise[0] is not self.tally_:
            self._noise = self.tally_, self.tally_.noise_ln(FIRST_NOISE_LN)
        return self._noise[1]

    def allowed(self, bound: DamageBound) -> Mask:
        return bound.allowed(self.classes_)

    def take(self, seen: OutcomeColumns, updates: int, move: Move | None = None) -> OutcomeColumns:
        """Count outcomes, then cut or split the classes that are due; return the outcomes under their classes of now.

        updates: the policy's updates so far, this one included; move: the changes to outcomes whose class moved.
        A caller with arrays of `rows` extends them where there are more rows afterwards.
        """
        self.tally_ = self.tally_.plus(seen.row, seen.configuration, seen.log_ms, seen.weight)
        self.recent_ = joined([self.recent_, seen])[-self.window :]
        if not len(seen):
            return seen
        before, classes = self.recent_, self.classes_
        self.classes_ = self._evolved(before, updates)
        if len(self.classes_) == len(classes):
            return seen
        after = self._reassigned(before)
        self.recent_ = after if move is None else move(before, after, classes)
        self.tally_ = regrouped(self.tally_, self.rows, before, self.recent_)
        return self.recent_[-len(seen) :]

    def _evolved(self, now: OutcomeColumns, updates: int) -> Classes:
        """Return the classes after the cut or split that is due: cut twice, split whenever they diverge. A class of
        everyone stays: nothing is known to part it by."""
        if self.classes_.everyone:
            return self.classes_
        now = replace(now, point=self.classes_.filled(now.network, now.point))
        part_at = min(self.part_at * (1 + self.parted_), self.window)
        if self.part_at and self.parted_ < CUTS and len(now) >= part_at:
            self.parted_ += 1
            # An update that brought more at once must not make for more classes.
            members = round(PART_MEMBERS * len(now) / part_at)
            return parted(self.classes_, now.network, now.point, members, self.rng)
        if self.divergence is None:
            return self.classes_
        after = self._split(now, self.divergence, updates)
        self.splits_ += len(after) - len(self.classes_)
        return after

    def _split(self, now: OutcomeColumns, bound: Divergence, updates: int) -> Classes:
        """Split by the spread of the members' loads; where that splits nothing, by the configurations they want."""
        rng = self.splitting(SPLITTING, updates)
        rest = remainders(now.row, now.configuration, now.log_ms)
        after = split(self.classes_, now.network, now.point, rest, bound, rng)
        if len(after) > len(self.classes_) or not bound.false_alarm:
            return after
        loads = (now.row, now.configuration, now.log_ms)
        return split_by_wants(after, now.network, now.point, loads, values_of(self.grid), bound)

    def _reassigned(self, seen: OutcomeColumns) -> OutcomeColumns:
        """Return outcomes of known clients under the class that is nearest now."""
        network = self.classes_.again(seen.network, seen.point)
        row = np.where(network < 0, seen.row, network * (len(self.sites) + 1) + seen.site)
        return replace(seen, row=row, network=network)

    def state(self) -> ClassCellsState:
        return ClassCellsState(self.classes_, self.recent_, self.tally_, self.parted_, self.splits_)

    def load(self, saved: dict[str, Any]) -> None:
        state, width = read(ClassCellsState, saved), self.tally_.count.shape[1]
        rows = len(state.classes_) * (len(self.sites) + 1)
        check_shapes("tally_", (rows, width), state.tally_.count, state.tally_.total, state.tally_.square)
        self.classes_, self.recent_, self.tally_ = state.classes_, state.recent_, state.tally_
        self.parted_, self.splits_ = state.parted_, state.splits_


def has_classes(policy: TablePolicy) -> bool:
    """Return whether a policy divides clients by network class."""
    return isinstance(policy.cells, ClassCells)


def classed(policy: TablePolicy) -> ClassCells:
    """Return a policy's cells. Errors: `BadInput` for a policy that does not divide clients by network class."""
    if not isinstance(policy.cells, ClassCells):
        raise BadInput(f"policy {policy.name!r} has no classes to write rules for")
    return policy.cells


def regrouped(tally: Tally, rows: int, before: OutcomeColumns, after: OutcomeColumns) -> Tally:
    """Return the tally with room for `rows`; outcomes that changed row or ln(ms) are taken out and in again."""
    room = np.zeros((rows - len(tally.count), tally.count.shape[1]))
    wide = Tally(*(np.concatenate((column, room)) for column in (tally.count, tally.total, tally.square)))
    changed = np.flatnonzero((before.row != after.row) | (before.log_ms != after.log_ms))
    nothing = no_tally(rows, tally.count.shape[1])
    gone, come = (
        nothing.plus(one.row[changed], one.configuration[changed], one.log_ms[changed], one.weight[changed])
        for one in (before, after)
    )
    # Sums that should cancel leave rounding behind.
    count = wide.count - gone.count + come.count
    count = np.where(count > ROUNDING, count, 0.0)
    total, square = wide.total - gone.total + come.total, wide.square - gone.square + come.square
    return Tally(count, np.where(count > 0, total, 0.0), np.where(count > 0, square, 0.0))
