# SPDX-License-Identifier: MIT
"""`configtron tune recover`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import rows_to, say, warn
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Recover what a killed process or a reboot left behind.")
@form_options
def recover(form: str, output_file: str) -> int:
    """Undo what was left half done and leases that have ended, and start the watchdogs of leases that lost theirs.

    `apply`, `rollback` and `watch` begin with it; the systemd timer runs it. Exit code 4: something could not be
    undone; `status` shows the reason.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    with rows_to(form, output_file) as write:
        done = lease.recover(lease_options())
        write(rows.RECOVER_COLUMNS, rows.recover_rows(done))
    if not done.ended and not done.left:
        say("nothing to recover")
    for line in rows.recover_lines(done):
        warn(line)
    return NOTHING if done.left else DONE
