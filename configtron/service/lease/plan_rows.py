# SPDX-License-Identifier: MIT
"""A plan as rows: JSON Lines as `apply PLAN` takes them, CSV, a table for people; and its summary in a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from configtron.model.nouns import Value
from configtron.model.records import Json
from configtron.model.tuning import Place
from configtron.service.lease.plan_file import advice_form, lines
from configtron.service.lease.planner import Planned, PlanReport
from configtron.tune.plan import Advice

Row = dict[str, Json]

PLAN_COLUMNS = ("id", "scope", "knob", "was", "to", "state")
# A table shows up to so many prefixes of one kind of advice one by one; more are one row.
SINGLY = 8


def plan_rows(found: Planned, place: Place, form: str, *, everything: bool) -> Iterator[Row]:
    """Yield what would change, in the form of "jsonl", "csv" or "table". everything: acknowledged and frozen too."""
    if form == "jsonl":
        return iter(lines(found, place))
    if form == "csv":
        shown = found.shown(everything=everything)
        return (advice_form(advice, state, found.untouched) for advice, state in shown)
    return _plan_table(found, everything)


def _plan_table(found: Planned, everything: bool) -> Iterator[Row]:
    """Yield advice for people: many prefixes that change alike are one row."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for advice, state in found.shown(everything=everything):
        one = "/" in advice.scope and (advice.was, advice.to, state)
        row = {**advice._asdict(), "state": state} if one else _shown(advice_form(advice, state, found.untouched))
        alike.setdefault(one or (advice.scope, advice.knob), []).append(row)
    for rows in alike.values():
        if len(rows) > SINGLY:
            yield {**rows[0], "id": "", "scope": f"{len(rows)} prefixes, e.g. {rows[0]['scope']}"}
        else:
            yield from (_with_id(row) for row in rows)


def _shown(row: Row) -> Row:
    """Return a row for people: where no rule of ours is in force, what the kernel has."""
    return {**row, "was": f"{row['now']} (the kernel's)"} if "now" in row else row


def _with_id(row: Row) -> Row:
    """Return a row with its id, a hash that is computed only for what is shown."""
    if "id" in row:
        return row
    ends = (cast(Value | None, row["was"]), cast(Value | None, row["to"]))
    return {**row, "id": Advice(str(row["driver"]), str(row["scope"]), str(row["knob"]), *ends).id}


def plan_summary(found: Planned) -> str:
    """Return how many changes are due, acknowledged and frozen, in one line."""
    counts = found.counts()
    parts = [f"{counts[state]} {state}" for state in ("due", "muted", "frozen") if counts[state]]
    if counts["frozen"]:
        parts[-1] += " (external changes; see configtron tune status)"
    if not (found.advices or found.have.profiles):
        parts = ["nothing to change: no client has a profile yet (configtron tune profile set, prefix set)"]
    held = f"; {found.held} prefixes held back" if found.held else ""
    return f"plan by {found.driver.name}: {', '.join(parts) or 'nothing to change'}{held}; nothing was written"


def obstacle_lines(report: PlanReport) -> list[str]:
    """Return what is under way, and which other database would make `apply` refuse."""
    under_way = [
        f"transaction {number} is under way, or was left half done: configtron tune recover"
        for number in report.unfinished
    ]
    return [*under_way, *([f"apply will be refused: {report.owner}"] if report.owner else [])]
