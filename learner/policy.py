# SPDX-License-Identifier: MIT
"""What every policy is made of: a table that decides, outcomes that wait, an update that makes the next table.

A subclass says how it tells clients apart (`where`) and how it learns (`learn`). All else is here, once: choosing,
observing one by one or as columns, updates at the same outcome whatever the batches, state out and in.

`observe_many` cuts its columns where an update falls due. A caller that wants decisions independent of its batches
never chooses more than `due()` clients ahead of what it has observed, and, of a policy that screens outcomes between
updates, decides anew what comes after an outcome that changed the table; `sim/loop.py` and `logged.taught` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from configtron.learner.clients import buckets_of, impossible
from configtron.learner.columns import ARM, ARMS, Codes, Contexts, Decisions, Floats, contexts_of, site_codes
from configtron.learner.damage import DamageBound, bounded
from configtron.learner.reached import Mask, twins
from configtron.learner.served import Served, within
from configtron.learner.state import decode, encode, keep, rng_state, set_rng_state
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Context, Decision, Outcome

# Of the texts that `save` writes; raised when old texts no longer say enough.
STATE_VERSION = 4
# Outcomes between updates when the caller updates by its own clock.
NEVER = 2**62


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Outcomes as columns, (n,) each: table row, class, configuration, site, point (n, 3 + axes), ln(ms), how much it
    counts (1: whole, 0: it cannot be), and whose it is (`clients.buckets_of`, -1: nobody's)."""

    row: Codes
    network: Codes
    configuration: Codes
    site: Codes
    point: Floats
    log_ms: Floats
    weight: Floats
    client: Codes

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: slice | Codes) -> Seen:
        return Seen(*(getattr(self, name)[rows] for name in Seen.__dataclass_fields__))


def nothing_seen() -> Seen:
    """No outcomes."""
    none = np.zeros(0, dtype=np.int64)
    return Seen(none, none, none, none, np.zeros((0, 3)), np.zeros(0), np.zeros(0), none)


