"""The verb `learn`: its commands, one a file."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup, Row

ROWS = {
    "measure": Row("configtron.cli.learn.measure", "measure", "Fill the PLT-tensor with page loads in the lab."),
}


@click.group(cls=LazyGroup, rows=ROWS, short_help="Learn which configuration loads pages fastest.")
def learn() -> None:
    """Learn which configuration loads pages fastest, for which network and which site."""
