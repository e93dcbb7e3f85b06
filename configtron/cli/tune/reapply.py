# SPDX-License-Identifier: MIT
"""`configtron tune reapply`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import DONE, NOTHING

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import Reapplied

REAPPLIED_COLUMNS = ("act", "driver", "served", "moved", "about")


@click.command(short_help="Apply profiles to connections that are open already.")
@form_options
def reapply(form: str, output_file: str) -> int:
    """Give connections that are open already the profile of their client, as new ones get it.

    Without this command they keep what they began with. An initial window is not given twice; what the kernel is not
    asked for stays as it is. `rollback` puts open connections back by itself. `served` counts the open connections of
    clients, `moved` those of them whose client has a profile. With kmod a connection that no process holds yet, since
    none has accepted it, is served, but not moved.

    Exit code 4: nothing is in force here, or no driver of it reaches open connections.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    with opened(output_file) as out:
        done = lease.reapply(lease_options())
        write_rows(form, REAPPLIED_COLUMNS, map(_row, done), out)
    if not done and settings().loudness >= 0:
        click.echo("nothing of ours is in force here", err=True)
    return DONE if any(each.connections is not None for each in done) else NOTHING


def _row(each: Reapplied) -> dict[str, Json]:
    served, moved = each.connections or (None, None)
    about = "" if each.connections is not None else "does not reach open connections"
    return {"act": each.transaction, "driver": each.driver, "served": served, "moved": moved, "about": about}
