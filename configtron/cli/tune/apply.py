# SPDX-License-Identifier: MIT
"""`configtron tune apply`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import INPUT_FILE, Finite, form_options
from configtron.cli.output import rows_to, say
from configtron.cli.tune.options import policy_options, where_options
from configtron.cli.tune.resolved import lease_options, show_notice
from configtron.model.errors import DONE, NOTHING

# `configtron.service.lease.LEASE_S`, written down here so that --help imports nothing.
LEASE_S = 60.0


@click.command(short_help="Put the wanted rules in force, for as long as a lease.")
@click.argument("plan", required=False, metavar="[PLAN]", type=INPUT_FILE)
@where_options
@policy_options
@form_options
@click.option("--lease", "lease_s", type=Finite(min=0.5), default=LEASE_S, show_default=True,
              metavar="SECONDS", help="Undo it after so long, unless it is renewed or kept.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Without a lease: it stays until rollback, or the next boot.")
def apply(plan: Path | None, form: str, output_file: str, lease_s: float, keep: bool, **_: object) -> int:
    """Put in force what is wanted, or a saved PLAN: all of it, or nothing.

    The journal is written first, everything is read back afterwards, and a watchdog process undoes it when the lease
    ends, or if this command is killed. Rules that are in force are not written again; their lease is renewed. Exit code
    4: it did not read back, and was undone, or all that would be in force is frozen; 6: the guard refuses, or the plan
    is old.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    with rows_to(form, output_file) as write:
        applied = lease.apply(lease_options(), lease_s=0.0 if keep else lease_s, plan_file=plan, on_notice=show_notice)
        write(rows.APPLY_COLUMNS, rows.apply_rows(applied))
    for line in rows.apply_lines(applied):
        say(line)
    return NOTHING if applied.lost else DONE
