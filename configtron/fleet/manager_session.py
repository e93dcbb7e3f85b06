# SPDX-License-Identifier: MIT
"""The manager's side of the protocol: frames, ticks and results in; effects out. No socket, no clock, no file.

Question   How does one manager keep many agents at the current map, and store each of their outcomes once?
Method     Every frame comes with the key of its connection, and each one's key is looked up in the allow-list: a key
           that was revoked is heard on no connection. An agent's name is its key's, whatever its frames say. A new
           version is announced to all agents; each asks for it, and gets it whole. A version that an agent rejected is
           not sent to it again until it is started anew.
           What an agent says of another manager counts only with that manager's proof. The manager logs a few lines
           a minute about one agent, and counts the others.
Stop when  An agent's hello carries the proof of another manager with a later term or the same: this one stops, and
           names both.
Reads as   Effects, in order: `SendTo`, `StoreRows`, `AgentReport`, `StopManager`, `ManagerRemark`.
Fails as   A log line, once for each reason that is remembered; a frame that is no message is answered by the reason.
Differs    from a server that authenticates connections: libzmq asks about a key once, when a connection begins.
Source     pyzmq `User-Id` of frames; xDS protocol
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nacl.signing import SigningKey

from configtron.fleet.clock_steps import step_line
from configtron.fleet.manager_proof import is_proven, proof_of
from configtron.fleet.map_document import SignedMap, chunks, document
from configtron.fleet.messages import (
    AgentHello,
    Beat,
    Chunk,
    FromAgent,
    FromManager,
    MapResult,
    MessageError,
    OutcomeBatch,
    Rebuff,
    Receipt,
    Want,
    Welcome,
    frame,
    from_agent,
    outcome_rows,
    refused_count,
)
from configtron.model.fleet import ARM, OutcomeRow
from configtron.model.wording import visible

# s without a frame until an agent counts as away.
AWAY_S = 10.0
# Connections of one agent that are remembered; s for which frames of an earlier start may still be under way.
MOST_STARTS, BOTH_S = 8, 5.0
# s that a wall clock may differ until it is remarked upon, and that two frames in a row may differ about it: one that
# was under way for long makes a clock look slow.
SKEW_S, SAME_SKEW_S = 5.0, 1.0
# Reasons remembered of one agent, or of all unknown keys: a bound on memory. Lines about one agent in `LINES_S`: enough
# to see a fault, too few to fill the journal.
MOST_REMARKS, MOST_LINES, LINES_S = 100, 5, 60.0
# A version is sent to an agent again after this; agents wait a second or more before they ask again.
AGAIN_S = 0.5


class SendTo(NamedTuple):
    """Send a frame to one connection."""

    connection: bytes
    data: bytes


class StoreRows(NamedTuple):
    """Store the rows of a batch, all or none; the result comes back by `ManagerSession.stored`."""

    connection: bytes
    agent: str
    boot: str
    first: int
    rows: list[OutcomeRow]


class AgentReport(NamedTuple):
    """An agent's state changed: it sent a hello, or reported what it did with a map."""

    agent: str


class StopManager(NamedTuple):
    """Another manager is obeyed: this one is to end. term: that an agent proved of the other; 0: none did."""

    reason: str
    term: int = 0


class ManagerRemark(NamedTuple):
    """A line for the log; `urgent`: a warning."""

    text: str
    urgent: bool = True


ManagerEffect = SendTo | StoreRows | AgentReport | StopManager | ManagerRemark


