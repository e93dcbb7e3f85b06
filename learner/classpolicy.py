# SPDX-License-Identifier: MIT
"""Policies that tell clients apart by network class and website: one table row, a cell, for each pair.

The row of class c and site s is c x (sites + 1) + s; the last site stands for all that are not in the vocabulary.
Classes are only ever added, at the end, so a row keeps its meaning and what was learned of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.differing import values_of
from configtron.learner.evolve import Divergence, parted, remainders, split, split_by_wants
from configtron.learner.policy import Seen, TablePolicy, joined, nothing_seen
from configtron.learner.reached import Mask, twins
from configtron.learner.tally import Tally, no_tally
from configtron.model.grid import Grid

# Loads by which one cell's configuration is drawn to what that configuration did everywhere.
PRIOR_LOADS = 3.0
# What the rows' own means weigh beside a client's vote: they decide ties alone.
TIE = 1e-6
# Where the generator of a split's 2-means begins: of its own, so that looking and not splitting changes no decision.
SPLITTING = 31
# Sums of weights below this are what rounding left of none: no load counts as little.
ROUNDING = 1e-9
# Members of a class that is cut from another: a centroid is found to a fifth of its class's width.
PART_MEMBERS = 25
# How often classes are cut: first for what loads there are to be compared within, then as fine as they allow.
CUTS = 2


class ClassPolicy(TablePolicy):
    """A table policy over cells.

    classes     those to start with, made offline (`classes.fit`, `classes.choose_k`)
    divergence  when a class is split; None: classes stay as they are
    window      latest outcomes that are kept, to judge classes (and to grow trees) by
    part_at     outcomes after which every class is cut into one for every PART_MEMBERS of its members by then,
                and again, once, after twice as many; 0: never
    """

    STATE: ClassVar[tuple[str, ...]] = ("classes_", "recent_", "tally_", "parted_", "splits_")
    # Whether `cost` speaks of configurations that a row never loaded, by a model over all rows.
    MODELLED: ClassVar[bool] = False

    def __init__(
        self,
        grid: Grid,
        sites: tuple[str, ...],
        rng: np.random.Generator,
        classes: Classes,
        *,
        update_every: int = 500,
        divergence: Divergence | None = None,
        window: int = 10_000,
        part_at: int = 0,
    ):
        super().__init__(grid, sites, rng, update_every=update_every)
        self.divergence, self.window, self.part_at = divergence, window, part_at
        # Cuts so far.
        self.parted_ = 0
        self.splits_ = 0
        self.classes_ = classes
        self.class_ids_ = classes.ids
        self.recent_ = nothing_seen()
        self.tally_ = no_tally(self.rows, len(grid) if self.LEARNS else 0)

    @property
    def rows(self) -> int:
        """Cells: classes x (sites + 1)."""
        return len(self.classes_) * (len(self.sites) + 1)

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        network = self.classes_.of(contexts)
        return self.row_of(network, contexts), network

    def allowed(self) -> tuple[Mask, Codes]:
        assert self.bound is not None, "a policy with a bound"
        mask = self.bound.allowed(self.classes_)
        return mask, np.repeat(np.arange(len(mask)), len(self.sites) + 1)

    def points(self, contexts: Contexts) -> Floats:
        return self.classes_.points(contexts)

    def row_of(self, network: Codes, contexts: Contexts) -> Codes:
        row = network * (len(self.sites) + 1) + self.site_codes(contexts)
        return np.where(network < 0, -1, row)

    def prepare(self, seen: Seen) -> Seen:
        """Keep what was seen, split what diverged; outcomes come back under the class they belong to now."""
        self.tally_ = self.tally_.plus(seen.row, seen.configuration, seen.log_ms, seen.weight)
        self.recent_ = joined([self.recent_, seen])[-self.window :]
        if not len(seen):
            return seen
        now, before = self.recent_, self.classes_
        self.classes_ = self._evolved(now)
        self.class_ids_ = self.classes_.ids
        if len(self.classes_) == len(before):
            return seen
        self.recent_ = self.moved(now, before)
        self.tally_ = regrouped(self.tally_, self.rows, now, self.recent_)
        self.grow(len(before) * (len(self.sites) + 1))
        return self.recent_[-len(seen) :]

    def _evolved(self, now: Seen) -> Classes:
        """The classes after what is due: cut twice, split whenever they diverge."""
        now = replace(now, point=self.classes_.filled(now.network, now.point))
        part_at = min(self.part_at * (1 + self.parted_), self.window)
        if self.part_at and self.parted_ < CUTS and len(now) >= part_at:
            self.parted_ += 1
            # An update that brought more at once must not make for more classes.
            members = round(PART_MEMBERS * len(now) / part_at)
            return parted(self.classes_, now.network, now.point, members, self.rng)
        if self.divergence is None:
            return self.classes_
        after = self._split(now, self.divergence)
        self.splits_ += len(after) - len(self.classes_)
        return after

    def _split(self, now: Seen, bound: Divergence) -> Classes:
        """By the spread of the members' loads; where that splits nothing, by what they want."""
        rng = np.random.default_rng((SPLITTING, self.updates_))
        rest = remainders(now.row, now.configuration, now.log_ms)
        after = split(self.classes_, now.network, now.point, rest, bound, rng)
        if len(after) > len(self.classes_) or not bound.false_alarm:
            return after
        loads = (now.row, now.configuration, now.log_ms)
        return split_by_wants(after, now.network, now.point, loads, values_of(self.grid), bound)

    def moved(self, seen: Seen, before: Classes) -> Seen:
        """Outcomes of known clients under the class that is nearest now; `before` are the classes they were of."""
        network = self.classes_.again(seen.network, seen.point)
        row = np.where(network < 0, seen.row, network * (len(self.sites) + 1) + seen.site)
        return replace(seen, row=row, network=network)

    def expected_ln(self) -> Floats:
        """(rows, configurations) expected ln(ms) up to a constant of the row, by what this policy has seen.

        Nothing is served by it where a policy searches every cell on its own: rules are made by `cost`, and judged by
        outcomes (`judged.py`). Here: the row's mean plus the configuration's mean difference to its rows, and what the
        pair showed itself, each drawn to what stands above it.
        """
        count, total = self.tally_.count, self.tally_.total
        loads = count.sum(axis=1, keepdims=True)
        level = total.sum(axis=1, keepdims=True) / np.maximum(loads, 1.0)
        rest = total - count * level
        effect = rest.sum(axis=0) / (count.sum(axis=0) + PRIOR_LOADS)
        found: Floats = level + (rest + PRIOR_LOADS * effect) / (count + PRIOR_LOADS)
        return found

    def likeliest(self) -> Codes:
        """(R,) each row's most likely configuration."""
        found: Codes = self.served_.probabilities(len(self.grid)).argmax(axis=1)
        return found

    def cost(self, among: Mask) -> Floats:
        """(rows, configurations) what rules that merge rows sum over their clients, the lowest wins; inf outside
        `among`.

        Here every client votes for what its own row serves most, or for what comes nearest to that among those allowed;
        a tie goes to the lower mean by the rows' own loads. Nothing is carried from one row to another, as the policy
        carries nothing.
        """
        vote = twins(self.grid, among)[self.likeliest()]
        cost = 1.0 + TIE * self._own_excess()
        cost[np.arange(self.rows), vote] -= 1.0
        return np.where(among, cost, np.inf)

    def _own_excess(self) -> Floats:
        """(rows, configurations) each row's own mean loads over its mean configuration, ln(ms), drawn to it."""
        if not self.LEARNS:
            return np.zeros((self.rows, len(self.grid)))
        count, total = self.tally_.count, self.tally_.total
        tried = np.maximum((count > 0).sum(axis=1, keepdims=True), 1)
        level = (total / np.maximum(count, 1.0)).sum(axis=1, keepdims=True) / tried
        found: Floats = (total - count * level) / (count + PRIOR_LOADS)
        return found

    def grow(self, before: int) -> None:
        """Rows from `before` on are new: a policy with more per row than its tally adds it here."""


def regrouped(tally: Tally, rows: int, before: Seen, after: Seen) -> Tally:
    """The tally with room for `rows`; outcomes that changed row or ln(ms) are taken out and in again."""
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
