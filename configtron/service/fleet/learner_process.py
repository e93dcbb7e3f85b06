# SPDX-License-Identifier: MIT
"""A manager's learner in a process of its own, started, watched and started again by the manager.

An update takes seconds of a processor, and leases live for seconds: the process that answers agents never waits for it.
The learner reads the manager's database and writes nothing; what it learned comes with its answer, and only what the
manager has stored counts. So it may be killed at any moment.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import configtron
from configtron.fleet.transport.learner_link import (
    FROM_LEARNER,
    AnswerForm,
    AskForm,
    BeginForm,
    FailureForm,
    LearnerGone,
    LearnerLink,
    LogLineForm,
    MapForm,
)
from configtron.learner.map_text import map_of_text, map_text
from configtron.model.errors import BadInput, Missing
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.records import Json, canonical
from configtron.service.fleet.agent_limits import limits_form
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


class LearnerProcess(MapLearner):
    """The manager's side. hang_s: as `HANG_S`; again_s: until a learner that ended is started
    again, s, ever longer.

    starts  how often it was started
    """

    def __init__(self, recipe: LearnerRecipe, *, hang_s: float = HANG_S, again_s: float = AGAIN_S) -> None:
        self._recipe, self._hang_s, self._restarts = recipe, hang_s, Restarts(again_s)
        self.staged, self.starts = recipe.staged, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._link: LearnerLink | None = None
        self._begun = False
        self._heard_s: float | None = None
        # Since when a process whose socket is closed has not ended; processes that were killed.
        self._closed_s: float | None = None
        self._killed: list[subprocess.Popen[bytes]] = []
        # What the process has: place of the map, limits as JSON.
        self._place: tuple[int, int] | None = None
        self._limits = ""

    @property
    def pid(self) -> int | None:
        """Return the number of the process; None: none runs."""
        return None if self._process is None else self._process.pid

    @property
    def idle(self) -> bool:
        """Return whether it answers no question just now; a process that has ended answers none."""
        return self._heard_s is None

    def ask(self, question: LearningAsk, now: float) -> None:
        """Ask; where no process runs, start one once its wait is over."""
        try:
            if self._link is None and self._process is None and now >= self._restarts.due_s:
                self._begin(now)
            if self._link is not None:
                self._link.send(self._form(question))
                self._heard_s = now
        except LearnerGone:
            self._close(now)

    def answer(self, now: float) -> LearningAnswer | None:
        """Return the answer, once. Errors: those of a process that cannot begin for an operator's fault."""
        self._killed = [one for one in self._killed if one.poll() is None]
        if self._closed_s is not None:
            self._reap(now, self._closed_s)
        if self._link is None:
            return None
        try:
            return self._received(self._link, now)
        except LearnerGone:
            self._close(now)
            return None

    def _received(self, link: LearnerLink, now: float) -> LearningAnswer | None:
        link.flush()
        for message in link.receive(FROM_LEARNER):
            self._heard_s = None if self._heard_s is None else now
            match message:
                case AnswerForm():
                    return self._answered(message)
                case FailureForm():
                    self._failed(message, now)
                    return None
                case LogLineForm(level, text) if text:
                    log.log(level, "%s", text)
        if self._heard_s is not None and now - self._heard_s > self._hang_s:
            self._kill()
            self._wait(now, f"has not answered for {self._hang_s:g} s and was killed")
        return None

    def hand(self, rows: Sequence[OutcomeRow], last: int) -> None:
        """Leave rows to the process, which reads them."""

    def forget(self) -> None:
        """End the process; the next one goes on from what is stored."""
        self._kill()

    def close(self) -> None:
        """End the process, and wait for that."""
        self._kill()
        for one in self._killed:
            one.wait()

    # The process.

    def _begin(self, now: float) -> None:
        """Start the process, or, without descriptors or memory for one, wait."""
        try:
            self._start()
        except OSError as error:
            self._kill()
            self._wait(now, f"cannot be started: {error.strerror}")

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        # -P: import nothing from the working directory, but where the policy's class is there.
        command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())]
        path = str(Path(configtron.__file__).parent.parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path[1:])])}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL)
        theirs.close()
        self._link, self._place, self._limits, self._heard_s = LearnerLink(ours, blocking=False), None, "", None
        self.starts += 1
        recipe = self._recipe
        self._link.send(BeginForm(str(recipe.database.resolve()), recipe.maker, canonical(dict(recipe.arguments))))

    def _kill(self) -> None:
        """Kill the process, if one runs."""
        if self._link is not None:
            self._link.socket.close()
        if self._process is not None:
            self._process.kill()
            self._killed.append(self._process)
        self._link, self._process, self._heard_s, self._closed_s = None, None, None, None

    def _close(self, now: float) -> None:
        """Take note that the process has closed its socket."""
        assert self._link is not None
        self._link.socket.close()
        self._link, self._heard_s, self._closed_s = None, None, now

    def _reap(self, now: float, closed_s: float) -> None:
        """Find out how a process ended whose socket is closed."""
        code = None if self._process is None else self._process.poll()
        if code is None and now - closed_s < END_S:
            return
        self._kill()
        how = "without an exit code" if code is None else f"by signal {-code}" if code < 0 else f"by exit code {code}"
        self._wait(now, f"has ended {how}")

    def _failed(self, failure: FailureForm, now: float) -> None:
        """Take a process's reason for its end. Errors: it, where none ever began and only an operator can mend it."""
        self._kill()
        if not self._begun and not failure.begun and failure.code in FINAL:
            raise FINAL[failure.code](failure.text)
        self._wait(now, f"has ended: {failure.text}")

    def _wait(self, now: float, what: str) -> None:
        again_s = self._restarts.ended(now)
        log.warning("the learner %s; it is started again in %g s; the map in force stays", what, again_s)

    # Messages.

    def _form(self, ask: LearningAsk) -> AskForm:
        """Return a question as a message, without what the process has already."""
        place = None if ask.current is None else (ask.current.term, ask.current.version)
        current = None if ask.current is None or place == self._place else map_form(ask.current)
        limits = canonical({name: limits_form(each) for name, each in ask.limits.items()})
        news = None if limits == self._limits else limits
        self._place, self._limits = place, limits
        return AskForm(ask.now_ns, ask.place, ask.key, ask.span_ns, current, news, ask.agents, ask.refused, ask.entries,
                       ask.again, ask.paused, ask.recalled, ask.save)  # fmt: skip

    def _answered(self, message: AnswerForm) -> LearningAnswer:
        self._heard_s, self._begun = None, True
        self._restarts.worked()
        made = None if message.map is None else map_of_form(message.map)
        self._place = self._place if made is None else (made.term, made.version)
        return LearningAnswer(message.asked_ns, made, message.why, message.facts, message.classes)


def map_form(fleet_map: FleetMap) -> MapForm:
    """Return a map as a message has it."""
    return MapForm(map_text(fleet_map), fleet_map.key)


def map_of_form(form: MapForm) -> FleetMap:
    """Return the map of a message. Errors: `BadInput`."""
    return map_of_text(form.text, form.key)
