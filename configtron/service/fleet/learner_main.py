# SPDX-License-Identifier: MIT
"""The process of a manager's learner: questions in, answers out, rows from the database, which it only reads.

python -m configtron.service.fleet.learner_main DESCRIPTOR

It ends when the other end of the socketpair is closed. Log lines go to the manager, in whose log they stand.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from configtron.db.fleet import FleetStore
from configtron.fleet.transport.learner_link import (
    TO_LEARNER,
    AnswerForm,
    AskForm,
    BeginForm,
    FailureForm,
    LearnerGone,
    LearnerLink,
    LogLineForm,
)
from configtron.model.errors import DONE, Busy, ConfigtronError
from configtron.model.fleet import FleetMap
from configtron.service.faults import fault
from configtron.service.fleet.agent_limits import AgentLimits, limits_of_form
from configtron.service.fleet.learner_process import map_form, map_of_form
from configtron.service.fleet.map_learning import LearningAnswer, LearningAsk, MapLearning
from configtron.service.fleet.map_maker import MapMaker
from configtron.service.fleet.stages import Stages

# By how much the process yields to others, the manager's above all.
NICER = 5
# Exit code for a fault of this program.
FAULT = 1


class ManagerLog(logging.Handler):
    """Log lines as messages to the manager."""

    def __init__(self, link: LearnerLink) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line."""
        self._link.send(LogLineForm(record.levelno, record.getMessage()))


class LearnerLoop:
    """Questions of a manager, answered one after the other."""

    def __init__(self, link: LearnerLink) -> None:
        self._link = link
        self._map: FleetMap | None = None
        self._limits: Mapping[str, AgentLimits] = {}
        self.begun = False

    def run(self) -> None:
        """Answer until the manager has ended. Errors: those of maker, stages and database; `LearnerGone`."""
        waiting = self._link.receive(TO_LEARNER)
        begin = waiting.pop(0)
        assert isinstance(begin, BeginForm)
        with FleetStore(Path(begin.database), read_only=True) as store:
            maker, stages = made_by(begin.maker)(Path(begin.database), json.loads(begin.arguments))
            learning = MapLearning(store, maker, stages, self._alive, learned=True)
            self.begun = True
            while True:
                for message in waiting:
                    assert isinstance(message, AskForm)
                    self._link.send(self._answer(learning, message))
                waiting = self._link.receive(TO_LEARNER)

    def _alive(self) -> None:
        self._link.send(LogLineForm(logging.DEBUG, ""))

    def _answer(self, learning: MapLearning, message: AskForm) -> AnswerForm:
        ask = self._question(message)
        try:
            found = learning.turn(ask)
        except Busy:
            # Its rows are read with the next question.
            found = LearningAnswer(ask.now_ns)
        self._map = found.map or self._map
        made = None if found.map is None else map_form(found.map)
        classes = None if found.classes is None else dict(found.classes)
        return AnswerForm(found.asked_ns, made, found.why, dict(found.facts), classes)

    def _question(self, form: AskForm) -> LearningAsk:
        """Return a message as a question, completed by what came before."""
        if form.map is not None:
            self._map = map_of_form(form.map)
        if form.limits is not None:
            self._limits = {name: limits_of_form(each) for name, each in json.loads(form.limits).items()}
        return LearningAsk(form.now_ns, form.place, form.key, form.span_ns, self._map, self._limits, form.agents,
                           form.refused, form.entries, form.again, form.paused, form.recalled, form.save)  # fmt: skip


def made_by(maker: str) -> Callable[[Path, dict[str, object]], tuple[MapMaker, Stages | None]]:
    """Return the function MODULE:FUNCTION."""
    module, _, name = maker.partition(":")
    found: Callable[[Path, dict[str, object]], tuple[MapMaker, Stages | None]] = getattr(import_module(module), name)
    return found


def main(arguments: list[str]) -> int:
    """Run as a process that the manager started."""
    # Both go to all processes of a terminal or a unit; the manager ends this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        os.nice(NICER)
    except OSError:
        # A unit's filter of system calls may refuse it.
        pass
    link = LearnerLink(socket.socket(fileno=int(arguments[0])), blocking=True)
    logger = logging.getLogger("configtron")
    logger.setLevel(logging.INFO)
    logger.addHandler(ManagerLog(link))
    loop = LearnerLoop(link)
    try:
        loop.run()
    except LearnerGone:
        return DONE
    except Exception as error:
        text, code = (str(error), error.code) if isinstance(error, ConfigtronError) else (fault(error), FAULT)
        try:
            link.send(FailureForm(text, code, loop.begun))
        except LearnerGone:
            return DONE
        return code
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
