# SPDX-License-Identifier: MIT
"""`configtron tune status` and `log`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import say, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.options import where_options
from configtron.cli.tune.resolved import lease_options


@click.command(short_help="Show what is in force, by which driver and until when.")
@where_options
@form_options
def status(form: str, output_file: str, **_: object) -> None:
    """Show what is in force and by which driver, how long its lease lasts, which process will undo it (the watchdog),
    and what is frozen. Nothing is written.

    The journal is compared with the kernel: `in_force` counts the prefixes that read back as applied, `about` names
    what differs, state with our marks in no journal is `unjournaled`. Exit code 0 also if nothing is in force.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    options = lease_options()
    report = lease.status(options)
    write_rows(form, output_file, rows.STATUS_COLUMNS, rows.status_rows(report, options.place, form))
    for line in rows.status_lines(report):
        say(line)


@click.command(short_help="Show every apply, newest first: when it ended, and why.")
@form_options
def log(form: str, output_file: str) -> None:
    """Show all apply transactions, newest first: driver, begin, status, seconds since the end, and why it ended.
    Nothing is written.

    `ended_s_ago` is empty for a transaction that is in force or of an earlier boot.
    """
    from configtron.service import lease
    from configtron.service.lease.rows import LOG_COLUMNS, log_rows

    found = log_rows(lease.history(settings().db))
    write_rows(form, output_file, LOG_COLUMNS, found, none="no transaction yet; begin one: configtron tune apply")
