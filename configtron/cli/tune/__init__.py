# SPDX-License-Identifier: MIT
"""The verb `tune`: its commands, one a file."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup, Row
from configtron.cli.tune.options import policy_options, where_options

ROWS = {
    "status": Row("configtron.cli.tune.status", "status", "Show what is in force, by whom and until when."),
    "plan": Row("configtron.cli.tune.plan", "plan", "Say what would change; write nothing anywhere."),
    "apply": Row("configtron.cli.tune.apply", "apply", "Put the wanted rules in force, for as long as a lease."),
    "rollback": Row("configtron.cli.tune.rollback", "rollback", "Put back what stood before; or --keep what stands."),
    "watch": Row("configtron.cli.tune.watch", "watch", "Renew leases, and yield to whoever else changes a knob."),
    "move": Row("configtron.cli.tune.move", "move", "Put connections that are open right too."),
    "verify": Row("configtron.cli.tune.verify", "verify", "Read everything back and compare it with what was applied."),
    "doctor": Row("configtron.cli.tune.doctor", "doctor", "Say what can be set here, by which driver, and what lacks."),
    "profile": Row("configtron.cli.tune.profile", "profile", "Profiles: named settings of knobs."),
    "prefix": Row("configtron.cli.tune.prefix", "prefix", "Prefixes: whose clients get which profile."),
    "router": Row("configtron.cli.tune.router", "router", "Lead prefixes to pools of servers, by the server in front."),
    "export": Row("configtron.cli.tune.export", "export", "Print what is wanted as other tools' configuration."),
    "evaluate": Row(
        "configtron.cli.tune.evaluate", "evaluate", "Hold the papers' claims against what the lab measures."
    ),
    "mute": Row("configtron.cli.tune.mute", "mute", "Hear no more of some advice; without ID, list what is muted."),
    "unmute": Row("configtron.cli.tune.mute", "unmute", "Hear of it again."),
    "resume": Row("configtron.cli.tune.resume", "resume", "Touch a frozen scope again."),
    "recover": Row("configtron.cli.tune.recover", "recover", "Mend what a killed process or a reboot left behind."),
    "unit": Row("configtron.cli.tune.unit", "unit", "Print systemd units for the watch and for crash recovery."),
}


@click.group(cls=LazyGroup, rows=ROWS, short_help="Set this host's stack, by client prefix, and take it back.")
@where_options
@policy_options
def tune(**_: object) -> None:
    """Set this host's TCP stack by profiles per client prefix, under a lease, and take it back whatever happens.

    What is wanted is kept in the database (`profile`, `prefix`); `plan` says what would change, `apply` does it and a
    keeper process undoes it when the lease ends, unless it is renewed by `watch` or kept by `rollback --keep`.
    Options given here hold for every command of the verb; in the configuration file they stand under [tune].
    """
