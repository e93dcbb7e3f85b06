# SPDX-License-Identifier: MIT
"""Events of a watch as rows: a table for people, JSON Lines or CSV for programs."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from configtron.report.files import visible
from configtron.report.rows import emit
from configtron.service.lease.watcher import EVENT_COLUMNS, WatchEvent

log = logging.getLogger("configtron.tune")


class EventWriter:
    """Write events as rows; the first ones with a header."""

    def __init__(self, form: str, out: TextIO) -> None:
        self._form, self._out, self._header = form, out, True

    def write(self, events: list[WatchEvent]) -> None:
        """Write the events of one turn, and log those that do not go to a terminal's table."""
        if self._form != "table" or self._out is not sys.stdout:
            for event in events:
                log.warning("%s", event.text)
        if self._form == "table":
            self._out.writelines(visible(event.text) + "\n" for event in events)
        else:
            emit(self._form, EVENT_COLUMNS, [event.form() for event in events], self._out, header=self._header)
        self._header = False
        self._out.flush()
