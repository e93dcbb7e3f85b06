# SPDX-License-Identifier: MIT
"""The verb `probe` and its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "run": "Probe targets; the command meant when none is named.",
    "resolve": "Look up the names of a list.",
    "plan": "Show what a campaign would cost.",
    "lists": "Show the bundled target lists.",
    "regions": "Show the vantages to look from.",
    "show": "Show what a run found; without RUN, list the runs.",
    "diff": "Compare the verdicts of two runs.",
    "export": "Write a run for other programs.",
    "merge": "Add the runs of other machines.",
    "doctor": "Show whether this host can probe and run the lab.",
    "validate": "Score a lab run against the truth.",
}


HOMES = {"before": "resolve plan lists regions doctor", "stored": "diff export merge validate"}


@click.group(cls=LazyGroup, package=__package__, rows=ROWS, homes=HOMES, default="run")  # fmt: skip
def probe() -> None:
    """Start with `configtron probe 127.0.0.1 --allow 127.0.0.1`: it shows how this host's server is configured, and
    keeps packets.

    `configtron probe TARGET...` means `configtron probe run TARGET...`; its options are listed by
    `configtron probe run --help`. A target named like a command: `configtron probe run -- regions`.
    """
