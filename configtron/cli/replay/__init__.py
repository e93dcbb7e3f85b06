# SPDX-License-Identifier: MIT
"""The verb `replay` and its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "packets": "Play recorded probes again, and compare.",
    "sessions": "Put a policy on simulated sessions.",
    "study": "Run studies of the papers: their figures beside ours.",
}


@click.group(cls=LazyGroup, package=__package__, rows=ROWS)
def replay() -> None:
    """Start with `configtron replay study --list`: it lists the studies, and how long each takes.

    Run production code on recorded worlds, and compare the results with those of the live ones. No packet is sent."""
