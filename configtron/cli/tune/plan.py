# SPDX-License-Identifier: MIT
"""`configtron tune plan`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import rows_to, say, warn
from configtron.cli.tune.options import policy_options, where_options
from configtron.cli.tune.resolved import lease_options, place
from configtron.model.errors import Refused


@click.command(short_help="Show what would change; write nothing anywhere.")
@where_options
@policy_options
@form_options
@click.option("-a", "--all", "everything", is_flag=True, help="Show acknowledged and frozen advice too.")
def plan(form: str, output_file: str, everything: bool, **_: object) -> None:
    """Show what would change: each advice with an id that stays the same as long as the advice does.

    Nothing is written: not to the stack, not to a file, not to the database. `-f jsonl` is also the form that `apply
    PLAN` takes, where lines may be removed. Exit code 6: the guard refuses what is wanted, with the reason.
    """
    from configtron.service import lease
    from configtron.service.lease.rows import PLAN_COLUMNS, obstacle_lines, plan_rows, plan_summary

    report = lease.plan(lease_options())
    with rows_to(form, output_file) as write:
        columns = (*PLAN_COLUMNS, "now") if form == "csv" else PLAN_COLUMNS
        refused = report.profiles
        write(columns, plan_rows(report.planned, place(), form, everything=everything, refused=refused))
    say(plan_summary(report.planned, report.profiles))
    for line in obstacle_lines(report):
        warn(line)
    if report.refused:
        raise Refused(report.refused)
