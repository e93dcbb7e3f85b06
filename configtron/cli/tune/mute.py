# SPDX-License-Identifier: MIT
"""`configtron tune mute` and `unmute`."""

from __future__ import annotations

import re

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, NOTHING, BadInput

# As `tune plan` prints it (configtron.tune.plan).
ID = re.compile("[0-9a-f]{16}")


@click.command(short_help="Hear no more of some advice; without ID, list what is muted.")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--about", default="", help="Why, for whoever reads the list.")
@form_options
def mute(ids: tuple[str, ...], about: str, form: str, output_file: str) -> int:
    """Hear no more of advice with these ids, and do not act on it; without ID, list what is muted.

    An id is a hash of what the advice says: it stays muted until that changes.
    """
    from configtron.db.glance import glance
    from configtron.db.tuning import Tuning
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    if ids:
        for one in ids:
            if not ID.fullmatch(one):
                raise BadInput(f"{one!r} is no advice's id (16 hexadecimal digits); `configtron tune plan` shows them")
        with Tuning(settings().db) as book:
            book.mute({one: about for one in ids})
        return DONE
    with opened(output_file) as out:
        muted = glance(settings().db, Tuning.muted)
        write_rows(form, ("id", "about"), [{"id": one, "about": why} for one, why in muted.items()], out)
    return DONE


@click.command(short_help="Hear of it again.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def unmute(ids: tuple[str, ...]) -> int:
    """Hear again of advice with these ids. Exit code 4: none of them was muted."""
    from configtron.db.tuning import Tuning

    with Tuning(settings().db) as book:
        if book.unmute(ids):
            return DONE
    click.echo(hint("none of them is muted; `configtron tune mute` lists what is"), err=True)
    return NOTHING
