# SPDX-License-Identifier: MIT
"""The process of a manager's learner: questions in, answers out, rows from the database, which it only reads.

python -m configtron.service.fleet.learner_main DESCRIPTOR

It ends when the other end of the socketpair is closed. Log lines go to the manager, in whose log they stand.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from io import BufferedRWPair
from pathlib import Path
from typing import Any

from configtron.db.fleet import FleetStore
from configtron.model.errors import DONE, Busy, ConfigtronError
from configtron.service.faults import fault
from configtron.service.fleet.learner_process import LearnerFailure, LearnerLine, LearnerRecipe, Said
from configtron.service.fleet.map_learning import LearningAnswer, LearningAsk, MapLearning
from configtron.service.fleet.map_maker import MapMaker
from configtron.service.fleet.stages import Stages

# By how much the process yields to others, the manager's above all.
NICER = 5
# Exit code for a fault of this program.
FAULT = 1


class ManagerGone(Exception):
    """The manager has ended: no error of its learner, which may have an `EOFError` of its own."""


class LearnerLoop(logging.Handler):
    """Questions of a manager, answered one after the other; a log line is said at once."""

    def __init__(self, stream: BufferedRWPair) -> None:
        super().__init__()
        self._stream, self.begun = stream, False

    def say(self, message: Said) -> None:
        """Send a message, whole. Errors: `ManagerGone`."""
        data = pickle.dumps(message)
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise ManagerGone from error

    def _next(self) -> Any:
        """Return the manager's next message. Errors: `ManagerGone`."""
        try:
            return pickle.load(self._stream)
        except (EOFError, OSError) as error:
            raise ManagerGone from error

    def emit(self, record: logging.LogRecord) -> None:
        """Send a log line."""
        self.say(LearnerLine(record.levelno, record.getMessage()))

    def run(self) -> None:
        """Answer until the manager has ended. Errors: those of maker, stages and database; `ManagerGone`."""
        recipe: LearnerRecipe = self._next()
        with FleetStore(recipe.database, read_only=True) as store:
            maker, stages = made_by(recipe.maker)(recipe.database, dict(recipe.arguments))
            learning = MapLearning(store, maker, stages, lambda: self.say(LearnerLine(logging.DEBUG, "")), learned=True)
            self.begun, current = True, None
            while True:
                ask: LearningAsk = self._next()
                current = ask.current or current
                try:
                    found = learning.turn(ask._replace(current=current))
                except Busy:
                    # Its rows are read with the next question.
                    found = LearningAnswer(ask.now_ns)
                current = found.map or current
                self.say(found)


def made_by(maker: str) -> Callable[[Path, dict[str, Any]], tuple[MapMaker, Stages | None]]:
    """Return the function MODULE:FUNCTION."""
    module, _, name = maker.partition(":")
    found: Callable[[Path, dict[str, Any]], tuple[MapMaker, Stages | None]] = getattr(import_module(module), name)
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
    loop = LearnerLoop(socket.socket(fileno=int(arguments[0])).makefile("rwb"))
    logger = logging.getLogger("configtron")
    logger.setLevel(logging.INFO)
    logger.addHandler(loop)
    try:
        loop.run()
    except ManagerGone:
        return DONE
    except Exception as error:
        text, code = (str(error), error.code) if isinstance(error, ConfigtronError) else (fault(error), FAULT)
        try:
            loop.say(LearnerFailure(text, code, loop.begun))
        except ManagerGone:
            return DONE
        return code
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
