# SPDX-License-Identifier: MIT
"""The verb `learn` and its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

# The commands by what they are for, as `--help` lists them.
SECTIONS = {
    "Run a loop": {
        "serve": "Tune this host's clients by what their page loads show.",
        "manager": "Give many hosts their maps, and learn from their outcomes.",
        "drop": "Forget a policy and its decisions.",
    },
    "Look at it": {
        "status": "Show logs of outcomes, and policies that learn.",
        "report": "Write the gain of a fleet's map as a page.",
        "explain": "Show which profile a client gets, and why.",
        "policies": "List the policies there are to choose from.",
        "knobs": "Show which knobs matter, and which do nothing.",
    },
    "Learn offline, from logs": {
        "import": "Read outcomes from a file into the database.",
        "run": "Let a policy learn from the database's outcomes.",
        "evaluate": "Estimate the page load times of a policy from logged outcomes.",
        "export": "Write a policy as rules, and the loss of those rules.",
    },
    "Research, in the lab": {
        "measure": "Fill the PLT-tensor with page loads in the lab.",
        "initial": "Learn initial windows from the ends of connections.",
        "indigo": "Train a congestion control by imitation.",
    },
}
HOMES = {"importing": "import", "learners": "status report policies drop", "questions": "explain evaluate knobs"}


@click.group(cls=LazyGroup, package=__package__, sections=SECTIONS, homes=HOMES)  # fmt: skip
def learn() -> None:
    """Start with `configtron learn serve`: it tunes this host's clients by their page loads (docs/learn.md).

    Learn which configuration loads pages fastest, for which network and which site. An outcome is a page load time with
    the decision behind it. Outcomes come from `serve`, from agents of a `manager`, from files (`import`) and from
    simulations (`configtron replay sessions --log`). A policy learns from them in order of arrival (`serve`, `manager`,
    `run`). `evaluate` judges a policy, `explain` shows its choice for a client, and `export` gives its profiles to
    `configtron tune`.
    """
