# SPDX-License-Identifier: MIT
"""`configtron tune` plan, apply, watch."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import INPUT_FILE, form_options, format_option, output_option, span_option
from configtron.cli.output import rows_to, say, warn
from configtron.cli.param_types import Finite
from configtron.cli.tune.options import policy_options, where_options
from configtron.cli.tune.resolved import lease_options, place, show_notice
from configtron.linux.signals import asked_to_stop
from configtron.model.choices import LEASE_S
from configtron.model.errors import CONDITION, DONE, INTERRUPTED, NOTHING, Refused
from configtron.report.files import opened


@click.command()
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
    warn(*obstacle_lines(report))
    if report.refused:
        raise Refused(report.refused)


@click.command()
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
    ends, or if this command is killed. Rules that are in force are not written again; their lease is renewed. What is
    kept is asked about as by `configtron tune verify`. Exit code 1: clients do not get what is kept; 4: what was read
    back differed, and all was undone, or all that is wanted is frozen; 6: the guard refuses, or the plan is old.
    """
    from configtron.service import lease
    from configtron.service.lease import rows

    with rows_to(form, output_file) as write:
        applied = lease.apply(lease_options(), lease_s=0.0 if keep else lease_s, plan_file=plan, on_notice=show_notice)
        write(rows.APPLY_COLUMNS, rows.apply_rows(applied))
    say(*rows.apply_lines(applied))
    differs = any(answers.differences for answers in applied.answers)
    return NOTHING if applied.lost else CONDITION if differs else DONE


@click.command()
@format_option(text="Form of the events.")
@output_option
@span_option
def watch(form: str, output_file: str, span_s: float | None) -> int:
    """Renew the leases of what is in force here, recover what was left behind, and look for external changes, four
    times a second.

    A knob of ours that another program changed is reported, a row an event, and its scope is frozen: no plan touches it
    until `configtron tune unfreeze`. Without a watch, leases end.
    """
    from configtron.service import lease
    from configtron.service.lease.rows import EventWriter

    # What is under way when a signal comes is finished first.
    with asked_to_stop() as stopping, opened(output_file) as out:
        lease.watch(lease_options(), EventWriter(form, out).write, show_notice, stop=stopping, span_s=span_s)
        return INTERRUPTED if stopping() else DONE
