# SPDX-License-Identifier: MIT
"""`configtron learn drop`."""

from __future__ import annotations

import click

from configtron.cli.completing import learned
from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Forget a policy and its decisions.")
@click.option("--policy", "name", required=True, metavar="POLICY", shell_complete=learned,
              help="Which; `learn status` lists them.")  # fmt: skip
def drop(name: str) -> int:
    """Forget a policy, what it learned and what it decided; outcomes stay. Exit code 4: there was no such policy."""
    from configtron.service.learning.learners import drop as dropped

    if dropped(settings().db, name):
        return DONE
    say(f"no policy is called {name!r}; `configtron learn status` shows them")
    return NOTHING
