# SPDX-License-Identifier: MIT
"""`configtron learn initial`: its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "train": "Learn from captures or records of ended connections.",
    "predict": "Show the initial windows of a client.",
    "evaluate": "Count exact hits of predicted ends of connections.",
}
HOMES = {name: f"initial_windows:{name}" for name in ROWS}


@click.group(cls=LazyGroup, package="configtron.cli.learn", rows=ROWS, homes=HOMES,
             short_help="Learn initial windows from the ends of connections.")  # fmt: skip
def initial() -> None:
    """Learn initial windows from the ends of earlier connections, as Applied Learning Networks does.

    The prefix and the time of a client predict the largest window, the round trip and the packets of its
    connection. docs/studies.md shows the records, the strategies, and what they gain and harm.
    """
