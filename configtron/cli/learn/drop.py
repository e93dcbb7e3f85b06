# SPDX-License-Identifier: MIT
"""`configtron learn drop`."""

from __future__ import annotations

import click

from configtron.cli.learn.options import policy_option
from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Forget a policy and its decisions.")
@policy_option(required=True, help="A policy of `learn status`.")
def drop(name: str) -> int:
    """Forget a policy, what it learned and what it decided; outcomes stay. Exit code 4: there was no such policy."""
    from configtron.service.learning.learners import drop as dropped

    if dropped(settings().db, name):
        return DONE
    say(f"no policy is called {name!r}; `configtron learn status` shows them")
    return NOTHING
