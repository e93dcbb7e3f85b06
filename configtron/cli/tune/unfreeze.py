# SPDX-License-Identifier: MIT
"""`configtron tune unfreeze`."""

from __future__ import annotations

import click

from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, BadInput


@click.command(short_help="Let plans change a frozen scope again.")
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
