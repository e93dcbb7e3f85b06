# SPDX-License-Identifier: MIT
"""A manager without its sockets: session, database, key and learner. The run loop and the simulation drive it alike.

It is the only writer of its database's facts, maps and rows: what the learner answers is stored here, a map with all
that was learned for it in one transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.db.fleet_facts import AGENT, agent_state, place_fact
from configtron.fleet.clock_steps import ClockSteps
from configtron.fleet.manager_session import (
    AgentReport,
    AgentState,
    ManagerEffect,
    ManagerRemark,
    ManagerSession,
    SendTo,
    StopManager,
    StoreRows,
)
from configtron.fleet.map_document import MapRefused, document, opened, signed, whole_map
from configtron.fleet.messages import refused_count
from configtron.model.errors import BadInput, Busy, Unwritten
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.records import Json, canonical
from configtron.service.fleet.agent_limits import AgentLimits, barred_by, limits_form, limits_of_form, limits_of_hello
from configtron.service.fleet.key_rotation import KeyRotation, rotation_of
from configtron.service.fleet.map_learning import (
    MAKER,
    POSITION,
    RECALLED,
    InlineLearner,
    LearningAnswer,
    LearningAsk,
    MapLearner,
    MapLearning,
)
from configtron.service.fleet.map_maker import MapMaker
from configtron.service.fleet.stages import ROLLOUT, STAGES, Stages

log = logging.getLogger("configtron.fleet")

# s between two questions to the learner, and two readings of the allow-list, the term and the operator's wishes.
MAKE_S, READ_S = 0.5, 0.5
# ns that a row may be dated ahead of the manager's clock: hosts that synchronise their clocks differ by far less.
AHEAD_NS, AHEAD = 60 * 10**9, "dated-ahead"
# s between two writings of the agents' states and of what the learner knows, while nothing is published.
STATE_S, SAVE_S = 2.0, 60.0
# Parts of its validity after which a map is published again: while the learner is idle, and whatever it does.
RENEWED, RENEWED_ANYWAY = 0.5, 0.75
# Names of facts.
ROLLBACK, PAUSED = "rollback", "paused"
# Why maps are published that no learner made.
STARTED, RENEWAL = "manager started", "validity renewed"


@dataclass
class _Due:
    """When each of the periodic tasks is done next, seconds."""

    make: float = float("-inf")
    read: float = float("-inf")
    state: float = float("-inf")
    save: float = float("-inf")


class ManagerCore:
    """One start of a manager. Times: seconds of a clock that is never set back; now_ns: wall clock.

    maker    what makes maps, within this process, by which `stages`; or a learner, which has its own
    stopped  why it is to end; "": it goes on; obeyed_term: of the manager that agents obey instead, 0: not known
    """

    def __init__(self, store: FleetStore, maker: MapMaker | MapLearner, key: SigningKey, name: str, now_ns: int,
                 stages: Stages | None = None) -> None:  # fmt: skip
        self.store, self._key, self.stages = store, key, stages
        self.term = store.begin_term(name)
        self.session = ManagerSession(name, self.term, store.allowed(), key)
        self.stopped, self.obeyed_term = "", 0
        self._map: FleetMap | None = None
        self._version = 0
        # The current version, and since when it was seen to be.
        self._since = 0, 0.0
        self._due, self._steps = _Due(), ClockSteps()
        self._complained = False
        self.rotation: KeyRotation | None = None
        facts = self.store.facts()
        self._written = {name: text for name, text in facts.items() if name.startswith(AGENT)}
        self._limits = {name.removeprefix(AGENT): limits_of_form(agent_state(name, text, self.store.path))
                        for name, text in self._written.items()}  # fmt: skip
        self._paused, self._recalled = PAUSED in facts, bool(facts.get(RECALLED))
        self._learner = maker if isinstance(maker, MapLearner) else self._inline(maker, stages)
        if not self._learner.staged and STAGES in facts:
            # What it says of clients holds no more.
            for fact in (STAGES, ROLLOUT):
                self.store.drop_fact(fact)
        # Places of maps of the same mixes that the learner's stored state lacks; those of the latest question.
        self._again = self._published_since()
        self._asked_again = 0
        # An answer that is not stored yet.
        self._answer: LearningAnswer | None = None
        self._publish_again(now_ns)

    def _inline(self, maker: MapMaker, stages: Stages | None) -> InlineLearner:
        return InlineLearner(MapLearning(self.store, maker, stages), stages is not None)

    def _published_since(self) -> list[tuple[int, int]]:
        """Return the places of the latest maps that were published without a learner's answer."""
        found: list[tuple[int, int]] = []
        for row in reversed(self.store.maps()):
            if row.why not in (STARTED, RENEWAL):
                break
            found.insert(0, (row.term, row.version))
        return found

    def _publish_again(self, now_ns: int) -> None:
        """Publish the latest map under this manager's term."""
        whole = [row for row in self.store.maps() if row.whole]
        if not whole:
            return
        data = self.store.document(whole[-1].term, whole[-1].version)
        try:
            found = opened(data or b"", self._key.verify_key)
        except MapRefused as error:
            log.warning("map %d.%d of the database is not used: %s", whole[-1].term, whole[-1].version, error)
            return
        span_ns = found.head.not_after_ns - found.head.made_ns
        self._publish(replace(whole_map(found), not_after_ns=now_ns + span_ns), now_ns, STARTED)

    def close(self) -> None:
        """End the learner."""
        self._learner.close()

    # Frames and time.

    def receive(self, connection: bytes, key: str, data: bytes, now: float, now_ns: int) -> list[SendTo]:
        """Take a frame; return what is to be sent."""
        return self._done(self.session.receive(connection, key, data, now, now_ns), now_ns)

    def tick(self, now: float, now_ns: int) -> list[SendTo]:
        """Do what is due; call it some times a second."""
        found = self.session.watch(now)
        if step_s := self._steps.step_s(now, now_ns):
            found += self.session.stepped(step_s)
        due = self._due
        if now >= due.read:
            due.read = now + READ_S
            found += self._read_unlocked(now_ns)
        if not self.stopped:
            if now >= due.make:
                due.make = now + MAKE_S
                found += self._renewed(now, now_ns)
                self._ask(now, now_ns)
            found += self._answered(now, now_ns)
        if now >= due.state:
            due.state = now + STATE_S
            self._write_states()
        return self._done(found, now_ns)

    def _done(self, effects: Sequence[ManagerEffect], now_ns: int) -> list[SendTo]:
        out: list[SendTo] = []
        waiting = list(effects)
        while waiting:
            match waiting.pop(0):
                case SendTo() as frame:
                    out.append(frame)
                case StoreRows() as batch:
                    waiting += self._store(batch, now_ns)
                case AgentReport(agent):
                    if (hello := self.session.agents[agent].hello) is not None:
                        self._limits[agent] = limits_of_hello(hello)
                    # `learn manager agents` shows it with the next tick.
                    self._due.state = float("-inf")
                case StopManager(reason, term):
                    self.stopped, self.obeyed_term = self.stopped or reason, term
                case ManagerRemark(text, urgent):
                    log.log(logging.WARNING if urgent else logging.INFO, "%s", text)
        return out

    def _store(self, batch: StoreRows, now_ns: int) -> list[ManagerEffect]:
        """Store a batch; without room there is no receipt, and the agent sends it again."""
        through = 0
        if not self._try(lambda: self.store.latest_term()[0] == self.term):
            return []
        try:
            through = self.add_rows(batch.agent, batch.boot, batch.first, batch.rows, now_ns)
        except (Unwritten, Busy) as error:
            self._complain(error)
            return []
        self._complained = False
        rows, last = self.store.added
        if rows:
            self._learner.hand(rows, last)
        return self.session.stored(batch.connection, batch.boot, through)

    def add_rows(self, agent: str, boot: str, first: int, rows: Sequence[OutcomeRow], now_ns: int) -> int:
        """Keep rows as the store does. One dated ahead, or of an epoch to come, does not teach: until then its prefix
        would count no other clients. Errors: those of the store."""
        ends_ns = now_ns + AHEAD_NS
        latest = 0 if self._map is None else ends_ns // 10**9 // self._map.epoch_s
        if any(row.at_ns > ends_ns or row.epoch > latest for row in rows):
            ahead = (row.teaches and (row.at_ns > ends_ns or row.epoch > latest) for row in rows)
            rows = [row._replace(teaches=False, why_not=AHEAD) if is_ahead else row
                    for row, is_ahead in zip(rows, ahead, strict=True)]  # fmt: skip
        return self.store.add_rows(agent, boot, first, rows, now_ns)

    def _try(self, write: Callable[[], object]) -> bool:
        """Do a write that may fail for want of room, or of a lock; the reason is logged once."""
        try:
            return bool(write() is not False)
        except (Unwritten, Busy) as error:
            self._complain(error)
            return False

    def _complain(self, error: Unwritten | Busy) -> None:
        if not self._complained:
            log.error("%s; outcomes wait in the agents' spools", error)
        self._complained = True

    # What the operator and other managers do.

    def _read_unlocked(self, now_ns: int) -> list[ManagerEffect]:
        """Read what others wrote; a database that is locked even for readers is read later."""
        try:
            return self._read(now_ns)
        except Busy as error:
            self._complain(error)
            return []

    def _read(self, now_ns: int) -> list[ManagerEffect]:
        """Read the allow-list, the latest term, and a wish for a rollback."""
        term, name = self.store.latest_term()
        if term != self.term:
            return [StopManager(f"manager {name} (term {term}) has the same database and came later; this one,"
                                f" {self.session.manager} (term {self.term}), stops")]  # fmt: skip
        allowed = self.store.allowed()
        if allowed != self.session.allowed:
            self.session.allow(allowed)
        facts = self.store.facts()
        self.rotation = rotation_of(facts)
        self._paused = PAUSED in facts
        wish = place_fact(facts, ROLLBACK, self.store.path)
        return self._roll_back(wish, now_ns) if wish else []

    def key_due(self, now_ns: int) -> KeyRotation | None:
        """Return the rotation whose next key is to be the manager's from now on."""
        return self.rotation if self.rotation is not None and now_ns >= self.rotation.until_s * 10**9 else None

    def _roll_back(self, place: tuple[int, int], now_ns: int) -> list[ManagerEffect]:
        """Publish an earlier map under another key of the draw, so that agents change at once."""
        wish = f"{place[0]}.{place[1]}"
        data = self.store.document(*place)
        if data is None:
            return self._no_roll_back(
                f"map {wish} is not kept any more; `configtron learn manager maps` lists those that are"
            )
        try:
            found = opened(data, self._key.verify_key)
        except MapRefused as error:
            return self._no_roll_back(f"map {wish} of the database is not published again: {error}")
        span_ns = found.head.not_after_ns - found.head.made_ns
        back = replace(whole_map(found), key=self._another_key(), not_after_ns=now_ns + span_ns)
        facts = {ROLLBACK: "", **({RECALLED: wish} if self._learner.staged else {})}
        version = self._version
        effects = self._publish(back, now_ns, f"rollback to {wish}", facts)
        if self._version == version:
            return effects
        self._recalled = self._learner.staged
        self._again.clear()
        return [*effects, ManagerRemark(f"rolled back to map {wish}", False)]

    def _no_roll_back(self, why: str) -> list[ManagerEffect]:
        self._try(lambda: self.store.put_facts({ROLLBACK: ""}))
        return [ManagerRemark(why)]

    def _another_key(self) -> bytes:
        """Return a new key of the draw: by it agents change what they draw at once, not with the next epoch."""
        return self._key.sign(f"{self.term} {self._version}".encode()).signature[:16]

    # Maps.

    def _renewed(self, now: float, now_ns: int) -> list[ManagerEffect]:
        """Publish the current map again, once half of its validity is over; a map that is being made would have the
        same number, and is waited for until three quarters are."""
        if self._map is None or self.session.current is None:
            return []
        if self._since[0] != self._version:
            self._since = self._version, now
        idle = self._learner.idle and self._answer is None
        # By both clocks: agents count a map's validity by their own, whatever this host's wall clock was set to.
        age_ns = max(now_ns - self.session.current.head.made_ns, (now - self._since[1]) * 1e9)
        if age_ns < self._span_ns() * (RENEWED if idle else RENEWED_ANYWAY):
            return []
        return self._publish(replace(self._map, not_after_ns=now_ns + self._span_ns()), now_ns, RENEWAL)

    def _span_ns(self) -> int:
        """Return for how long the current map was valid when it was made; 0: there is none."""
        head = None if self.session.current is None else self.session.current.head
        return 0 if head is None else head.not_after_ns - head.made_ns

    def _ask(self, now: float, now_ns: int) -> None:
        """Ask the learner, unless it is busy or its latest answer is not stored."""
        if not self._learner.idle or self._answer is not None:
            return
        held = [one for one in self.session.agents.values() if one.held == (self.term, self._version)]
        entries = len(self._map.prefixes) if self._map is not None else 0
        saves, self._asked_again = now >= self._due.save, len(self._again)
        question = LearningAsk(
            now_ns, (self.term, self._version + 1), self._another_key(), self._span_ns(), self._map, self._bounds(),
            tuple(sorted(set(self.session.allowed.values()))),
            sum(min(refused_count(one.refused, one.omitted), entries) for one in held), len(held) * entries,
            tuple(self._again), self._paused, self._recalled, saves,
        )  # fmt: skip
        if saves:
            self._due.save = now + SAVE_S
        self._learner.ask(question, now)

    def _answered(self, now: float, now_ns: int) -> list[ManagerEffect]:
        """Store the learner's answer, and publish the map that it may have."""
        if self._answer is None:
            self._answer = self._learner.answer(now)
        answer = self._answer
        if answer is None:
            return []
        if answer.map is not None:
            return self._publish_answer(answer, answer.map, now_ns)
        if not answer.facts or self._try(lambda: self.store.put_facts(answer.facts)):
            self._stored(answer)
        return []

    def _publish_answer(self, answer: LearningAnswer, new: FleetMap, now_ns: int) -> list[ManagerEffect]:
        if new.version != self._version + 1:
            # Another map came between: an operator's, or the same one again.
            self._answer = None
            self._learner.forget()
            return []
        new = replace(new, not_after_ns=new.not_after_ns + now_ns - answer.asked_ns)
        version = self._version
        effects = self._publish(new, now_ns, answer.why, answer.facts)
        if self._version == version + 1:
            self._stored(answer)
        elif effects:
            # It is no map that can be published, and what was learned is kept without it.
            self._answer = answer._replace(map=None)
        return effects

    def _stored(self, answer: LearningAnswer) -> None:
        self._answer = None
        if answer.facts.get(MAKER):
            del self._again[: self._asked_again]
        if RECALLED in answer.facts:
            self._recalled = False

    def _publish(self, new: FleetMap, now_ns: int, why: str, facts: Mapping[str, str] | None = None
                 ) -> list[ManagerEffect]:  # fmt: skip
        """Number, sign, keep and publish a map, with facts; None: the learner is to hear of it. Without room for it,
        the current one stays."""
        new = replace(new, term=self.term, version=self._version + 1)
        try:
            made = signed(new, self.session.manager, now_ns, self._key, why)
            self.store.put_map(new.term, new.version, why, new.profiles, len(new.prefixes), document(made), facts)
            self._complained = False
        except (Unwritten, Busy) as error:
            self._complain(error)
            return []
        except BadInput as error:
            return [ManagerRemark(f"a map is not published: {error}")]
        self._map, self._version = new, new.version
        if facts is None:
            self._again.append((new.term, new.version))
        return self.session.publish(made)

    def _bounds(self) -> dict[str, AgentLimits]:
        """Return the limits of every agent that is enrolled: those of a revoked one end with it."""
        enrolled = set(self.session.allowed.values())
        return {name: limits for name, limits in self._limits.items() if name in enrolled}

    def barred(self, profile: Profile) -> str:
        """Return why a profile may not be used: the first agent whose operator, guard or driver refuses it; ""."""
        return barred_by(self._bounds(), profile)

    def _write_states(self) -> None:
        """Keep what is known of each agent, for `learn manager agents`."""
        states = {AGENT + name: _state_text(state, self._written.get(AGENT + name, ""))
                  for name, state in self.session.agents.items()}  # fmt: skip
        news = {name: text for name, text in states.items() if self._written.get(name) != text}
        if news and self._try(lambda: self.store.put_facts(news)):
            self._written |= news


def forget_learned(store: FleetStore) -> None:
    """Forget what the maker of a database learned, and that rows were read: another maker reads all of them."""
    for name in (MAKER, POSITION, RECALLED, STAGES, ROLLOUT):
        store.drop_fact(name)


def _state_text(state: AgentState, before: str) -> str:
    """Return an agent's state as JSON; the hello stays if this start of the manager has heard none."""
    hello = state.hello
    form: dict[str, Json] = json.loads(before) if before else {}
    form |= {
        "heard_s": state.heard_ns // 1_000_000_000, "held": f"{state.held[0]}.{state.held[1]}",
        "reason": state.reason or state.refusal,
        "rejected": f"{state.rejected[0]}.{state.rejected[1]}" if state.rejected else "",
        "refused": refused_count(state.refused, state.omitted), "waiting": state.waiting, "dropped": state.dropped,
        "skew_s": round(state.skew_s), "frozen": state.frozen,
    }  # fmt: skip
    if hello is not None:
        form |= {"release": hello.release, "driver": hello.driver, **limits_form(hello)}
    return canonical(form)
