# SPDX-License-Identifier: MIT
"""`configtron learn manager`: its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup

ROWS = {
    "run": "Run the manager.",
    "enroll": "Let an agent connect; print the line that it joins by.",
    "revoke": "Let an agent connect no more.",
    "rotate-key": "Give the manager another key.",
    "agents": "List agents, and what each holds.",
    "maps": "List the maps that were published.",
    "rollback": "Publish an earlier map again, and make no new ones.",
}
HOMES = {
    "run": "manager_run:run", "enroll": "enrolment:enroll", "revoke": "enrolment:revoke", "agents": "enrolment:agents",
    "maps": "fleet_maps:maps", "rollback": "fleet_maps:rollback", "rotate-key": "enrolment:rotate_key",
}  # fmt: skip


@click.group(
    cls=LazyGroup,
    package="configtron.cli.learn",
    rows=ROWS,
    homes=HOMES,
    short_help="Give many hosts their maps, and learn from their outcomes.",
)
def manager() -> None:
    """Give many hosts their maps, and learn from their outcomes. Agents (`configtron tune agent`) connect to it, as
    docs/fleet.md shows. Needs the extra `fleet`."""
