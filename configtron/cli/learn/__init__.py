# SPDX-License-Identifier: MIT
"""The verb `learn`: its commands, one a file."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "measure": "Fill the PLT-tensor with page loads in the lab.",
    "import": "Read outcomes from a file into the database.",
    "run": "Let a policy learn from the database's outcomes.",
    "status": "Show logs of outcomes, and policies that learn.",
    "policies": "List the policies there are to choose from.",
    "knobs": "Show which knobs matter, and which do nothing.",
    "evaluate": "Say what a policy would have made of outcomes.",
    "explain": "Say which profile a client gets, and why.",
    "export": "Write a policy as rules, and what it costs to do so.",
    "report": "Write what a fleet's map gains as a page.",
    "initial": "Learn initial windows from the ends of connections.",
    "indigo": "Train a congestion control by imitation.",
    "serve": "Tune this host's clients by what their page loads show.",
    "manager": "Give many hosts their maps, and learn from their outcomes.",
    "drop": "Forget a policy and its decisions.",
}
HOMES = {"import": "importing:import_"}


@click.group(cls=LazyGroup, package="configtron.cli.learn", rows=ROWS, homes=HOMES,
             short_help="Learn which configuration loads pages fastest.")  # fmt: skip
def learn() -> None:
    """Learn which configuration loads pages fastest, for which network and which site.

    The lab's page loads make the PLT-tensor (`measure`), and a policy starts from it or is simulated on it (`configtron
    replay sessions --tensor`). Outcomes are page load times with the decisions behind them. They are in the database
    (`import`, `configtron replay sessions --log`). A policy reads them in order of arrival (`run`), and can be judged
    (`evaluate`), asked (`explain`) and handed to `configtron tune` (`export`).
    """
