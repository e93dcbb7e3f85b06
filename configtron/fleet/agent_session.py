# SPDX-License-Identifier: MIT
"""The agent's side of the protocol: frames, ticks and results in; effects out. No socket, no clock, no file.

Question   How does an agent keep the right map and lose no outcome, while frames are lost, doubled, cut or reordered,
           while either side is killed, and while a second manager speaks?
Method     It says hello until it is welcomed, then beats. A map is asked for until all of its parts have come, and
           handed on whole; what came of it is reported, and a version that was rejected is not asked for again. Rows
           leave the spool one batch at a time; each is sent until its receipt comes. A manager of an earlier term is
           refused, and so is a second one of the same term: it is answered by a hello, which names the one that is
           obeyed. An older map than the one in force is never loaded.
Stop when  Never.
Reads as   Effects, in order: `SendFrame`, `LoadMap`, `ReadSpool`, `ForgetRows`, `CheckRows`, `RememberManager`,
           `Remark`.
Fails as   A remark in one line, once for each reason.
Differs    from a client that trusts its connection: every frame carries manager and term, and is checked alone.
Source     xDS protocol: version, error field, last good kept, a rejected version is not sent again
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from configtron.fleet.messages import (
    AgentHello,
    Beat,
    Chunk,
    EncodedRows,
    FromAgent,
    FromManager,
    MapResult,
    MessageError,
    Rebuff,
    Receipt,
    Want,
    Welcome,
    batch_frame,
    frame,
    from_manager,
)

# s between two tries: of a hello, of a beat, of a batch without a receipt.
HELLO_S, BEAT_S, BATCH_S = 2.0, 1.0, 2.0
# s until a map that does not come is asked for again, twice as long each time, at most: a large one takes a slow link a
# while, and each time it is sent again.
WANT_S, MOST_WANT_S = 1.0, 60.0
# s until a map that could not be applied for now is asked for a third time, the second being at once; at most.
AGAIN_S, MOST_AGAIN_S = 1.0, 15.0
# s without a frame from the manager until it is greeted anew.
SILENCE_S = 5.0
# Reasons that are remarked upon, each once; then one line says that there are more.
MOST_REMARKS = 100


class SendFrame(NamedTuple):
    """Send a frame to the manager."""

    data: bytes


class LoadMap(NamedTuple):
    """Hand a document to what applies it; its result comes back by `AgentSession.loaded`."""

    term: int
    version: int
    document: bytes


class ReadSpool(NamedTuple):
    """Read the oldest rows of the spool; they come back by `AgentSession.spooled`."""


class ForgetRows(NamedTuple):
    """Delete the rows of a boot up to a number: the manager has them."""

    boot: str
    through: int


class CheckRows(NamedTuple):
    """Drop the rows of a boot up to a number that no manager can read: a disk damaged them. If some were, it comes back
    by `AgentSession.checked`."""

    boot: str
    through: int


class RememberManager(NamedTuple):
    """Keep on disk which manager is obeyed, so that an earlier one is refused after a restart too."""

    term: int
    manager: str
    proof: str


class Remark(NamedTuple):
    """A line for the log; `urgent`: a warning."""

    text: str
    urgent: bool = True


AgentEffect = SendFrame | LoadMap | ReadSpool | ForgetRows | CheckRows | RememberManager | Remark


@dataclass
class _Download:
    """Chunks of one version that is asked for."""

    place: tuple[int, int]
    due_s: float = float("-inf")
    wait_s: float = WANT_S
    count: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)


class AgentSession:
    """One agent's conversation with its manager; times are seconds of any clock that is never set back.

    hello          what the host is
    held           (term, version, digest) of the map in force, as what applies it reported
    manager        (term, name) of the latest manager obeyed, as it was remembered; (0, ""): none
    proof          what that one said of itself
    """

    def __init__(
        self, hello: AgentHello, held: tuple[int, int, bytes] = (0, 0, b""), manager: tuple[int, str] = (0, ""),
        proof: str = "",
    ) -> None:  # fmt: skip
        self._hello, self.held, self.manager, self.proof = hello, held, manager, proof
        self.rejected: tuple[int, int] | None = None
        self.waiting = self.dropped = 0
        self.frozen = ""
        self.clock_ns = hello.clock_ns
        self._welcomed = self._is_silent = False
        # When the first tick was, or a rebuff came.
        self._answered_s: float | None = None
        self._heard_s = self._greeted_s = self._beaten_s = float("-inf")
        self._download: _Download | None = None
        self._loading: tuple[int, int] | None = None
        self._retries, self._again_s = 0, float("-inf")
        self._offered: tuple[int, int] = (0, 0)
        self._batch: tuple[str, int, int] | None = None
        self._batch_frame, self._sent_s, self._reading = b"", float("-inf"), False
        # Whether the manager refused a frame since the batch was read.
        self._is_checked = False
        self._remarked: set[str] = set()

    def silence_s(self, now: float) -> float | None:
        """Return how long the manager has not been heard; None: it never was."""
        return now - self._heard_s if self._heard_s > float("-inf") else None

    # What happens.

    def tick(self, now: float) -> list[AgentEffect]:
        """Return what is due; call it some times a second."""
        if not self._welcomed or now - self._heard_s > SILENCE_S:
            self._welcomed = False
            return [*self._silent(now), *self._greet(now)]
        return [*self._beat(now), *self._ask(now), *self._deliver(now)]

    def receive(self, data: bytes, now: float) -> list[AgentEffect]:
        """Take a frame of the manager's."""
        try:
            message = from_manager(data)
        except MessageError as error:
            return self._remark(f"a frame from the manager is refused: {error}")
        if isinstance(message, Rebuff):
            # It is there, and says what is wrong.
            self._answered_s = now
            return [*self._remark(f"the manager refuses a frame: {message.reason}"), *self._check()]
        effects = self._obey(message)
        if (message.term, message.manager) != self.manager:
            return effects
        effects += self._heard(now)
        match message:
            case Welcome():
                # What was asked for before a silence did not come.
                self._download = self._download if self._welcomed else None
                self._welcomed = True
                self._offered = max(self._offered, (message.term, message.version))
            case Chunk():
                return effects + self._take(message, now)
            case Receipt():
                return effects + self._received(message, now)
        return effects + self._ask(now)

    def loaded(self, result: MapResult, held: tuple[int, int, bytes], now: float, *, retry: bool = False
               ) -> list[AgentEffect]:  # fmt: skip
        """Take the result of a `LoadMap`, and what is in force now. `retry`: ask for the map again."""
        place = (result.term, result.version)
        self._loading, self.held = None, held
        self._retries = self._retries + 1 if retry else 0
        if retry:
            self._again_s = now + min(AGAIN_S * (2 ** (self._retries - 1) - 1), MOST_AGAIN_S)
            return self._ask(now)
        if result.error:
            # A map that waited for the turn may be refused after a later one was.
            self.rejected = max(place, self.rejected or place)
        return [SendFrame(frame(result)), *self._ask(now)]

    def spooled(self, boot: str, first: int, rows: EncodedRows, now: float) -> list[AgentEffect]:
        """Take the oldest rows of the spool; without any, nothing is sent."""
        self._reading = False
        if not rows.number:
            return []
        self._batch, self._is_checked = (boot, first, first + rows.number - 1), False
        self._batch_frame, self._sent_s = batch_frame(boot, first, rows), now
        return [SendFrame(self._batch_frame)]

    def checked(self, number: int, now: float) -> list[AgentEffect]:
        """Take the result of a `CheckRows`: how many rows were dropped; the rest is sent."""
        self._batch = None
        text = f"{number} outcomes of the spool are damaged, thus dropped and counted; the others are sent"
        return [Remark(text), *self._deliver(now)]

    # What is done.

    def _greet(self, now: float) -> list[AgentEffect]:
        if now - self._greeted_s < HELLO_S:
            return []
        self._greeted_s = now
        return self._frames(self._greeting())

    def _greeting(self) -> AgentHello:
        (term, version, digest), (seen_term, seen) = self.held, self.manager
        return replace(self._hello, term=term, version=version, digest=digest, seen_term=seen_term, seen=seen,
                       clock_ns=self.clock_ns, proof=self.proof)  # fmt: skip

    def _silent(self, now: float) -> list[AgentEffect]:
        """Return a line where the manager has been silent for `SILENCE_S`, once until it is heard again."""
        if self._answered_s is None:
            self._answered_s = now
        if self._is_silent or now - max(self._heard_s, self._answered_s) <= SILENCE_S:
            return []
        self._is_silent = True
        term, version, _ = self.held
        goes_on = f"map {term}.{version} goes on while it is valid" if version else "Default applies"
        return [Remark(f"the manager has not been heard for {SILENCE_S:g} s: {goes_on}, outcomes wait in the spool; see"
                       " whether it runs, is reached from here, and lists this host: configtron learn manager"
                       " agents")]  # fmt: skip

    def _heard(self, now: float) -> list[AgentEffect]:
        before, self._heard_s = max(self._heard_s, self._answered_s or now), now
        if not self._is_silent:
            return []
        self._is_silent = False
        return [Remark(f"the manager is heard again after {now - before:.0f} s", False)]

    def _beat(self, now: float) -> list[AgentEffect]:
        if now - self._beaten_s < BEAT_S:
            return []
        self._beaten_s = now
        term, version, _ = self.held
        return self._frames(Beat(term, version, self.waiting, self.dropped, self.clock_ns, self.frozen[:1000]))

    def _obey(self, message: FromManager) -> list[AgentEffect]:
        """Accept the message's manager, or refuse it by name."""
        term, name = self.manager
        proof = message.proof if isinstance(message, Welcome) else ""
        if (message.term, message.manager) == self.manager:
            if proof in ("", self.proof):
                return []
            self.proof = proof
            return [RememberManager(*self.manager, proof)]
        if message.term > term:
            self.manager, self.proof = (message.term, message.manager), proof
            self._offered, self._download, self._welcomed = (0, 0), None, False
            self._greeted_s = float("-inf")
            became = f"manager {message.manager} (term {message.term}) is obeyed from now on"
            return [RememberManager(*self.manager, proof), Remark(became, False)]
        if message.term < term:
            why = f"manager {message.manager} (term {message.term}) is refused: {name} (term {term}) came after it"
        else:
            why = f"two managers have term {term}: {name} is obeyed, {message.manager} is refused; stop one of them"
        return [*self._remark(why), *self._frames(self._greeting())]

    def _ask(self, now: float) -> list[AgentEffect]:
        """Ask for the offered map if it is news, or again for chunks that did not come."""
        if self._loading is not None or now < self._again_s or not self._is_news(self._offered):
            return []
        found = self._download
        if found is None or found.place != self._offered:
            found = self._download = _Download(self._offered)
        if now < found.due_s:
            return []
        found.due_s, found.wait_s = now + found.wait_s, min(2.0 * found.wait_s, MOST_WANT_S)
        return self._frames(Want(*found.place))

    def _is_news(self, place: tuple[int, int]) -> bool:
        return place[1] > 0 and place > self.held[:2] and place != self.rejected

    def _take(self, chunk: Chunk, now: float) -> list[AgentEffect]:
        found = self._download
        if found is None or (chunk.term, chunk.version) != found.place:
            return []
        if chunk.number >= chunk.count or found.count not in (0, chunk.count):
            return self._remark(f"chunk {chunk.number} of {chunk.count} is refused")
        found.count = chunk.count
        found.parts[chunk.number] = chunk.part
        if len(found.parts) < found.count:
            return []
        self._download, self._loading = None, found.place
        return [LoadMap(*found.place, b"".join(found.parts[number] for number in range(found.count)))]

    def _deliver(self, now: float) -> list[AgentEffect]:
        """Send the batch again that has no receipt, or read the next one."""
        if self._batch is not None:
            if now - self._sent_s < BATCH_S:
                return []
            self._sent_s = now
            return [SendFrame(self._batch_frame)]
        if self._reading:
            return []
        self._reading = True
        return [ReadSpool()]

    def _check(self) -> list[AgentEffect]:
        """Check the batch that has no receipt, once."""
        if self._batch is None or self._is_checked:
            return []
        self._is_checked = True
        return [CheckRows(self._batch[0], self._batch[2])]

    def _received(self, message: Receipt, now: float) -> list[AgentEffect]:
        if self._batch is None or message.boot != self._batch[0]:
            return []
        boot, first, last = self._batch
        if message.through < last:
            return []
        self._batch = None
        return [ForgetRows(boot, last), *self._deliver(now)]

    def _frames(self, message: FromAgent) -> list[AgentEffect]:
        return [SendFrame(frame(message))]

    def _remark(self, text: str) -> list[AgentEffect]:
        if text in self._remarked or len(self._remarked) > MOST_REMARKS:
            return []
        self._remarked.add(text)
        return [Remark(text if len(self._remarked) <= MOST_REMARKS else "more refused frames are not logged")]
