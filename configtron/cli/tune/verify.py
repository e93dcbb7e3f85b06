# SPDX-License-Identifier: MIT
"""`configtron tune verify`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import say, write_rows
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import CONDITION, DONE, NOTHING


@click.command(short_help="Read everything back and compare it with what was applied.")
@form_options
def verify(form: str, output_file: str) -> int:
    """Read back from the kernel all that is in force, and show where it is not what was applied. Nothing is written.

    By the driver route the kernel is also asked where it would send packets to clients, of all prefixes up to 256, else
    of 256; a rule or route of another program that leads them elsewhere is a difference (docs/tune.md). Exit code 1:
    something differs; 4: nothing is in force.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    report = lease.verify(lease_options())
    found = rows.difference_rows(report)
    unasked = rows.unasked_rows(report) if form == "jsonl" else ()
    write_rows(form, output_file, rows.VERIFY_COLUMNS, [*found, *unasked])
    for line in rows.verify_lines(report, len(found)):
        say(line)
    return CONDITION if found else DONE if report.transactions else NOTHING
