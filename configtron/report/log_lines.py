# SPDX-License-Identifier: MIT
"""Logging: to stderr or a file, as text or one JSON object a line; data never goes here."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from configtron.model.errors import BadInput
from configtron.model.records import canonical
from configtron.model.wording import visible

# -q, nothing, -v, -vv.
LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


class TextLines(logging.Formatter):
    """One line of text for each message. What other hosts sent stands in some: a character that does not print is shown
    as its number, so that none can pose as another line, or write to a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, without a traceback."""
        return visible(super().formatMessage(record))


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, name, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        form = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "name": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            form["traceback"] = self.formatException(record.exc_info)
        return canonical(dict(form))


def begin_logging(loudness: int, form: str, file: Path | None) -> None:
    """Set up the logger `configtron`. loudness: -1 to 2; form: "text" or "json"; file: None for stderr. Errors:
    `BadInput`."""
    handler: logging.Handler
    try:
        handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error
    text = TextLines("%(levelname)s %(message)s" if not file else None)
    handler.setFormatter(JsonLines() if form == "json" else text)
    logger = logging.getLogger("configtron")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(LEVELS[min(loudness, max(LEVELS))])


def log_progress() -> None:
    """Log what a command that runs on does, unless -q, -v or -vv asked for less or more."""
    logger = logging.getLogger("configtron")
    if logger.level == LEVELS[0]:
        logger.setLevel(logging.INFO)
