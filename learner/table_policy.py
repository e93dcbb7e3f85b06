# SPDX-License-Identifier: MIT
"""TablePolicy: a policy is its parts (cells, expectation, table), outcomes that wait, and a `learn` of its own.

A policy's own file defines the cells that it divides clients into and how it makes a table (`learn`). The common part
is here, once: choosing, observing one by one or as columns, updates at the same outcome whatever the batches, state out
and in. It is the only base class: other common code is in parts that policies hold (`parts.py`).

`observe_many` cuts its columns where an update falls due. A caller that wants decisions independent of its batches
never chooses more than `due()` clients ahead of the outcomes observed, and, of a policy that screens outcomes between
updates, decides anew for the clients after an outcome that changed the table; `sim/loop.py` and `logged.taught` do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from configtron.learner.clients import buckets_of, impossible
from configtron.learner.columns import ARM, ARMS, Codes, Contexts, Decisions, Floats, contexts_of, site_codes
from configtron.learner.damage import DamageBound, bounded
from configtron.learner.driver_support import Mask, find_substitutes
from configtron.learner.outcome_columns import OutcomeColumns, joined, no_outcomes
from configtron.learner.parts import CellModel, OwnLoads, Partition, Saved
from configtron.learner.posterior_draws import within_bound
from configtron.learner.serving_table import Served, always, within
from configtron.learner.setting import Setting
from configtron.learner.state import check_shapes, decode, encode, read, rng_state, set_rng_state
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Context, Decision, Outcome

# Of the texts that `save` writes; raised when old texts no longer say enough.
STATE_VERSION = 4
# Where a policy stands in lists that names no place of its own.
LAST = 1000
# Outcomes between updates when the caller updates by its own clock.
NEVER = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """Saved of every policy: names of its classes, updates so far, outcomes that wait, the table."""

    class_ids_: tuple[str, ...]
    updates_: int
    waiting_: list[OutcomeColumns]
    served_: Served


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The row by which a policy is listed (`registry.py` gathers them): its constructor, and a few words on it.

    oracle: it needs the truth; takes: which of `warm`, `engine`, `evolve`, `by-device` and `budget` make a difference
    to it; place: where it stands in lists, those of the same place by name.
    """

    name: str
    make: Callable[[Setting], TablePolicy]
    help: str
    oracle: bool = False
    takes: tuple[str, ...] = ()
    place: int = LAST


