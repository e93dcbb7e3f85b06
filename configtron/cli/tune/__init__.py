# SPDX-License-Identifier: MIT
"""The verb `tune`: its commands, one a file."""

from __future__ import annotations

import click

from configtron.cli.lazy import LazyGroup, Row
from configtron.cli.tune.options import policy_options, where_options

ROWS = {
    "status": Row("configtron.cli.tune.status", "status", "Show what is in force, by which driver and until when."),
    "plan": Row("configtron.cli.tune.plan", "plan", "Say what would change; write nothing anywhere."),
    "apply": Row("configtron.cli.tune.apply", "apply", "Put the wanted rules in force, for as long as a lease."),
    "rollback": Row("configtron.cli.tune.rollback", "rollback", "Put back what stood before; or --keep what stands."),
    "watch": Row("configtron.cli.tune.watch", "watch", "Renew leases, and yield to external changes of a knob."),
    "reapply": Row("configtron.cli.tune.reapply", "reapply", "Apply profiles to connections that are open already."),
    "verify": Row("configtron.cli.tune.verify", "verify", "Read everything back and compare it with what was applied."),
    "doctor": Row("configtron.cli.tune.doctor", "doctor", "Say what can be set here, by which driver, and what lacks."),
    "profile": Row("configtron.cli.tune.profile", "profile", "Profiles: named settings of knobs."),
    "prefix": Row("configtron.cli.tune.prefix", "prefix", "Prefixes: whose clients get which profile."),
    "router": Row("configtron.cli.tune.router", "router", "Lead prefixes to pools of servers, by the server in front."),
    "export": Row("configtron.cli.tune.export", "export", "Print what is wanted as other tools' configuration."),
    "evaluate": Row(
        "configtron.cli.tune.evaluate", "evaluate", "Hold the papers' claims against what the lab measures."
    ),
    "acknowledge": Row(
        "configtron.cli.tune.acknowledge", "acknowledge", "Stop showing and applying some advice; without ID, list it."
    ),
    "unacknowledge": Row("configtron.cli.tune.acknowledge", "unacknowledge", "Show and apply that advice again."),
    "unfreeze": Row("configtron.cli.tune.unfreeze", "unfreeze", "Let plans change a frozen scope again."),
    "recover": Row("configtron.cli.tune.recover", "recover", "Recover what a killed process or a reboot left behind."),
    "unit": Row("configtron.cli.tune.unit", "unit", "Print systemd units for the watch and for crash recovery."),
}
# Earlier spellings, which --help does not list.
RENAMED = {"move": "reapply", "mute": "acknowledge", "unmute": "unacknowledge", "resume": "unfreeze"}


@click.group(
    cls=LazyGroup, rows=ROWS, renamed=RENAMED, short_help="Set this host's stack, by client prefix, and take it back."
)
@where_options
@policy_options
def tune(**_: object) -> None:
    """Set this host's TCP stack by profiles per client prefix, under a lease, and take it back whatever happens.

    What is wanted is kept in the database (`profile`, `prefix`); `plan` says what would change, `apply` does it and a
    watchdog process undoes it when the lease ends, unless it is renewed by `watch` or kept by `rollback --keep`.
    Options given here hold for every command of the verb; in the configuration file they stand under [tune].
    """
