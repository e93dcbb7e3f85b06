# SPDX-License-Identifier: MIT
"""`configtron tune` acknowledge, unacknowledge, unfreeze: what plans leave out."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import say, warn, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, BadInput
from configtron.model.wording import count_are


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--about", default="", help="Reason, shown in the list.")
@form_options
def acknowledge(ids: tuple[str, ...], about: str, form: str, output_file: str) -> None:
    """Stop showing and applying advice with these ids; without ID, list what is acknowledged.

    An id is a hash of the advice: it stays acknowledged (state `muted`) until the advice changes.
    """
    from configtron.service import lease

    if ids:
        lease.acknowledge(settings().db, ids, about)
        return say(f"{count_are(len(set(ids)), 'advice id')} acknowledged")
    rows = [{"id": one, "about": why} for one, why in lease.acknowledged(settings().db).items()]
    none = "no advice is acknowledged; ids of advice: configtron tune plan"
    write_rows(form, output_file, ("id", "about"), rows, none=none)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def unacknowledge(ids: tuple[str, ...]) -> int:
    """Show and apply advice with these ids again. Exit code 4: none of them was acknowledged."""
    from configtron.service import lease

    if lease.unacknowledge(settings().db, ids):
        return DONE
    warn("none of them is acknowledged; `configtron tune acknowledge` lists what is")
    return NOTHING


@click.command()
@click.argument("scopes", nargs=-1, metavar="[SCOPE]...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
def unfreeze(scopes: tuple[str, ...], everything: bool) -> int:
    """Let plans change scopes again that were frozen because another program changed them; `status` lists them.

    Nothing is written to the stack: the next plan shows what would change there. Exit code 4: none of them was frozen.
    """
    from configtron.service import lease

    if bool(scopes) == everything:
        raise BadInput("name scopes as `configtron tune status` does, or --all")
    count = lease.unfreeze(settings().db, None if everything else scopes)
    say(f"{count} scopes unfrozen" if count else "none of them is frozen; `configtron tune status` lists what is")
    return DONE if count else NOTHING