@dataclass
class AgentState:
    """What is known of one agent.

    heard_s, heard_ns when its latest frame came, by the session's clock; and its latest that was not refused, by the
                      wall clock
    held              (term, version) of the map in force there
    rejected, reason  the last version it refused, and why; None: it refused none
    refusal           how many of its frames were refused, and why the last was; "": outcomes have come since
    refused           entries of the version in force that it left out: (entry, reason)
    is_away           it was not heard for `AWAY_S`, and a line was logged
    skew_s, noted_s   its wall clock minus the manager's, and that when it was logged last
    sent, sent_s      the version that was sent to it last, and when
    starts, begun_s   connection -> start that introduced itself there, the latest few; when the latest one did
    """

    hello: AgentHello | None = None
    heard_s: float = float("-inf")
    heard_ns: int = 0
    held: tuple[int, int] = (0, 0)
    rejected: tuple[int, int] | None = None
    reason: str = ""
    refusal: str = ""
    refused: tuple[tuple[str, str], ...] = ()
    omitted: int = 0
    waiting: int = 0
    dropped: int = 0
    is_away: bool = False
    skew_s: float = 0.0
    noted_s: float = 0.0
    frozen: str = ""
    starts: dict[bytes, str] = field(default_factory=dict)
    begun_s: float = float("-inf")
    sent: tuple[int, int] = (0, 0)
    sent_s: float = float("-inf")

    def introduce(self, connection: bytes, hello: AgentHello) -> None:
        """Take a hello, whose frame is the latest that was heard."""
        if self.hello is None or self.hello.boot != hello.boot:
            # Started anew: whatever stood in the way may have been mended, so a rejected map is sent once more.
            self.rejected, self.reason, self.begun_s = None, "", self.heard_s
        self.hello = hello
        self.starts.pop(connection, "")
        self.starts[connection] = hello.boot
        while len(self.starts) > MOST_STARTS:
            del self.starts[next(iter(self.starts))]

    def twice(self, connection: bytes) -> bool:
        """Return whether an earlier start is still alive on that connection, `BOTH_S` after the latest one began."""
        boot = self.starts.get(connection, "")
        if not boot or self.hello is None or boot == self.hello.boot:
            return False
        return self.heard_s - self.begun_s > BOTH_S


class AgentLines:
    """What the manager logs about one agent, or about all unknown keys.

    reasons          lines logged before: each is logged once
    since_s          when the current minute began
    lines, unlogged  lines of this minute that were logged, and that were not
    refused          frames refused so far
    """

    def __init__(self) -> None:
        self.reasons: set[str] = set()
        self.since_s = float("-inf")
        self.lines = self.unlogged = self.refused = 0

    def remark(self, text: str) -> list[ManagerEffect]:
        """Return a line unless it is remembered. After `MOST_REMARKS` lines all are forgotten."""
        if text in self.reasons:
            return []
        if len(self.reasons) >= MOST_REMARKS:
            self.reasons.clear()
        self.reasons.add(text)
        return [ManagerRemark(text)]

    def limit_lines(self, name: str, effects: list[ManagerEffect], now: float) -> list[ManagerEffect]:
        """Return the effects of one frame (`now`: s), with at most `MOST_LINES` lines a minute.

        Characters that do not print become escapes, so that no agent forges a line or controls a terminal.
        """
        found = self.begin_minute(name, now)
        for effect in effects:
            if not isinstance(effect, ManagerRemark):
                found.append(effect)
            elif self.lines < MOST_LINES:
                self.lines += 1
                found.append(effect._replace(text=visible(effect.text)))
            else:
                self.unlogged += 1
        return found

    def begin_minute(self, name: str, now: float) -> list[ManagerEffect]:
        """Begin another minute if `LINES_S` have passed; return a line about the lines that were not logged, if any."""
        if now - self.since_s < LINES_S:
            return []
        text = (f"agent {name}: {self.unlogged} more lines about it in {LINES_S:g} s were not logged; so far"
                f" {self.refused} of its frames were refused; look at that host, or revoke the agent")  # fmt: skip
        found: list[ManagerEffect] = [ManagerRemark(text)] if self.unlogged else []
        self.since_s, self.lines, self.unlogged = now, 0, 0
        return found


