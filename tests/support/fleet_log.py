# SPDX-License-Identifier: MIT
"""The log of a simulated fleet: each line that the product's code logs, with the virtual time and the process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol


class Line(NamedTuple):
    """A line of one process's log."""

    at_s: float
    process: str
    level: int
    text: str


class Running(Protocol):
    """What knows the virtual time, and which process runs now; "": none."""

    now: float
    acting: str


class FleetLog(logging.Handler):
    """Keeps the lines of one world."""

    def __init__(self, world: Running) -> None:
        super().__init__(logging.INFO)
        self._world, self.lines = world, list[Line]()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.lines.append(Line(self._world.now, self._world.acting, record.levelno, record.getMessage()))


@contextmanager
def logged(handler: FleetLog) -> Iterator[None]:
    """Have a world's lines, and no others, go to its handler."""
    logger = logging.getLogger("configtron")
    before = (logger.level, logger.propagate, logger.handlers, logging.root.manager.disable)
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [handler]
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers, disabled = before
        logger.setLevel(before[0])
        logging.disable(disabled)
