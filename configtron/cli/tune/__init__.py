# SPDX-License-Identifier: MIT
"""The verb `tune` and its commands."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup
from configtron.cli.tune.options import policy_options, where_options
from configtron.cli.tune.resolved import agents_database

ROWS = {
    "status": "Show what is in force, by which driver and until when.",
    "log": "Show every apply, newest first: when it ended, and why.",
    "plan": "Show what would change; write nothing anywhere.",
    "apply": "Put the wanted rules in force, for as long as a lease.",
    "rollback": "Put the stack back as it was before; or --keep what is in force.",
    "watch": "Renew leases, and yield to external changes of a knob.",
    "agent": "Apply the maps of a manager, and send it outcomes.",
    "reapply": "Apply profiles to connections that are open already.",
    "verify": "Read everything back and compare it with what was applied.",
    "doctor": "Show what can be set here, by which driver, and what is missing.",
    "profile": "Profiles: named settings of knobs.",
    "prefix": "Prefixes: which clients get which profile.",
    "router": "Route prefixes to pools of servers, by the server in front.",
    "export": "Print what is wanted as other tools' configuration.",
    "acknowledge": "Stop showing and applying some advice; without ID, list it.",
    "unacknowledge": "Show and apply that advice again.",
    "unfreeze": "Let plans change a frozen scope again.",
    "recover": "Recover what a killed process or a reboot left behind.",
    "unit": "Print systemd units for the watch and for crash recovery.",
}
HOMES = {"in_force": "status log verify", "apply": "plan watch", "undoing": "rollback recover reapply",
         "muting": "acknowledge unacknowledge unfreeze", "export": "unit"}  # fmt: skip


@click.group(cls=LazyGroup, package=__package__, rows=ROWS, homes=HOMES)  # fmt: skip
@where_options
@policy_options
def tune(**_: object) -> None:
    """Start with `configtron tune doctor`: it shows what can be set on this host. Then docs/tune.md.

    Set this host's TCP stack by profiles per client prefix, under a lease, and take it back whatever happens. What is
    wanted is kept in the database (`profile`, `prefix`); `plan` shows what would change, `apply` does it and a
    watchdog process undoes it when the lease ends, unless it is renewed by `watch` or kept by `rollback --keep`.
    Options given here hold for every command of the verb; in the configuration file they stand under [tune].
    On a host that has joined a manager, the default database is that of its agent.
    """
    agents_database()
