# SPDX-License-Identifier: MIT
"""`configtron learn status`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE


@click.command(short_help="Show logs of outcomes, and policies that learn.")
@form_options
def status(form: str, output_file: str) -> int:
    """Show the logs of outcomes there are, and the policies that learn: how far each has read, what waits for it,
    how many network classes it has and how many of them were split off (`learn run --evolve`). What a policy leaves out
    of its classes stands in `set_aside`, by reason: outcomes below one round trip as the kernel measured it, prefixes
    whose loads are unlike their class, prefixes that weigh less for having had more than their share.

    `spent` is what its own decisions so far cost over Default, as a share of Default's time (upper estimate; negative:
    it gains), where it keeps a budget (`learn run --budget`); `dropped` names configurations that loads showed to be
    several times slower, everywhere or in a class, and that it does not serve any more. JSON has the budget, and the
    share of sessions that gets what is not proven.

    Exit code 0 also if there is nothing.
    """
    from configtron.service.learning import overview
    from configtron.service.learning.rows import STATE_COLUMNS, state_rows

    rows = state_rows(overview.status(settings().db))
    write_rows(form, output_file, STATE_COLUMNS, rows, LEARNING)
    if not rows:
        say("no outcomes yet; bring some: configtron learn import, configtron replay sessions --log")
    return DONE
