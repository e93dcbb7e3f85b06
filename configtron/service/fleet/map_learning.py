# SPDX-License-Identifier: MIT
"""A manager's learner: rows of the database in, numbered maps out, and the facts to be stored with each.

Question   Which map is to be in force now, and what must be kept with it, so that after a kill both fit one another?
Method     `MapLearning` has the maker and the stages, and reads rows from the manager's database by their numbers. The
           manager asks it one question at a time, with all that it needs to know; the answer is a map with its number,
           and facts, which the manager stores in one transaction before it asks again. What is not stored is learned
           again from the same rows. The same code runs within the manager (`InlineLearner`: simulations, tests, one
           host, a map from a file) and in a process of its own (`learner_process.py`).
Stop when  the manager asks no more.
Reads as   a `LearningAnswer`.
Fails as   the errors of maker, stages and database.
Differs    from a thread: Python's threads take turns, so that an update would delay the answers to agents.
Source     none
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from configtron.db.fleet import FleetStore
from configtron.db.fleet_facts import whole_fact
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.agent_limits import AgentLimits, barred_by
from configtron.service.fleet.map_maker import MapMaker, without_barred
from configtron.service.fleet.stages import Order, Stages

# Names of facts: the maker's state, the number of the last row that it knows, and a rollback that the stages have not
# taken back their version for.
MAKER, POSITION, RECALLED = "maker", "position", "recalled"
# Rows of a stage that are read again, at most, by a learner that starts.
MOST_READ = 400_000


class LearningAsk(NamedTuple):
    """One question of the manager.

    now_ns            wall clock
    place             (term, version) that a map of the answer will have
    key               of the draw, for a map that agents are to have at once
    span_ns           for how long the current map was valid when it was made
    current           the map that is published; None: none is
    limits, agents    what each agent refuses; names of the enrolled agents
    refused, entries  of the current map, by the agents that hold it
    again             places of maps that were published since the last answer, without other mixes
    paused            an operator's map stays: nothing is made
    recalled          an operator published another map: the version that is on its way is taken back
    save              answer with all facts, though there is no map
    """

    now_ns: int
    place: tuple[int, int]
    key: bytes
    span_ns: int
    current: FleetMap | None
    limits: Mapping[str, AgentLimits]
    agents: tuple[str, ...]
    refused: int = 0
    entries: int = 0
    again: tuple[tuple[int, int], ...] = ()
    paused: bool = False
    recalled: bool = False
    save: bool = False


class LearningAnswer(NamedTuple):
    """asked_ns: when it was asked; map: to be published under its number, and why, None: the current one stays; facts:
    to be stored with it."""

    asked_ns: int
    map: FleetMap | None = None
    why: str = ""
    facts: Mapping[str, str] = {}


class MapLearner(ABC):
    """A learner as the manager's core sees it, wherever it runs. Times: seconds of a clock that is never set back.

    staged  maps reach clients by stages
    """

    staged: bool

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Return whether it answers no question just now."""

    @abstractmethod
    def ask(self, question: LearningAsk, now: float) -> None:
        """Ask; only while it is idle."""

    @abstractmethod
    def answer(self, now: float) -> LearningAnswer | None:
        """Return the answer, once; None: there is none yet. Errors: those of a learner that cannot begin."""

    @abstractmethod
    def hand(self, rows: Sequence[OutcomeRow], last: int) -> None:
        """Take rows that were just stored; last: the number of the last of them. It may read them itself instead."""

    @abstractmethod
    def forget(self) -> None:
        """Drop an answer that cannot be published, and go on from what is stored."""

    @abstractmethod
    def close(self) -> None:
        """End it."""


