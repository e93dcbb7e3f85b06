# SPDX-License-Identifier: MIT
"""`configtron tune watch`."""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.tune.options import FORMATS, Finite
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import DONE, INTERRUPTED

if TYPE_CHECKING:
    from configtron.service.lease import WatchEvent

log = logging.getLogger("configtron.tune")
EVENT_COLUMNS = ("at", "event", "act", "driver", "scope", "was", "found")


@click.command(short_help="Renew leases, and yield to external changes of a knob.")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the events.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
@click.option("--for", "span_s", type=Finite(min=0, min_open=True), metavar="SECONDS",
              help="Stop after so long; else at Ctrl-C.")  # fmt: skip
def watch(form: str, output_file: str, span_s: float | None) -> int:
    """Renew the leases of what is in force here, recover what was left behind, and look for external changes, four
    times a second.

    A knob of ours that another program changed is reported within a second, and its scope (the prefix, profile or
    default) is frozen: no plan touches it until `configtron tune unfreeze`. Without a watch, leases end. A row an
    event.
    """
    from configtron.report.lines import opened
    from configtron.service import lease

    stop = _Stop()
    with opened(output_file) as out:
        lease.watch(lease_options(), _Writer(form, out).write, stop=lambda: stop.asked, span_s=span_s)
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


class _Writer:
    """Events as rows; the first ones with a header."""

    def __init__(self, form: str, out: TextIO) -> None:
        self._form, self._out, self._header = form, out, True

    def write(self, events: list[WatchEvent]) -> None:
        """Write events of one turn, and log those that do not go to a terminal's table."""
        from configtron.report.lines import visible
        from configtron.report.tuning import write_rows

        if self._form != "table" or self._out is not sys.stdout:
            for event in events:
                log.warning("%s", event.text)
        if self._form == "table":
            for event in events:
                self._out.write(visible(event.text) + "\n")
        else:
            write_rows(self._form, EVENT_COLUMNS, [event.form() for event in events], self._out, header=self._header)
        self._header = False
        self._out.flush()
