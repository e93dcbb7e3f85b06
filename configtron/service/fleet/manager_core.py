# SPDX-License-Identifier: MIT
"""A manager without its sockets: session, database, key and maker. The run loop and the simulation drive it alike."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.db.fleet_facts import AGENT, agent_state, place_fact, whole_fact
from configtron.fleet.manager_session import (
    AgentReport,
    AgentState,
    AskClass,
    ManagerEffect,
    ManagerRemark,
    ManagerSession,
    PublishOffer,
    SendTo,
    StopManager,
    StoreRows,
)
from configtron.fleet.map_document import MapRefused, document, opened, signed, signed_after, whole_map
from configtron.fleet.messages import AgentHello, BoundForm, ReachForm
from configtron.model.errors import BadInput, Busy, Unwritten
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.records import Json, canonical
from configtron.model.tuning_json import value_text
from configtron.service.fleet.key_rotation import WITHOUT, KeyRotation, rotation_of
from configtron.service.fleet.map_maker import MapMaker, without_barred
from configtron.service.fleet.stages import ROLLOUT, STAGES, Order, Stages
from configtron.tune.guard import Bound, Limits
from configtron.tune.guard import barred as guarded

log = logging.getLogger("configtron.fleet")

# s between two questions to the maker, and two readings of the allow-list, the term and the operator's wishes.
MAKE_S, READ_S = 0.5, 0.5
# s between two writings of the agents' states and of what the maker knows, while nothing is published.
STATE_S, SAVE_S = 2.0, 60.0
# Rows of a stage that are read again, at most, by a manager that starts.
MOST_READ = 400_000
# Names of facts.
MAKER, POSITION, ROLLBACK, PAUSED = "maker", "position", "rollback", "paused"


class Outgoing(NamedTuple):
    """A frame for one connection; None: for all agents."""

    connection: bytes | None
    data: bytes


@dataclass
class _Due:
    """When each of the periodic tasks is done next, seconds."""

    make: float = float("-inf")
    read: float = float("-inf")
    state: float = float("-inf")
    save: float = float("-inf")


class ManagerCore:
    """One start of a manager. Times: seconds of a clock that is never set back; now_ns: wall clock.

    stopped  why it is to end; "": it goes on
    """

    def __init__(self, store: FleetStore, maker: MapMaker, key: SigningKey, name: str, now_ns: int,
                 stages: Stages | None = None) -> None:  # fmt: skip
        self.store, self._maker, self._key, self.stages = store, maker, key, stages
        self.term = store.begin_term(name)
        self.session = ManagerSession(name, self.term, store.allowed())
        self.stopped = ""
        self._map: FleetMap | None = None
        self._version = 0
        self._due = _Due()
        self._paused = False
        self._written: dict[str, str] = {}
        self._disk_full = False
        self._waiting: Order | None = None
        self.rotation: KeyRotation | None = None
        # Rows since the last call of the maker, and the number of the last of them: they need not be read again.
        self._arrived: list[OutcomeRow] = []
        self._arrived_to = 0
        self._restore(now_ns)

    def _restore(self, now_ns: int) -> None:
        """Take up what the manager before knew: its maker's state, later rows, and its map under the new term."""
        facts = self.store.facts()
        self._written = {name: text for name, text in facts.items() if name.startswith(AGENT)}
        self._hellos = {name.removeprefix(AGENT): _limits_of(agent_state(name, text, self.store.path))
                        for name, text in self._written.items()}  # fmt: skip
        self._position, self._paused = whole_fact(facts, POSITION, self.store.path), PAUSED in facts
        if MAKER in facts:
            self._maker.restore(facts[MAKER])
        if self.stages is not None:
            self._restore_stages(self.stages, self.stages.restore(facts))
        elif STAGES in facts:
            # What it says of clients holds no more.
            for fact in (STAGES, ROLLOUT):
                self.store.drop_fact(fact)
        self._observe()
        whole = [row for row in self.store.maps() if row.whole]
        if not whole:
            return
        data = self.store.document(whole[-1].term, whole[-1].version)
        try:
            found = opened(data or b"", self._key.verify_key, None)
        except MapRefused as error:
            log.warning("map %d.%d of the database is not used: %s", whole[-1].term, whole[-1].version, error)
            return
        self.session.know(found.table)
        span_ns = found.head.not_after_ns - found.head.made_ns
        self._publish(replace(whole_map(found), not_after_ns=now_ns + span_ns), now_ns, "manager started")

    def _restore_stages(self, stages: Stages, position: int) -> None:
        """Hand the stage's rows that the maker knows to the stages again."""
        position = max(position, self._position - MOST_READ)
        while position < self._position and (rows := self.store.rows_after(position)):
            known = [(number, row) for number, row in rows if number <= self._position]
            stages.take([row for _, row in known], known[-1][0] if known else self._position)
            position = rows[-1][0]

    # Frames and time.

    def receive(self, connection: bytes, key: str, data: bytes, now: float, now_ns: int) -> list[Outgoing]:
        """Take a frame; return what is to be sent."""
        return self._done(self.session.receive(connection, key, data, now, now_ns), now_ns)

    def tick(self, now: float, now_ns: int) -> list[Outgoing]:
        """Do what is due; call it some times a second."""
        found: list[ManagerEffect] = []
        due = self._due
        if now >= due.read:
            due.read = now + READ_S
            found += self._read(now_ns)
        if now >= due.make and not self.stopped:
            due.make = now + MAKE_S
            found += self._make(now_ns)
        if now >= due.state:
            due.state = now + STATE_S
            self._write_states(now_ns)
        if now >= due.save:
            due.save = now + SAVE_S
            self._try(lambda: self.store.put_facts(self._learned()))
        return self._done(found, now_ns)

    def _done(self, effects: Sequence[ManagerEffect], now_ns: int) -> list[Outgoing]:
        out: list[Outgoing] = []
        waiting = list(effects)
        while waiting:
            match waiting.pop(0):
                case SendTo(connection, data):
                    out.append(Outgoing(connection, data))
                case PublishOffer(data):
                    out.append(Outgoing(None, data))
                case StoreRows() as batch:
                    waiting += self._store(batch, now_ns)
                case AskClass() as asked:
                    waiting += self.session.classified(asked, self._maker.classify(asked.prefix, asked.rtt_us))
                case AgentReport(agent):
                    self._hellos[agent] = _limits(self.session.agents[agent].hello)
                    # `learn manager agents` shows it with the next tick.
                    self._due.state = float("-inf")
                case StopManager(reason):
                    self.stopped = self.stopped or reason
                case ManagerRemark(text, urgent):
                    log.log(logging.WARNING if urgent else logging.INFO, "%s", text)
        return out

    def _store(self, batch: StoreRows, now_ns: int) -> list[ManagerEffect]:
        """Store a batch; without room there is no receipt, and the agent sends it again."""
        through = 0
        if not self._try(lambda: self.store.latest_term()[0] == self.term):
            return []
        try:
            through = self.store.add_rows(batch.agent, batch.boot, batch.first, batch.rows, now_ns)
        except (Unwritten, Busy) as error:
            self._complain(error)
            return []
        self._disk_full = False
        rows, last = self.store.added
        if rows:
            self._arrived += rows
            self._arrived_to = last
        return self.session.stored(batch.connection, batch.boot, through)

    def _try(self, write: object) -> bool:
        """Do a write that may fail for want of room, or of a lock; the reason is logged once."""
        assert callable(write)
        try:
            return bool(write() is not False)
        except (Unwritten, Busy) as error:
            self._complain(error)
            return False

    def _complain(self, error: Unwritten | Busy) -> None:
        if not self._disk_full:
            log.error("%s; outcomes wait in the agents' spools", error)
        self._disk_full = True

    # What the operator and other managers do.

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
        self._read_rotation(facts)
        self._paused = PAUSED in facts
        wish = place_fact(facts, ROLLBACK, self.store.path)
        return self._roll_back(wish, now_ns) if wish else []

    def _read_rotation(self, facts: Mapping[str, str]) -> None:
        """Announce the key that follows, if one does, and keep which agents do not hold it."""
        self.rotation = rotation_of(facts)
        if self.rotation is None:
            self.session.next_key = None
            return
        message = self.rotation.message(self.session.manager, self.term, self._key)
        self.session.next_key = message
        waits = json.dumps(self.session.without_key())
        if facts.get(WITHOUT) != waits:
            self._try(lambda: self.store.put_facts({WITHOUT: waits}))

    def key_due(self, now_ns: int) -> KeyRotation | None:
        """Return the rotation whose next key is to be the manager's from now on."""
        found = self.rotation
        if found is None or (now_ns < found.until_s * 10**9 and self.session.without_key()):
            return None
        return found

    def _roll_back(self, place: tuple[int, int], now_ns: int) -> list[ManagerEffect]:
        wish = f"{place[0]}.{place[1]}"
        data = self.store.document(*place)
        self.store.put_facts({ROLLBACK: ""})
        if data is None:
            return [
                ManagerRemark(f"map {wish} is not kept any more; `configtron learn manager maps` lists those that are")
            ]
        try:
            found = opened(data, self._key.verify_key, None)
        except MapRefused as error:
            return [ManagerRemark(f"map {wish} of the database is not published again: {error}")]
        key = self._another_key()
        span_ns = found.head.not_after_ns - found.head.made_ns
        back = replace(whole_map(found), key=key, not_after_ns=now_ns + span_ns)
        if self.stages is not None:
            self.stages.recall(now_ns)
            self._waiting = None
        return [*self._publish(back, now_ns, f"rollback to {wish}"), ManagerRemark(f"rolled back to map {wish}", False)]

    def _another_key(self) -> bytes:
        """Return a new key of the draw: by it agents change what they draw at once, not with the next epoch."""
        return self._key.sign(f"{self.term} {self._version}".encode()).signature[:16]

    # Maps.

    def _observe(self) -> None:
        """Hand rows that have arrived to the maker, in order, each once."""
        arrived, self._arrived = self._arrived, []
        if arrived and self._position + len(arrived) == self._arrived_to:
            self._take(arrived, self._arrived_to)
        while rows := self.store.rows_after(self._position):
            self._take([row for _, row in rows], rows[-1][0])

    def _take(self, rows: Sequence[OutcomeRow], last: int) -> None:
        self._maker.observe(rows)
        if self.stages is not None:
            self.stages.take(rows, last)
        self._position = last

    def _make(self, now_ns: int) -> list[ManagerEffect]:
        self._observe()
        new = None if self._paused else self._maker.make(now_ns, self.barred)
        if new is not None and self.stages is None:
            return self._publish(without_barred(new, self.barred), now_ns, "made")
        if self.stages is not None and not self._paused and (order := self._order(self.stages, new, now_ns)):
            self._waiting = order
        if self._waiting is not None:
            return self._publish_order(self._waiting, now_ns)
        head = self.session.current.head if self.session.current else None
        if head is None or self._map is None:
            return []
        span_ns = head.not_after_ns - head.made_ns
        if now_ns - head.made_ns < span_ns / 2:
            return []
        return self._publish(replace(self._map, not_after_ns=now_ns + span_ns), now_ns, "validity renewed")

    def _order(self, stages: Stages, new: FleetMap | None, now_ns: int) -> Order | None:
        """Return what the stages want published: of a new map, or after a look at the stage in force."""
        place = (self.term, self._version + 1)
        if new is not None:
            return stages.turn(new, place, now_ns, self.barred, sorted(set(self.session.allowed.values())))
        if self._map is None:
            return None
        held = [one for one in self.session.agents.values() if one.held == (self.term, self._version)]
        refused = sum(len(one.refused) + one.omitted for one in held)
        before = stages.rollout
        order = stages.look(self._map, place, now_ns, self.barred, refused, len(held) * len(self._map.prefixes))
        if (
            order is None
            and stages.rollout is not None
            and before is not None
            and stages.rollout != replace(before, seen_ns=stages.rollout.seen_ns)
        ):
            self._try(lambda: self.store.put_facts(stages.facts()))
        return order

    def _publish_order(self, order: Order, now_ns: int) -> list[ManagerEffect]:
        new = order.map
        if order.at_once and self._map is not None:
            new = replace(new, key=self._another_key(), not_after_ns=now_ns + self._span_ns())
        version = self._version
        effects = self._publish(new, now_ns, order.why[:255], order)
        # Without room on the disk it waits for some.
        self._waiting = order if self._version == version and self._disk_full else None
        return effects

    def _span_ns(self) -> int:
        """Return for how long the current map was valid when it was made."""
        assert self.session.current is not None
        return self.session.current.head.not_after_ns - self.session.current.head.made_ns

    def _publish(self, new: FleetMap, now_ns: int, why: str, order: Order | None = None) -> list[ManagerEffect]:
        """Number, sign, keep and publish a map. Without room for it, the current one stays."""
        new = replace(new, term=self.term, version=self._version + 1)
        if self.stages is not None:
            self.stages.publishes(new, order)
        before, name = self.session.current, self.session.manager
        try:
            if before is None or self._map is None:
                made = signed(new, name, now_ns, self._key, why=why)
            else:
                made = signed_after(new, name, now_ns, self._key, before, self._map.prefixes, why)
            facts = self._learned()
            whole = document(made)
            self.store.put_map(new.term, new.version, why, new.profiles, len(new.prefixes), whole, facts)
            self._disk_full = False
        except Unwritten as error:
            self._complain(error)
            return []
        except BadInput as error:
            return [ManagerRemark(f"a map is not published: {error}")]
        self._map, self._version = new, new.version
        return self.session.publish(made)

    def _learned(self) -> dict[str, str]:
        staged = {} if self.stages is None else self.stages.facts()
        return {MAKER: self._maker.save(), POSITION: str(self._position), **staged}

    def barred(self, profile: Profile) -> str:
        """Return why a profile may not be used: the first agent whose operator, guard or driver refuses it; ""."""
        for name, (limits, reaches) in sorted(self._hellos.items()):
            if why := next(guarded(profile, limits), "") or _out_of_reach(profile, reaches):
                return f"agent {name}: {why}"
        return ""

    def _write_states(self, now_ns: int) -> None:
        """Keep what is known of each agent, for `learn manager agents`."""
        states = {AGENT + name: _state_text(state, self._written.get(AGENT + name, ""), now_ns)
                  for name, state in self.session.agents.items()}  # fmt: skip
        news = {name: text for name, text in states.items() if self._written.get(name) != text}
        if news and self._try(lambda: self.store.put_facts(news)):
            self._written |= news