class TablePolicy:
    """A policy that serves a table and remakes it at each update.

    grid           configurations it may choose
    sites          vocabulary of websites; the others share one row
    rng            all its chance
    cells          how it divides clients (`class_cells.py`, `prefix_cells.py`)
    model          its expectation of each cell; each cell by its own loads where None
    update_every   outcomes per update; 0: only when `update` is called
    among          (configurations,) those that may be chosen, None for all
    bound          on damage (`damage.py`), None for none; not part of a state (`saved.Recipe` has it)
    """

    # Of its row and of its saved states; the rows of one file are made by one class, under a name each.
    name: str = ""
    # Whether outcomes change anything.
    LEARNS: ClassVar[bool] = True
    # Whether outcomes change decisions between updates, too: `screen_many` does something.
    SCREENS: ClassVar[bool] = False
    # Whether it decides by the true network, which only a simulated world knows.
    SEES_TRUTH: ClassVar[bool] = False

    cells: Partition
    model: CellModel

    def __init__(
        self,
        grid: Grid,
        sites: tuple[str, ...],
        rng: np.random.Generator,
        cells: Partition,
        model: CellModel | None = None,
        *,
        update_every: int = 500,
    ):
        self.grid, self.sites, self.rng, self.update_every = grid, sites, rng, update_every
        self.cells, self.model = cells, model or OwnLoads(cells, grid)
        self.among: Mask | None = None
        self.bound: DamageBound | None = None
        self._served = always(np.full(cells.rows, grid.default), "default", grid.default)
        self.updates_ = 0
        self.waiting_: list[OutcomeColumns] = []
        self._held = 0

    @classmethod
    def make(cls, setting: Setting) -> Self:
        """Return the policy for a setting. Override it where a constructor takes more or less than the setting."""
        return cls(setting)  # type: ignore[arg-type, call-arg]

    # --- parts -------------------------------------------------------------------------------------------------------

    def parts(self) -> tuple[Saved, ...]:
        """Return the parts that have a saved state, in the order in which they are saved."""
        return ()

    @property
    def served_(self) -> Served:
        """Return the table until the next update, Default everywhere at the start.

        Two limits, in this order: configurations that can be put in force (`choose_among`), and a bound on damage to
        neighbours (`keep_within`). A choice outside a limit is replaced by the most similar one inside it.
        """
        return self._served

    @served_.setter
    def served_(self, served: Served) -> None:
        if self.among is not None:
            served = within(served, find_substitutes(self.grid, self.among))
        if self.bound is not None:
            mask, of_row = self.allowed()
            served = bounded(served, mask if self.among is None else mask & self.among, of_row, self.grid)
        self._served = served

    def allowed(self) -> tuple[Mask, Codes]:
        """Return (classes, configurations) whether a policy with a bound may serve each, and (rows,) each row's class;
        without classes one for all rows."""
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
        """Return values (rows, candidates), the less the better, as `within_bound` does; mean as there."""
        may = self.may(candidates)
        return wanted if may is None else within_bound(wanted[:, None].copy(), mean, may)[:, 0]

    @property
    def class_ids_(self) -> tuple[str, ...]:
        """Network classes by name; () for a policy without classes."""
        return self.cells.class_ids

    def keep_within(self, bound: DamageBound | None) -> None:
        """Serve nothing from now on that harms neighbours where a client is; None: whatever it does to them."""
        self.bound = bound
        self.served_ = self._served

    def choose_among(self, among: Mask) -> None:
        """Choose only among those configurations, (configurations,), and Default, from now on. It still learns from
        other programs' choices; it serves a choice outside as the most similar one among them."""
        self.among = among | (np.arange(len(self.grid)) == self.grid.default)
        self.served_ = self._served
        self.model.restrict(among)

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """Return (row of the table, network class) of each context, (n,) each, -1 where unknown."""
        return self.model.where(contexts)

    def expected_ln(self) -> Floats:
        """Return expected ln(ms) up to a constant of the row, (rows, configurations)."""
        return self.model.expected_ln()

    def cost(self, among: Mask) -> Floats:
        """Return (rows, configurations) the cost by which rows are merged into one rule (`CellModel.cost`)."""
        return self.model.cost(among, self.served_)

    def likeliest(self) -> Codes:
        """Return (rows,) each row's most likely configuration."""
        found: Codes = self.served_.probabilities(len(self.grid)).argmax(axis=1)
        return found

    def site_codes(self, contexts: Contexts) -> Codes:
        """Return sites in this policy's vocabulary, (n,); unknown ones all are the last code, `len(sites)`."""
        return site_codes(contexts, self.sites)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def choose_many(self, contexts: Contexts) -> Decisions:
        """Decide for n contexts; the same bits as n calls of `choose`."""
        chosen = self.decide(contexts, self.chances(len(contexts)))
        self.commit(chosen)
        return chosen

    def chances(self, n: int) -> Floats:
        """Draw the (n,) uniform numbers of the next n decisions."""
        return self.rng.random(n)

    def decide(self, contexts: Contexts, chance: Floats) -> Decisions:
        """Decide for n contexts by chance (n,), as the table stands; nothing is drawn or counted. A caller that finds
        that an outcome changed the table (`screen_many`) decides anew for the clients after it, by the same numbers."""
        row, network = self.where(contexts)
        return self.served_.draw(row, network, chance)

    def commit(self, decisions: Decisions) -> None:
        """Count decisions that stand, once each, in their order. Here: nothing is counted."""

    def choose(self, context: Context) -> Decision:
        """Decide for one context."""
        return self.decision(context, self.choose_many(contexts_of([context], self.sites)), 0)

    def decision(self, context: Context, decisions: Decisions, i: int) -> Decision:
        """Return the i-th of the decisions as a noun."""
        network, expected = int(decisions.network[i]), float(decisions.expected_ms[i])
        return Decision(
            context,
            self.class_ids_[network] if network >= 0 else "",
            self.grid.profiles[int(decisions.configuration[i])],
            ARMS[int(decisions.arm[i])],
            None if np.isnan(expected) else expected,
            float(decisions.propensity[i]),
        )

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def learn(self, seen: OutcomeColumns) -> None:
        """Take in outcomes (perhaps none) and make `served_`."""
        if self.LEARNS:
            raise NotImplementedError

    def screen_many(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats) -> tuple[int, bool]:
        """Take a first look at outcomes, in their order and each once, before they are observed.

        Return how many were taken and whether the last of them changed the table; it stops there. A policy that does
        not screen (`SCREENS`) takes all. Outcomes that were not screened are screened when they are observed.
        """
        return len(contexts), False

    def observe_many(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats, *, screened: bool = False) -> None:
        """Keep n outcomes, updating wherever one falls due. A policy that never learns keeps none. screened: all were
        through `screen_many`, and no update falls due before the last of them."""
        if not self.LEARNS:
            return
        site = self.site_codes(contexts)
        numbers = (decisions.row, decisions.network, decisions.configuration)
        whole, client = np.where(impossible(contexts, plt_ms), 0.0, 1.0), buckets_of(contexts)
        seen, at = OutcomeColumns(*numbers, site, self.cells.points(contexts), np.log(plt_ms), whole, client), 0
        while at < len(seen):
            upto = min(len(seen), at + self.due())
            if self.SCREENS and not screened:
                self._screen_all(contexts[at:upto], decisions[at:upto], plt_ms[at:upto])
            self.waiting_.append(seen[at:upto])
            self._held += upto - at
            at = upto
            if self.due() == 0:
                self.update()

    def _screen_all(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats) -> None:
        at = 0
        while at < len(contexts):
            at += self.screen_many(contexts[at:], decisions[at:], plt_ms[at:])[0]

    def observe(self, outcome: Outcome) -> None:
        """Keep one outcome; of a class that is unknown here, it counts for the class its context is in now."""
        decision = outcome.decision
        contexts = contexts_of([decision.context], self.sites)
        row, network = self.where(contexts)
        if decision.class_id in self.class_ids_ and decision.class_id:
            known = self.class_ids_.index(decision.class_id)
            network = np.array([known])
            row = self.cells.row_of(network, contexts)
        columns = Decisions(
            row,
            network,
            np.array([self.grid.index(decision.profile)]),
            np.array([ARM.get(decision.arm, -1)]),
            np.array([np.nan if decision.propensity is None else decision.propensity]),
            np.array([np.nan if decision.expected_ms is None else decision.expected_ms]),
        )
        self.observe_many(contexts, columns, np.array([float(outcome.plt_ms)]))

    def due(self) -> int:
        """Return how many outcomes are still to be observed before decisions change."""
        return self.update_every - self._held if self.update_every else NEVER

    def update(self) -> None:
        """Learn from the outcomes that wait."""
        seen = joined(self.waiting_) if self.waiting_ else no_outcomes()
        self.waiting_, self._held = [], 0
        self.updates_ += 1
        self.learn(seen)

    # --- state -------------------------------------------------------------------------------------------------------

    def save(self) -> str:
        """Return everything learned, waiting and drawn."""
        self.waiting_ = [joined(self.waiting_)] if self.waiting_ else []
        states = (TableState(self.class_ids_, self.updates_, self.waiting_, self.served_),
                  *(part.state() for part in self.parts()))  # fmt: skip
        own = {field.name: getattr(state, field.name) for state in states for field in fields(state)}
        world = {"grid": self._world(), "rng": rng_state(self.rng), "own": own}
        return encode({"policy": self.name, "version": STATE_VERSION, **world})

    def _world(self) -> tuple[str, ...]:
        """Return the names that rows and codes of a state refer to: configurations and sites."""
        return (*(profile.name for profile in self.grid.profiles), "|", *self.sites)

    def restore(self, text: str) -> None:
        """Restore the state of a saved policy. Errors: `BadInput` for another policy's text, or one that does not
        fit."""
        state: dict[str, Any] = decode(text)
        if state.get("policy") != self.name or state.get("version") != STATE_VERSION:
            found = f"{state.get('policy')!r}, version {state.get('version')}"
            raise BadInput(f"a saved {self.name!r}, version {STATE_VERSION}, is wanted; this is {found}")
        if not {"grid", "rng", "own"} <= state.keys() or state["grid"] != self._world():
            raise BadInput(
                f"the saved {self.name!r} knows other configurations or sites; start it anew, or restore there"
            )
        own = state["own"]
        table = read(TableState, own)
        for part in self.parts():
            part.load(own)
        width = table.served_.weight.shape
        check_shapes("served_", (self.cells.rows, *width[1:]), *table.served_.choices())
        check_shapes("served_", (self.cells.rows,), table.served_.explore)
        set_rng_state(self.rng, state["rng"])
        self.updates_, self.waiting_, self.served_ = table.updates_, table.waiting_, table.served_
        self._held = sum(map(len, self.waiting_))
