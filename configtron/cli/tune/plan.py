# SPDX-License-Identifier: MIT
"""`configtron tune plan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, policy_options, where_options
from configtron.cli.tune.resolved import lease_options, place
from configtron.model.errors import DONE, Refused

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import Planned, PlanReport

CHANGE_COLUMNS = ("id", "scope", "knob", "was", "to", "state")
# A table shows up to so many prefixes of one kind of advice one by one; more are one row.
SINGLY = 8


@click.command(short_help="Say what would change; write nothing anywhere.")
@where_options
@policy_options
@form_options
@click.option("-a", "--all", "everything", is_flag=True, help="Acknowledged and frozen advice too.")
def plan(form: str, output_file: str, everything: bool, **_: object) -> int:
    """Say what would change: each advice with an id that stays the same as long as the advice does.

    Nothing is written: not to the stack, not to a file, not to the database. `-f jsonl` is also the form that `apply
    PLAN` takes, where lines may be taken out. Exit code 6: the guard refuses what is wanted, and says why.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    report = lease.plan(lease_options())
    with opened(output_file) as out:
        columns = (*CHANGE_COLUMNS, "now") if form == "csv" else CHANGE_COLUMNS
        write_rows(form, columns, _rows(report.planned, form, everything), out)
    _echo(report)
    if report.refused:
        raise Refused(report.refused)
    return DONE


def _rows(found: Planned, form: str, everything: bool) -> Iterator[dict[str, Json]]:
    from configtron.service.lease.plan_file import advice_form, lines

    if form == "jsonl":
        return iter(lines(found, place()))
    if form == "csv":
        shown = found.shown(everything=everything)
        return (advice_form(advice, state, found.untouched) for advice, state in shown)
    return _table(found, everything)


def _echo(report: PlanReport) -> None:
    if settings().loudness >= 0:
        click.echo(_summary(report.planned), err=True)
    for number in report.unfinished:
        click.echo(hint(f"act {number} is under way, or was left half done: configtron tune recover"), err=True)
    if report.owner:
        click.echo(f"apply will be refused: {report.owner}", err=True)


def _table(found: Planned, everything: bool) -> Iterator[dict[str, Json]]:
    """Yield advice for people: many prefixes that change alike are one row."""
    from configtron.service.lease.plan_file import advice_form

    alike: dict[tuple[object, ...], list[dict[str, Json]]] = {}
    for advice, state in found.shown(everything=everything):
        one = "/" in advice.scope and (advice.was, advice.to, state)
        row = {**advice._asdict(), "state": state} if one else _shown(advice_form(advice, state, found.untouched))
        alike.setdefault(one or (advice.scope, advice.knob), []).append(row)
    for rows in alike.values():
        if len(rows) > SINGLY:
            yield {**rows[0], "id": "", "scope": f"{len(rows)} prefixes, e.g. {rows[0]['scope']}"}
        else:
            yield from (_with_id(row) for row in rows)


def _shown(row: dict[str, Json]) -> dict[str, Json]:
    """Return a row for people: where no rule of ours is in force, what the kernel has."""
    return {**row, "was": f"{row['now']} (the kernel's)"} if "now" in row else row


def _with_id(row: dict[str, Json]) -> dict[str, Json]:
    """Return a row with its id, a hash that is computed only for what is shown."""
    from typing import cast

    from configtron.model.nouns import Value
    from configtron.tune.plan import Advice

    if "id" in row:
        return row
    ends = (cast(Value | None, row["was"]), cast(Value | None, row["to"]))
    return {**row, "id": Advice(str(row["driver"]), str(row["scope"]), str(row["knob"]), *ends).id}


def _summary(found: Planned) -> str:
    counts = found.counts()
    parts = [f"{counts[state]} {state}" for state in ("due", "muted", "frozen") if counts[state]]
    if counts["frozen"]:
        parts[-1] += hint(" (external changes; see configtron tune status)")
    if not (found.advices or found.have.profiles):
        parts = [hint("nothing to change: no client has a profile yet (configtron tune profile set, prefix set)")]
    held = f"; {found.held} prefixes held back" if found.held else ""
    return f"plan by {found.driver.name}: {', '.join(parts) or 'nothing to change'}{held}; nothing was written"
