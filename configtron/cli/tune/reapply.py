# SPDX-License-Identifier: MIT
"""`configtron tune reapply`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import rows_to, say
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Apply profiles to connections that are open already.")
@form_options
def reapply(form: str, output_file: str) -> int:
    """Give connections that are open already the profile of their client, as new ones get it.

    `served` counts the open connections of clients, `moved` those of them whose client has a profile. An initial window
    is not given twice; knobs that the kernel cannot change later stay (docs/tune.md). Exit code 4: nothing is in force
    here, or no driver of it reaches open connections.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    with rows_to(form, output_file) as write:
        done = lease.reapply(lease_options())
        write(rows.REAPPLY_COLUMNS, rows.reapply_rows(done))
    if not done:
        say(rows.NOTHING_HERE)
    return DONE if any(each.connections is not None for each in done) else NOTHING
