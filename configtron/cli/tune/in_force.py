# SPDX-License-Identifier: MIT
"""`configtron tune` status, log, verify: what is in force."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import say, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.options import where_options
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import CONDITION, DONE, NOTHING


@click.command()
@where_options
@form_options
def status(form: str, output_file: str, **_: object) -> None:
    """Show what is in force and by which driver, how long its lease lasts, which process will undo it (the watchdog),
    and what is frozen. Nothing is written.

    The journal is compared with the kernel: `in_force` counts the prefixes that read back as applied, `about` names
    what differs. State in the kernel with our marks that no journal has is `unjournaled`. Exit code 0 also if nothing
    is in force.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    options = lease_options()
    report = lease.status(options)
    write_rows(form, output_file, rows.STATUS_COLUMNS, rows.status_rows(report, options.place, form))
    say(*rows.status_lines(report))


@click.command()
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


@click.command()
@form_options
def verify(form: str, output_file: str) -> int:
    """Read back from the kernel all that is in force, and show where it is not what was applied, or not what clients
    get: open connections are read, and a connection of our own over the loopback for each prefix. Nothing is written,
    but a rollback that was killed is finished.

    By the driver route the kernel is also asked where it would send packets to clients: of each prefix, or of 256
    where there are more. A rule or route of another program that leads them elsewhere is a difference (docs/tune.md).
    Exit code 1: something differs; 4: nothing is in force.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    report = lease.verify(lease_options())
    found = rows.difference_rows(report)
    unasked = rows.unasked_rows(report) if form == "jsonl" else ()
    write_rows(form, output_file, rows.VERIFY_COLUMNS, [*found, *unasked])
    say(*rows.verify_lines(report, len(found)))
    return CONDITION if found else DONE if report.transactions else NOTHING