AgentLimits = tuple[Limits, Mapping[str, Bound]]


def forget_learned(store: FleetStore) -> None:
    """Forget what the maker of a database learned, and that rows were read: another maker reads all of them."""
    for name in (MAKER, POSITION, STAGES, ROLLOUT):
        store.drop_fact(name)


def _limits(hello: AgentHello | None) -> AgentLimits:
    if hello is None:
        return Limits(allow_unfair=True), {}
    bounds = {each.knob: Bound(each.least, each.most, each.values) for each in hello.bounds}
    reaches = {each.knob: Bound(each.least, each.most, each.values) for each in hello.reaches}
    return Limits(bounds, allow_unfair=hello.allow_unfair), reaches


def _out_of_reach(profile: Profile, reaches: Mapping[str, Bound]) -> str:
    """Return which setting the agent's driver does not take; "" where its reach is not known."""
    for knob, value in profile.settings if reaches else ():
        if knob not in reaches or not reaches[knob].holds(value):
            return f"profile {profile.name}: {knob}={value_text(value)} is out of reach of its driver"
    return ""


def _state_text(state: AgentState, before: str, now_ns: int) -> str:
    """Return an agent's state as JSON; the hello stays if this start of the manager has heard none."""
    hello = state.hello
    form: dict[str, Json] = json.loads(before) if before else {}
    form |= {
        "heard_s": now_ns // 1_000_000_000, "held": f"{state.held[0]}.{state.held[1]}", "reason": state.reason,
        "rejected": f"{state.rejected[0]}.{state.rejected[1]}" if state.rejected else "",
        "refused": len(state.refused) + state.omitted, "waiting": state.waiting, "dropped": state.dropped,
        "skew_s": round(state.skew_s), "frozen": state.frozen,
    }  # fmt: skip
    if hello is not None:
        form |= {"release": hello.release, "driver": hello.driver, "unfair": hello.allow_unfair,
                 "bounds": _spans(hello.bounds), "reaches": _spans(hello.reaches)}  # fmt: skip
    return canonical(form)


def _spans(forms: Sequence[BoundForm | ReachForm]) -> list[Json]:
    return [[each.knob, each.least, each.most, list(each.values)] for each in forms]


def _limits_of(form: Mapping[str, Any]) -> AgentLimits:
    """Return the limits in a state that was kept."""
    spans = ({row[0]: Bound(row[1], row[2], tuple(row[3])) for row in form.get(kind, [])}
             for kind in ("bounds", "reaches"))  # fmt: skip
    bounds, reaches = spans
    return Limits(bounds, allow_unfair=bool(form.get("unfair", True))), reaches