class ManagerSession:
    """One manager's conversations; times are seconds of any clock that is never set back.

    manager  its name: host and start, unlike any other's
    term     one more at each start
    allowed  public key (Z85 text) -> agent's name
    key      by which every manager of the fleet signs
    """

    def __init__(self, manager: str, term: int, allowed: Mapping[str, str], key: SigningKey) -> None:
        self.manager, self.term = manager, term
        self.allowed = dict(allowed)
        self.agents: dict[str, AgentState] = {}
        self.current: SignedMap | None = None
        # The frames of the current version, made when the first agent asks for it.
        self._chunks: list[bytes] = []
        self._key, self._proof = key.verify_key, proof_of(manager, term, key)
        self.lines: dict[str, AgentLines] = {}
        self._strangers, self.unheard = AgentLines(), 0

    def allow(self, allowed: Mapping[str, str]) -> None:
        """Replace the allow-list; it holds from the next frame on."""
        self.allowed = dict(allowed)
        for name in self.agents.keys() - set(allowed.values()):
            del self.agents[name]
        for name in self.lines.keys() - set(allowed.values()):
            del self.lines[name]

    def publish(self, new: SignedMap) -> list[ManagerEffect]:
        """Make a version the current one, and announce it: without that, an agent would ask at its next beat."""
        self.current, self._chunks = new, []
        heard = (next(reversed(agent.starts)) for agent in self.agents.values() if agent.starts and not agent.is_away)
        return [self._to(connection, self._welcome()) for connection in heard]

    def _welcome(self) -> Welcome:
        return Welcome(self.manager, self.term, self.current.head.version if self.current else 0, self._proof)

    def receive(self, connection: bytes, key: str, data: bytes, now: float, now_ns: int = 0) -> list[ManagerEffect]:
        """Take a frame: of which connection, and by which key it was authenticated. `now_ns`: wall clock."""
        name = self.allowed.get(key)
        if name is None:
            self.unheard += 1
            return self._strangers.remark(f"a frame by the key {key[:12]}... is dropped: revoked, or never enrolled")
        lines = self.lines.setdefault(name, AgentLines())
        return lines.limit_lines(name, self._heard(connection, name, lines, data, now, now_ns), now)

    def _heard(self, connection: bytes, name: str, lines: AgentLines, data: bytes, now: float, now_ns: int) -> list[
        ManagerEffect]:  # fmt: skip
        agent = self.agents.setdefault(name, AgentState())
        found = self._back(name, agent, now)
        agent.heard_s = now
        try:
            found += self._taken(connection, name, agent, from_agent(data), now_ns)
            agent.heard_ns = now_ns
        except MessageError as error:
            lines.refused += 1
            agent.refusal = f"{lines.refused} frames refused, the last: {error}"
            rebuff = SendTo(connection, frame(Rebuff(self.manager, self.term, str(error)[:1000])))
            found += [*lines.remark(f"agent {name}: a frame is refused: {error}"), rebuff]
        return found

    def _taken(self, connection: bytes, name: str, agent: AgentState, message: FromAgent, now_ns: int) -> list[
        ManagerEffect]:  # fmt: skip
        """Take a message. Errors: `MessageError` for its rows, and for what it does not prove."""
        match message:
            case AgentHello() | Beat():
                return self._present(connection, name, agent, message, now_ns)
            case Want():
                return self._sent(connection, agent, message)
            case MapResult():
                return self._result(name, agent, message)
            case OutcomeBatch():
                rows, agent.refusal = outcome_rows(name, message), ""
                return [StoreRows(connection, name, message.boot, message.first, rows)]

    def stored(self, connection: bytes, boot: str, through: int) -> list[ManagerEffect]:
        """Take the result of a `StoreRows`: every row of that boot up to `through` is on the disk."""
        return [self._to(connection, Receipt(self.manager, self.term, boot, through))]

    def watch(self, now: float) -> list[ManagerEffect]:
        """Return lines about what was not logged and, once each, about agents that are silent for `AWAY_S`."""
        found = [line for name, lines in self.lines.items() for line in lines.begin_minute(name, now)]
        for name, agent in self.agents.items():
            if not agent.is_away and now - agent.heard_s > AWAY_S:
                agent.is_away = True
                found.append(ManagerRemark(f"agent {name} has not been heard for {AWAY_S:g} s: it, its host or the way"
                                           " here is down; there: systemctl status configtron-agent"))  # fmt: skip
        return found

    def _back(self, name: str, agent: AgentState, now: float) -> list[ManagerEffect]:
        if not agent.is_away:
            return []
        agent.is_away = False
        return [ManagerRemark(f"agent {name} is heard again after {now - agent.heard_s:.0f} s", False)]

    def stepped(self, step_s: float) -> list[ManagerEffect]:
        """Take a step of this host's wall clock: agents' clocks did not change with it."""
        for agent in self.agents.values():
            agent.skew_s, agent.noted_s = agent.skew_s - step_s, agent.noted_s - step_s
        return [ManagerRemark(step_line(step_s, "maps and outcomes are dated by it"))]

    def _skewed(self, name: str, agent: AgentState, skew_s: float) -> list[ManagerEffect]:
        """Take how far an agent's clock is off; return a line where that is news and no late frame's doing."""
        before, agent.skew_s = agent.skew_s, skew_s
        if abs(skew_s - before) > SAME_SKEW_S or abs(skew_s - agent.noted_s) <= SKEW_S:
            return []
        agent.noted_s = skew_s
        if abs(skew_s) <= SKEW_S:
            return [ManagerRemark(f"agent {name}: its clock agrees with this host's again", False)]
        return [ManagerRemark(f"agent {name}: its clock is off this host's by {skew_s:+.0f} s, its epochs are others;"
                              " see the time synchronisation of both hosts: timedatectl")]  # fmt: skip

    def _present(self, connection: bytes, name: str, agent: AgentState, message: AgentHello | Beat, now_ns: int
                 ) -> list[ManagerEffect]:  # fmt: skip
        found: list[ManagerEffect] = []
        if isinstance(message, AgentHello) and (stop := self._objected(name, message)):
            return stop
        agent.held = (message.term, message.version)
        if message.clock_ns and now_ns:
            found += self._skewed(name, agent, (message.clock_ns - now_ns) / 1e9)
        if isinstance(message, AgentHello):
            if agent.hello is not None and agent.hello.boot != message.boot:
                place = f"{message.term}.{message.version}" if message.version else "none"
                found.append(ManagerRemark(f"agent {name} was started anew; the map it holds: {place}", False))
            agent.introduce(connection, message)
            found.append(AgentReport(name))
        else:
            if agent.twice(connection):
                text = (
                    f"agent {name}: two hosts use its key at once; revoke it, and enroll each under a name of its own"
                )
                found += self.lines[name].remark(text)
            if agent.frozen and not message.frozen:
                agent.rejected, agent.reason = None, ""
            agent.waiting, agent.dropped, agent.frozen = message.waiting, message.dropped, message.frozen
        return [*found, self._to(connection, self._welcome())]

    def _objected(self, name: str, hello: AgentHello) -> list[ManagerEffect]:
        """Return the end of this manager if a hello names another one with a later term or the same, and carries its
        proof. Errors: `MessageError` without that proof."""
        term, manager = hello.seen_term, hello.seen
        if term > self.term or (term == self.term and manager != self.manager):
            if not is_proven(manager, term, hello.proof, self._key):
                raise MessageError(f"the agent names a manager of term {term} without a proof by the fleet's"
                                   f" key; this one, {self.manager}, has term {self.term}")  # fmt: skip
            later = "came later" if term > self.term else "has the same term"
            return [StopManager(f"agent {name} obeys the manager {manager} (term {term}), which {later}; this one,"
                                f" {self.manager} (term {self.term}), stops", term)]  # fmt: skip
        return []

    def _sent(self, connection: bytes, agent: AgentState, message: Want) -> list[ManagerEffect]:
        new, place = self.current, (message.term, message.version)
        if new is None or place != new.place or place == agent.rejected:
            return []
        if agent.sent == place and agent.heard_s - agent.sent_s < AGAIN_S:
            return []
        agent.sent, agent.sent_s = place, agent.heard_s
        if not self._chunks:
            parts = chunks(document(new))
            self._chunks = [
                frame(Chunk(self.manager, *place, number, len(parts), part)) for number, part in enumerate(parts)
            ]
        return [SendTo(connection, data) for data in self._chunks]

    def _result(self, name: str, agent: AgentState, message: MapResult) -> list[ManagerEffect]:
        place = (message.term, message.version)
        if message.error:
            is_news = (place, message.error) != (agent.rejected, agent.reason)
            agent.rejected, agent.reason = place, message.error
            text = f"agent {name} rejects map {place[0]}.{place[1]}: {message.error}"
            return [*self.lines[name].remark(text), *([AgentReport(name)] if is_news else ())]
        before, is_news = agent.held, (message.refused, message.omitted) != (agent.refused, agent.omitted)
        agent.held, agent.refused, agent.omitted = place, message.refused, message.omitted
        found: list[ManagerEffect] = [AgentReport(name)] if is_news or place != before else []
        if not ((message.refused or message.omitted) and is_news):
            return found
        entry, reason = message.refused[0] if message.refused else ("an entry that it does not name", "no reason")
        if not (count := refused_count(message.refused, message.omitted)):
            count = len(message.refused)
            text = (f"agent {name} has Default in place of {count} profiles of map {place[0]}.{place[1]},"
                    f" which its driver lacks, e.g. {entry.removeprefix(ARM)}")  # fmt: skip
        else:
            text = (f"agent {name} leaves {count} entries of map {place[0]}.{place[1]} out, as of any"
                    f" map until its operator allows them, e.g. {entry}: {reason}")  # fmt: skip
        return [*found, *self.lines[name].remark(text)]

    def _to(self, connection: bytes, message: FromManager) -> SendTo:
        return SendTo(connection, frame(message))
