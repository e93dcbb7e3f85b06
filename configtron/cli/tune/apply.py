# SPDX-License-Identifier: MIT
"""`configtron tune apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import Finite, form_options, policy_options, where_options
from configtron.cli.tune.resolved import lease_options, show_notice
from configtron.model.errors import DONE, NOTHING

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import Applied

APPLIED_COLUMNS = ("act", "status", "driver", "changes", "profiles", "prefixes", "held", "lease_s")
# `configtron.service.lease.LEASE_S`, written down here so that --help imports nothing.
LEASE_S = 60.0
WATCH = "its routes follow a change of gateway only while `configtron tune watch` runs"


@click.command(short_help="Put the wanted rules in force, for as long as a lease.")
@click.argument("plan", required=False, metavar="[PLAN]", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@where_options
@policy_options
@form_options
@click.option("--lease", "lease_s", type=Finite(min=0.5), default=LEASE_S, show_default=True,
              metavar="SECONDS", help="Undo it after so long, unless it is renewed or kept.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Without a lease: it stays until rollback, or the next boot.")
def apply(plan: Path | None, form: str, output_file: str, lease_s: float, keep: bool, **_: object) -> int:
    """Put in force what is wanted, or what a saved PLAN says: all of it, or nothing.

    What stands there now is written to the journal first, everything is read back afterwards, and a watchdog process
    undoes it when the lease ends, or if this command is killed; if the watchdog is killed too, the next command, the
    timer or `watch` does. What is in force already is not written again; its lease is renewed.

    Exit code 4: it did not read back, and was undone, or nothing is in force and all that would be is frozen; 6: the
    guard refuses, or the plan is out of date.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    with opened(output_file) as out:
        applied = lease.apply(lease_options(), lease_s=0.0 if keep else lease_s, plan_file=plan, on_notice=show_notice)
        if (row := _row(applied)) is not None:
            write_rows(form, APPLIED_COLUMNS, [row], out)
    if settings().loudness >= 0:
        for line in _lines(applied):
            click.echo(line, err=True)
    return NOTHING if applied.lost else DONE


def _row(applied: Applied) -> dict[str, Json] | None:
    """Return the row of the transaction in force; None where nothing is, and nothing was to be."""
    if applied.lost:
        return {"act": None, "status": "frozen", "driver": applied.driver}
    act = applied.transaction
    if act is None:
        return None
    row = (act.id, act.status, act.driver, applied.changes, len(act.rules.profiles), len(act.rules.prefixes), act.held,
           act.lease_s)  # fmt: skip
    return dict(zip(APPLIED_COLUMNS, row, strict=True))


def _lines(applied: Applied) -> list[str]:
    """Return what to say of it, and what to do next."""
    if applied.lost:
        text = f"nothing is in force: another program took it away, and all {applied.frozen} changes are frozen"
        undo = hint("to put it back: configtron tune unfreeze --all, then apply")
        return [f"{text}; see: {hint('configtron tune status')}; {undo}"]
    frozen = hint(f"{applied.frozen} frozen after an external change and left alone: configtron tune status")
    return [_advice(applied), *([frozen] if applied.frozen else [])]


def _advice(applied: Applied) -> str:
    act = applied.transaction
    if act is None:
        return "nothing to change, and nothing is in force"
    done = f"{applied.changes} changes" if applied.changes else "nothing to change"
    if not act.lease_s:
        kept = hint(f"act {act.id}: {done}; kept. Take it back: configtron tune rollback")
        return f"{kept}; {hint(WATCH)}" if applied.needs_watch else kept
    lease = f"act {act.id}: {done}; undone in {act.lease_s:g} s unless renewed"
    return hint(f"{lease} (configtron tune watch) or kept (configtron tune rollback --keep)")
