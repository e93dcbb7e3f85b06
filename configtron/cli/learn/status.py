# SPDX-License-Identifier: MIT
"""`configtron learn status`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.settings import settings


@click.command(short_help="Show logs of outcomes, and policies that learn.")
@form_options
def status(form: str, output_file: str) -> None:
    """Show the logs of outcomes, and the policies that learn: how far each has read, what waits for it, its classes,
    what exploration cost it (`spent`), and which outcomes it sets aside and why. docs/learn.md explains the columns.
    Exit code 0 also if there is nothing."""
    from configtron.service.learning import overview
    from configtron.service.learning.rows import STATE_COLUMNS, state_rows

    found = overview.status(settings().db)
    write_rows(form, output_file, STATE_COLUMNS, state_rows(found), LEARNING)
    if remark := overview.remark(found, settings().db):
        say(remark)
