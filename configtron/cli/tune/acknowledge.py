# SPDX-License-Identifier: MIT
"""`configtron tune acknowledge` and `unacknowledge`."""

from __future__ import annotations

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Stop showing and applying some advice; without ID, list it.")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--about", default="", help="Why, for readers of the list.")
@form_options
def acknowledge(ids: tuple[str, ...], about: str, form: str, output_file: str) -> int:
    """Stop showing and applying advice with these ids; without ID, list what is acknowledged.

    An id is a hash of what the advice says: it stays acknowledged (state `muted`) until that changes.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    if ids:
        lease.acknowledge(settings().db, ids, about)
        return DONE
    with opened(output_file) as out:
        rows = [{"id": one, "about": why} for one, why in lease.acknowledged(settings().db).items()]
        write_rows(form, ("id", "about"), rows, out)
    return DONE


@click.command(short_help="Show and apply that advice again.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def unacknowledge(ids: tuple[str, ...]) -> int:
    """Show and apply advice with these ids again. Exit code 4: none of them was acknowledged."""
    from configtron.service import lease

    if lease.unacknowledge(settings().db, ids):
        return DONE
    click.echo(hint("none of them is acknowledged; `configtron tune acknowledge` lists what is"), err=True)
    return NOTHING
