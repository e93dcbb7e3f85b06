# SPDX-License-Identifier: MIT
"""`configtron tune watch`."""

from __future__ import annotations

import click

from configtron.cli.options import SPAN, format_option, output_option
from configtron.cli.tune.resolved import lease_options, show_notice
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED


@click.command(short_help="Renew leases, and yield to external changes of a knob.")
@format_option(text="Form of the events.")
@output_option
@click.option("--for", "span_s", type=SPAN, metavar="SECONDS", help="Stop after this time.  [default: at Ctrl-C]")
def watch(form: str, output_file: str, span_s: float | None) -> int:
    """Renew the leases of what is in force here, recover what was left behind, and look for external changes, four
    times a second.

    A knob of ours that another program changed is reported, a row an event, and its scope is frozen: no plan touches it
    until `configtron tune unfreeze`. Without a watch, leases end.
    """
    from configtron.report.files import opened
    from configtron.service import lease
    from configtron.service.lease.rows import EventWriter

    # What is under way when a signal comes is finished first.
    with asked_to_stop() as stopping, opened(output_file) as out:
        lease.watch(lease_options(), EventWriter(form, out).write, show_notice, stop=stopping, span_s=span_s)
        return INTERRUPTED if stopping() else DONE
