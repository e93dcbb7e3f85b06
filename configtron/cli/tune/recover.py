# SPDX-License-Identifier: MIT
"""`configtron tune recover`."""

from __future__ import annotations

import click

from configtron.cli.tune.options import form_options
from configtron.cli.tune.resolved import lease_options
from configtron.model.errors import DONE, NOTHING

RECOVERED_COLUMNS = ("act", "driver", "status", "why")


@click.command(short_help="Recover what a killed process or a reboot left behind.")
@form_options
def recover(form: str, output_file: str) -> int:
    """Undo what was left half done and leases that have ended, and start the watchdogs of leases that lost theirs.

    `apply`, `rollback` and `watch` begin with it; the systemd timer runs it. Exit code 4: something could not be
    undone; `status` says why.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    options = lease_options()
    if not options.database.is_file():
        return DONE
    with opened(output_file) as out:
        done = lease.recover(options)
        rows = [(each.id, each.driver, each.status, each.why) for each in done.ended]
        write_rows(form, RECOVERED_COLUMNS, [dict(zip(RECOVERED_COLUMNS, row, strict=True)) for row in rows], out)
    for each in done.left:
        click.echo(f"act {each.id} ({each.driver}): {each.why}", err=True)
    return NOTHING if done.left else DONE
