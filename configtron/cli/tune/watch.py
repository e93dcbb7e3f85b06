# SPDX-License-Identifier: MIT
"""`configtron tune watch`."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.options import SPAN, format_option, output_option
from configtron.cli.tune.resolved import lease_options
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED

if TYPE_CHECKING:
    from configtron.service.lease import WatchEvent

log = logging.getLogger("configtron.tune")


@click.command(short_help="Renew leases, and yield to external changes of a knob.")
@format_option(text="Form of the events.")
@output_option
@click.option("--for", "span_s", type=SPAN, metavar="SECONDS", help="Stop after so long; else at Ctrl-C.")
def watch(form: str, output_file: str, span_s: float | None) -> int:
    """Renew the leases of what is in force here, recover what was left behind, and look for external changes, four
    times a second.

    A knob of ours that another program changed is reported, a row an event, and its scope is frozen: no plan touches it
    until `configtron tune unfreeze`. Without a watch, leases end.
    """
    from configtron.report.files import opened
    from configtron.service import lease

    # What is under way when a signal comes is finished first.
    with asked_to_stop() as stopping, opened(output_file) as out:
        lease.watch(lease_options(), _Writer(form, out).write, stop=stopping, span_s=span_s)
        return INTERRUPTED if stopping() else DONE


class _Writer:
    """Write events as rows; the first ones with a header."""

    def __init__(self, form: str, out: TextIO) -> None:
        self._form, self._out, self._header = form, out, True

    def write(self, events: list[WatchEvent]) -> None:
        """Write the events of one turn, and log those that do not go to a terminal's table."""
        from configtron.report.files import visible
        from configtron.report.tuning import write_rows
        from configtron.service.lease.watcher import EVENT_COLUMNS

        if self._form != "table" or self._out is not sys.stdout:
            for event in events:
                log.warning("%s", event.text)
        if self._form == "table":
            self._out.writelines(visible(event.text) + "\n" for event in events)
        else:
            write_rows(self._form, EVENT_COLUMNS, [event.form() for event in events], self._out, header=self._header)
        self._header = False
        self._out.flush()
