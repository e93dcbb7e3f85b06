# SPDX-License-Identifier: MIT
"""`configtron learn indigo`: its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "train": "Train the congestion control indigo in the lab.",
    "show": "Show how indigo's weights were trained.",
}
HOMES = {name: f"indigo_training:{name}" for name in ROWS}


@click.group(cls=LazyGroup, package="configtron.cli.learn", rows=ROWS, homes=HOMES,
             short_help="Train a congestion control by imitation.")  # fmt: skip
def indigo() -> None:
    """Train the congestion control indigo, a small network that imitates the best window of emulated links.

    The study `pantheon` runs it beside the others. docs/studies.md shows the links, the learning curve, and where it
    fails.
    """