class MapLearning:
    """Maker and stages, taken up from the database.

    progress  called after each part of a long reading
    learned   the maker chooses by itself what it tries (`guard.unasked`); no: a person wrote the map
    """

    def __init__(self, store: FleetStore, maker: MapMaker, stages: Stages | None,
                 progress: Callable[[], None] = lambda: None, learned: bool = False) -> None:  # fmt: skip
        self._store, self._maker, self._stages, self._progress = store, maker, stages, progress
        self._learned = learned
        # Rows since the last question, and the number of the last of them: they need not be read again.
        self._arrived: list[OutcomeRow] = []
        self._arrived_to = 0
        facts = store.facts()
        self._position = whole_fact(facts, POSITION, store.path)
        if MAKER in facts:
            maker.restore(facts[MAKER])
        if stages is not None:
            self._restore_stages(stages, stages.restore(facts))
        self._observe()

    def _restore_stages(self, stages: Stages, position: int) -> None:
        """Hand the stage's rows that the maker knows to the stages again."""
        position = max(position, self._position - MOST_READ)
        while position < self._position and (rows := self._store.rows_after(position)):
            known = [(number, row) for number, row in rows if number <= self._position]
            stages.take([row for _, row in known], known[-1][0] if known else self._position)
            position = rows[-1][0]
            self._progress()

    def hand(self, rows: Sequence[OutcomeRow], last: int) -> None:
        """Take rows that were just stored; last: the number of the last of them."""
        self._arrived += rows
        self._arrived_to = last

    def _observe(self) -> None:
        """Hand rows that have arrived to the maker, in order, each once."""
        arrived, self._arrived = self._arrived, []
        if arrived and self._position + len(arrived) == self._arrived_to:
            self._take(arrived, self._arrived_to)
        while rows := self._store.rows_after(self._position):
            self._take([row for _, row in rows], rows[-1][0])
            self._progress()

    def _take(self, rows: Sequence[OutcomeRow], last: int) -> None:
        self._maker.observe(rows)
        if self._stages is not None:
            self._stages.take(rows, last)
        self._position = last

    def turn(self, ask: LearningAsk) -> LearningAnswer:
        """Learn from the rows that have arrived, and answer. Errors: `Busy` while the database is locked: ask again."""
        self._observe()
        stages = self._stages
        before = None if stages is None else stages.rollout
        if stages is not None:
            # Let the stages know of maps that the manager published by itself.
            if ask.recalled:
                stages.recall(ask.now_ns)
            for place in ask.again:
                stages.publishes_again(place)
        order = None if ask.paused else self._order(ask)
        if order is not None:
            new = self._numbered(order, ask)
            if stages is not None:
                stages.publishes(new, order)
            return LearningAnswer(ask.now_ns, new, order.why[:255], self._facts(ask))
        if ask.save or ask.again or ask.recalled:
            return LearningAnswer(ask.now_ns, facts=self._facts(ask))
        now = None if stages is None else stages.rollout
        if stages is not None and now and before and now != replace(before, seen_ns=now.seen_ns):
            return LearningAnswer(ask.now_ns, facts=stages.facts())
        return LearningAnswer(ask.now_ns)

    def _order(self, ask: LearningAsk) -> Order | None:
        def barred(profile: Profile) -> str:
            return barred_by(ask.limits, profile, self._learned)

        made = self._maker.make(ask.now_ns, barred)
        if self._stages is None:
            return None if made is None else Order(without_barred(made, barred), "made")
        if made is not None:
            return self._stages.turn(made, ask.place, ask.now_ns, barred, ask.agents)
        if ask.current is None:
            return None
        return self._stages.look(ask.current, ask.place, ask.now_ns, barred, ask.refused, ask.entries)

    def _numbered(self, order: Order, ask: LearningAsk) -> FleetMap:
        """Return the map of an order as it is to be published."""
        new = replace(order.map, term=ask.place[0], version=ask.place[1])
        if order.at_once and ask.current is not None:
            new = replace(new, key=ask.key, not_after_ns=ask.now_ns + ask.span_ns)
        return new

    def _facts(self, ask: LearningAsk) -> dict[str, str]:
        found = {MAKER: self._maker.save(), POSITION: str(self._position)}
        if self._stages is not None:
            found |= self._stages.facts()
        return found | ({RECALLED: ""} if ask.recalled else {})


class InlineLearner(MapLearner):
    """A learner within the manager's own turn: an answer is there as soon as it was asked."""

    def __init__(self, learning: MapLearning, staged: bool) -> None:
        self._learning, self.staged = learning, staged
        self._answer: LearningAnswer | None = None

    @property
    def idle(self) -> bool:
        """Return true: a question is answered at once."""
        return True

    def ask(self, question: LearningAsk, now: float) -> None:
        """Ask."""
        self._answer = self._learning.turn(question)

    def answer(self, now: float) -> LearningAnswer | None:
        """Return the answer, once."""
        found, self._answer = self._answer, None
        return found

    def hand(self, rows: Sequence[OutcomeRow], last: int) -> None:
        """Take rows that were just stored."""
        self._learning.hand(rows, last)

    def forget(self) -> None:
        """Keep what was learned: no row is learned again."""

    def close(self) -> None:
        """End."""
