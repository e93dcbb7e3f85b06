# SPDX-License-Identifier: MIT
"""`configtron tune watch`."""

from __future__ import annotations

import logging
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import FORMATS, Finite
from configtron.model.errors import DONE, INTERRUPTED

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.cli.tune.watching import Event

log = logging.getLogger("configtron.tune")
# A foreign change is to be seen within a second: three quarters of it are left for reading a hundred thousand
# routes back. A turn without news costs 3 ms.
TURN_S = 0.25
EVENT_COLUMNS = ("at", "event", "act", "driver", "scope", "was", "found")


@click.command(short_help="Renew leases, and yield to whoever else changes a knob.")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the events.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--for", "span_s", type=Finite(min=0, min_open=True), metavar="SECONDS",
              help="Stop after so long; else at Ctrl-C.")  # fmt: skip
def watch(form: str, output_file: str, span_s: float | None) -> int:
    """Renew the leases of what is in force here, mend what was left behind, and look for other hands, four times a
    second.

    A knob of ours that somebody else changed is told within a second, and its scope (the prefix, profile or default) is
    frozen: no plan touches it until `configtron tune resume`. Without a watch, leases end. A row an event.
    """
    from configtron.cli.tune.desk import desk
    from configtron.db.tuning import Tuning
    from configtron.report.lines import opened

    stop = _Stop()
    until = None if span_s is None else time.monotonic() + span_s
    with opened(output_file) as out, Tuning(settings().db) as book:
        here = desk(book)
        _turns(here, stop, until, form, out)
    return INTERRUPTED if stop.asked else DONE


class _Stop:
    """Ctrl-C, SIGTERM or SIGHUP asks for the end of the turn that is under way, so nothing is done by half."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def _turns(here: Desk, stop: _Stop, until: float | None, form: str, out: TextIO) -> None:
    from configtron.cli.tune.watching import Watcher

    watcher, first = Watcher(here), True
    while not stop.asked and (until is None or time.monotonic() < until):
        began = time.monotonic()
        if events := watcher.turn():
            _write(form, events, out, header=first)
            first = False
        time.sleep(max(TURN_S - (time.monotonic() - began), 0))


def _write(form: str, events: list[Event], out: TextIO, *, header: bool) -> None:
    from configtron.report.lines import visible
    from configtron.report.tuning import write_rows

    rows = [event.form() for event in events]
    if form != "table" or out is not sys.stdout:
        for event in events:
            log.warning("%s", event.text)
    if form == "table":
        for event in events:
            out.write(visible(event.text) + "\n")
    else:
        write_rows(form, EVENT_COLUMNS, rows, out, header=header)
    out.flush()