def joined(parts: list[Seen]) -> Seen:
    """Outcomes after outcomes; of those that are none, nobody knows how many coordinates their points would have."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    names = Seen.__dataclass_fields__
    return Seen(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class TablePolicy:
    """A policy that serves a table and remakes it at each update.

    grid           configurations it may choose
    sites          vocabulary of websites; others are learned about together
    rng            all its chance
    update_every   outcomes per update; 0: only when `update` is called
    """

    name: ClassVar[str]
    # What may be served, where load time is not all that counts; not part of a state (`saved.Recipe` has it).
    bound: DamageBound | None = None
    # Attributes that `save` writes besides what every policy has.
    STATE: ClassVar[tuple[str, ...]] = ()
    LEARNS: ClassVar[bool] = True
    # Whether outcomes change decisions between updates, too: `screen_many` does something.
    SCREENS: ClassVar[bool] = False

    def __init__(self, grid: Grid, sites: tuple[str, ...], rng: np.random.Generator, *, update_every: int = 500):
        self.grid, self.sites, self.rng, self.update_every = grid, sites, rng, update_every
        self.class_ids_: tuple[str, ...] = ()
        self.updates_ = 0
        self.waiting_: list[Seen] = []
        self._held = 0
        self.among_: Mask | None = None

    @property
    def served_(self) -> Served:
        """The table until the next update: of configurations that may be chosen, and within a bound on damage."""
        return self._served

    @served_.setter
    def served_(self, served: Served) -> None:
        if self.among_ is not None:
            served = within(served, twins(self.grid, self.among_))
        if self.bound is not None:
            mask, of_row = self.allowed()
            served = bounded(served, mask if self.among_ is None else mask & self.among_, of_row, self.grid)
        self._served = served

    def keep_within(self, bound: DamageBound) -> None:
        """Serve nothing from now on that harms neighbours where a client is."""
        self.bound = bound
        self.served_ = self._served

    def allowed(self) -> tuple[Mask, Codes]:
        """(classes, configurations) what may be served, and (rows,) each row's class; without classes all are one."""
        assert self.bound is not None, "a policy with a bound"
        return self.bound.everywhere()[None], np.zeros(len(self._served.explore), dtype=np.int64)

    def choose_among(self, among: Mask) -> None:
        """Choose only among those configurations, (configurations,), and Default, from now on. What others did is
        learned from all the same; a choice that is not among them is served as the one of them most like it."""
        self.among_ = among | (np.arange(len(self.grid)) == self.grid.default)
        self.served_ = self._served

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """(row of the table, network class) per context, each (n,), -1 where unknown."""
        raise NotImplementedError

    def learn(self, seen: Seen) -> None:
        """Take in outcomes (perhaps none) and make `served_`."""
        raise NotImplementedError

    def choose_many(self, contexts: Contexts) -> Decisions:
        """Decide for n contexts; the same bits as n calls of `choose`."""
        chosen = self.decide(contexts, self.chances(len(contexts)))
        self.commit(chosen)
        return chosen

    def chances(self, n: int) -> Floats:
        """Draw the (n,) uniform numbers of the next n decisions."""
        return self.rng.random(n)

    def decide(self, contexts: Contexts, chance: Floats) -> Decisions:
        """Decide for n contexts by chance (n,), as the table stands; nothing is drawn or counted. Whoever finds that
        an outcome changed the table (`screen_many`) decides anew for what comes after, by the same numbers."""
        row, network = self.where(contexts)
        return self.served_.draw(row, network, chance)

    def commit(self, decisions: Decisions) -> None:
        """Count decisions that stand, once each, in their order. Here: nothing is counted."""

    def screen_many(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats) -> tuple[int, bool]:
        """Take a first look at outcomes, in their order and each once, before they are observed.

        Returns how many were taken and whether the last of them changed the table; it stops there. A policy that does
        not screen (`SCREENS`) takes all. Outcomes that nobody screened are screened when they are observed.
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
        seen, at = Seen(*numbers, site, self.points(contexts), np.log(plt_ms), whole, client), 0
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

    def due(self) -> int:
        """Outcomes still to be observed before decisions change."""
        return self.update_every - self._held if self.update_every else NEVER

    def update(self) -> None:
        """Learn from what waits."""
        seen = joined(self.waiting_) if self.waiting_ else nothing_seen()
        self.waiting_, self._held = [], 0
        self.updates_ += 1
        self.learn(self.prepare(seen))

    def choose(self, context: Context) -> Decision:
        """Decide for one context."""
        return self.decision(context, self.choose_many(contexts_of([context], self.sites)), 0)

    def decision(self, context: Context, decisions: Decisions, i: int) -> Decision:
        """The i-th of the decisions as a noun."""
        network, expected = int(decisions.network[i]), float(decisions.expected_ms[i])
        return Decision(
            context,
            self.class_ids_[network] if network >= 0 else "",
            self.grid.profiles[int(decisions.configuration[i])],
            ARMS[int(decisions.arm[i])],
            None if np.isnan(expected) else expected,
            float(decisions.propensity[i]),
        )

    def observe(self, outcome: Outcome) -> None:
        """Keep one outcome; of a class that is unknown here, it counts for the class its context is in now."""
        decision = outcome.decision
        contexts = contexts_of([decision.context], self.sites)
        row, network = self.where(contexts)
        if decision.class_id in self.class_ids_ and decision.class_id:
            known = self.class_ids_.index(decision.class_id)
            network = np.array([known])
            row = self.row_of(network, contexts)
        columns = Decisions(
            row,
            network,
            np.array([self.grid.index(decision.profile)]),
            np.array([ARM.get(decision.arm, -1)]),
            np.array([np.nan if decision.propensity is None else decision.propensity]),
            np.array([np.nan if decision.expected_ms is None else decision.expected_ms]),
        )
        self.observe_many(contexts, columns, np.array([float(outcome.plt_ms)]))

    def row_of(self, network: Codes, contexts: Contexts) -> Codes:
        """Rows (n,) for contexts that were taken for these classes (n,); a policy without classes has its own."""
        return self.where(contexts)[0]

    def prepare(self, seen: Seen) -> Seen:
        """What every policy of a kind does with outcomes before it learns; returns them as they are to be learned."""
        return seen

    def points(self, contexts: Contexts) -> Floats:
        """(n, 3 + axes) where this policy sees clients."""
        return contexts.points()

    def site_codes(self, contexts: Contexts) -> Codes:
        """Sites in this policy's vocabulary, (n,); unknown ones all are the last code, `len(sites)`."""
        return site_codes(contexts, self.sites)

    def save(self) -> str:
        """Everything learned, waiting and drawn."""
        self.waiting_ = [joined(self.waiting_)] if self.waiting_ else []
        own = {name: getattr(self, name) for name in ("class_ids_", "updates_", "waiting_", "served_", *self.STATE)}
        world = {"grid": self._world(), "rng": rng_state(self.rng), "own": own}
        return encode({"policy": self.name, "version": STATE_VERSION, **world})

    def _world(self) -> tuple[str, ...]:
        """What rows and codes of a state refer to: configurations and sites, by name."""
        return (*(profile.name for profile in self.grid.profiles), "|", *self.sites)

    def restore(self, text: str) -> None:
        """Go on where a saved policy stood."""
        state: dict[str, Any] = decode(text)
        if state.get("policy") != self.name or state.get("version") != STATE_VERSION:
            found = f"{state.get('policy')!r}, version {state.get('version')}"
            raise BadInput(f"a saved {self.name!r}, version {STATE_VERSION}, is wanted; this is {found}")
        if not {"grid", "rng", "own"} <= state.keys() or state["grid"] != self._world():
            raise BadInput(
                f"the saved {self.name!r} knows other configurations or sites; start it anew, or restore there"
            )
        set_rng_state(self.rng, state["rng"])
        for name, value in state["own"].items():
            setattr(self, name, value)
        self._held = sum(map(len, self.waiting_))
