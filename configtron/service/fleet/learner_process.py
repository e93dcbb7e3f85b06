# SPDX-License-Identifier: MIT
"""A manager's learner in a process of its own, started, watched and started again by the manager.

An update takes seconds of a processor, and leases live for seconds: the process that answers agents never waits for it.
The learner reads the manager's database and writes nothing; what it learned comes with its answer, and only what the
manager has stored counts. So it may be killed at any moment.

Not `concurrent.futures`: a pool of processes keeps a writing end of its own results open, and waits without end for the
rest of one whose writer was killed.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedRWPair
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

import configtron
from configtron.model.errors import BadInput, Missing
from configtron.model.fleet import OutcomeRow
from configtron.model.records import Json
from configtron.service.fleet.map_learning import LearningAnswer, LearningAsk, MapLearner
from configtron.service.fleet.restarts import AGAIN_S, Restarts

log = logging.getLogger("configtron.fleet")

MODULE = "configtron.service.fleet.learner_main"
# s without a message after which a learner that was asked counts as hung: an update takes seconds.
HANG_S = 300.0
# s from the end of its socket until the system knows how it ended.
END_S = 2.0
# Errors with which a manager does not begin: only an operator can mend them.
FINAL = {kind.code: kind for kind in (BadInput, Missing)}


@dataclass(frozen=True, slots=True)
class LearnerRecipe:
    """What a learner's process is made of.

    database   the manager's
    maker      MODULE:FUNCTION, which takes the database and the arguments, and returns a maker and its stages
    arguments  JSON; they go by the socketpair, since a process's command line can be read by all users
    staged     the maker has stages
    """

    database: Path
    maker: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    staged: bool = False


class LearnerLine(NamedTuple):
    """A line for the manager's log; level: of `logging`. An empty line is a heartbeat."""

    level: int
    text: str


class LearnerFailure(NamedTuple):
    """Why the process ends. begun: it had restored its stored state before; code: exit code of the error."""

    text: str
    code: int
    begun: bool


Said = LearningAnswer | LearnerLine | LearnerFailure
# The nouns of an answer.
MODEL = "configtron.model."


class AnswerReader(pickle.Unpickler):
    """Reads what a learner says: messages, and nouns of the model in them; data, never code."""

    def find_class(self, module: str, name: str, /) -> type:
        """Return a class of a message. Errors: `UnpicklingError` for all else, of which nothing is imported."""
        if module.startswith(MODEL) or module in {kind.__module__ for kind in Said.__args__}:
            found: object = super().find_class(module, name)
            if isinstance(found, type) and (found in Said.__args__ or found.__module__.startswith(MODEL)):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an answer")


class _Running(Thread):
    """A process, and the thread that talks with it: the socket may take and give nothing for long.

    asks   questions for it, one at a time; None: end
    said   what came from it; the last is how it ended: its exit code, None: it had none in time
    """

    def __init__(self, recipe: LearnerRecipe) -> None:
        super().__init__(daemon=True)
        self._recipe, self.place = recipe, (0, 0)
        self.asks: SimpleQueue[LearningAsk | None] = SimpleQueue()
        self.said: SimpleQueue[Said | int | None] = SimpleQueue()
        self._link, theirs = socket.socketpair()
        # -P: import nothing from the working directory, but where the policy's class is there.
        command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())]
        path = str(Path(configtron.__file__).parent.parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path[1:])])}
        with theirs:
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        self.start()

    def run(self) -> None:
        """Talk until either has ended, or what came from it cannot be read."""
        try:
            with suppress(OSError, EOFError, pickle.UnpicklingError), self._link, self._link.makefile("rwb") as stream:
                self._talk(stream)
        finally:
            try:
                self.said.put(self.process.wait(END_S))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.said.put(None)
                self.process.wait()

    def _talk(self, stream: BufferedRWPair) -> None:
        pickle.dump(self._recipe, stream)
        while (ask := self.asks.get()) is not None:
            pickle.dump(ask, stream)
            stream.flush()
            while not isinstance(said := AnswerReader(stream).load(), LearningAnswer):
                self.said.put(said)
            self.said.put(said)

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.asks.put(None)
        # A process that it made may keep the other end open.
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)


class LearnerProcess(MapLearner):
    """The manager's side. hang_s: as `HANG_S`; again_s: until a learner that ended is started
    again, s, ever longer.

    starts  how often it was started
    """

    def __init__(self, recipe: LearnerRecipe, *, hang_s: float = HANG_S, again_s: float = AGAIN_S) -> None:
        self._recipe, self._hang_s, self._restarts = recipe, hang_s, Restarts(again_s)
        self.staged, self.starts = recipe.staged, 0
        self._running: _Running | None = None
        self._killed: list[_Running] = []
        self._begun = False
        self._heard_s: float | None = None

    @property
    def pid(self) -> int | None:
        """Return the number of the process; None: none runs."""
        return None if self._running is None else self._running.process.pid

    @property
    def idle(self) -> bool:
        """Return whether it answers no question just now; a process that has ended answers none."""
        return self._heard_s is None

    def ask(self, question: LearningAsk, now: float) -> None:
        """Ask; where no process runs, start one once its wait is over."""
        if self._running is None and now >= self._restarts.due_s:
            try:
                self._running = _Running(self._recipe)
                self.starts += 1
            except (OSError, RuntimeError) as error:
                # Without descriptors or memory for one.
                self._over(now, f"cannot be started: {getattr(error, 'strerror', error)}")
        if self._running is not None:
            self._heard_s = now
            if question.current is not None:
                place = question.current.term, question.current.version
                # The map is not sent again to a process that has it.
                question = question._replace(current=None) if place == self._running.place else question
                self._running.place = place
            self._running.asks.put(question)

    def answer(self, now: float) -> LearningAnswer | None:
        """Return the answer, once. Errors: those of a process that cannot begin for an operator's fault."""
        while self._running is not None and not self._running.said.empty():
            self._heard_s = None if self._heard_s is None else now
            match self._running.said.get():
                case LearningAnswer() as found:
                    self._heard_s, self._begun = None, True
                    self._restarts.worked()
                    if found.map is not None:
                        self._running.place = found.map.term, found.map.version
                    return found
                case LearnerLine(level, text):
                    if text:
                        log.log(level, "%s", text)
                case LearnerFailure(text, code, begun):
                    if not self._begun and not begun and code in FINAL:
                        self.forget()
                        raise FINAL[code](text)
                    self._over(now, f"has ended: {text}")
                case None:
                    self._over(now, "has ended without an exit code")
                case code:
                    self._over(now, f"has ended by {'exit code' if code >= 0 else 'signal'} {abs(code)}")
        if self._heard_s is not None and now - self._heard_s > self._hang_s:
            self._over(now, f"has not answered for {self._hang_s:g} s and was killed")
        return None

    def _over(self, now: float, what: str) -> None:
        """Let the process, if one runs, be followed by another."""
        self.forget()
        again_s = self._restarts.ended(now)
        log.warning("the learner %s; it is started again in %g s; the map in force stays", what, again_s)

    def hand(self, rows: Sequence[OutcomeRow], last: int) -> None:
        """Leave rows to the process, which reads them."""

    def forget(self) -> None:
        """Kill the process, if one runs; the next one goes on from what is stored."""
        self._killed = [one for one in self._killed if one.is_alive()]
        if self._running is not None:
            self._running.kill()
            self._killed.append(self._running)
        self._running, self._heard_s = None, None

    def close(self) -> None:
        """End the process, and wait for that."""
        self.forget()
        for one in self._killed:
            one.join()
