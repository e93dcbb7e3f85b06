# SPDX-License-Identifier: MIT
"""A plan as rows: JSON Lines as `apply PLAN` takes them, CSV, a table for people; and its summary in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import cast

from configtron.model.counting import count_of
from configtron.model.nouns import Value
from configtron.model.records import Json
from configtron.model.tuning import Place
from configtron.service.lease.plan_file import advice_form, lines
from configtron.service.lease.planner import DUE, Planned, PlanReport
from configtron.tune.plan import OF_PROFILE, WHOLE, Advice

Row = dict[str, Json]

PLAN_COLUMNS = ("id", "scope", "knob", "was", "to", "state")
# A table shows up to so many prefixes of one kind of advice one by one; more are one row.
SINGLY = 8


def plan_rows(
    found: Planned, place: Place, form: str, *, everything: bool, refused: Collection[str] = ()
) -> Iterator[Row]:
    """Yield what would change, in the form of "jsonl", "csv" or "table".

    everything  acknowledged and frozen too
    refused     profiles that the guard refuses; a table marks their rows, and those of the clients they are for
    """
    if form == "jsonl":
        return iter(lines(found, place))
    if form == "csv":
        shown = found.shown(everything=everything)
        return (advice_form(advice, state, found.untouched) for advice, state in shown)
    return _plan_table(found, everything, refused)


def _plan_table(found: Planned, everything: bool, refused: Collection[str]) -> Iterator[Row]:
    """Yield advice for people: many prefixes that change alike are one row."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    for advice, state in found.shown(everything=everything):
        if state == DUE and (advice.scope.removeprefix(OF_PROFILE) if _sets_knob(advice) else advice.to) in refused:
            state = "refused"
        one = "/" in advice.scope and (advice.was, advice.to, state)
        key: tuple[object, ...] = one or (advice.scope, advice.knob)
        counts[key] += 1
        if counts[key] > SINGLY + 1:
            continue
        row = advice._asdict() if one else _shown(advice_form(advice, state, found.untouched))
        row["state"] = state
        alike.setdefault(key, []).append(row)
    for kind, rows in alike.items():
        if len(rows) > SINGLY:
            yield {**rows[0], "id": "", "scope": f"{counts[kind]} prefixes, e.g. {rows[0]['scope']}"}
        else:
            yield from (_with_id(row) for row in rows)


def _sets_knob(advice: Advice) -> bool:
    """Return whether an advice changes a knob of a profile, not which profile clients have."""
    return advice.scope.startswith(OF_PROFILE) and advice.knob != WHOLE


def _shown(row: Row) -> Row:
    """Return a row for people: where no rule of ours is in force, what the kernel has."""
    return {**row, "was": f"{row['now']} (the kernel's)"} if "now" in row else row


def _with_id(row: Row) -> Row:
    """Return a row with its id, a hash that is computed only for what is shown."""
    if "id" in row:
        return row
    ends = (cast(Value | None, row["was"]), cast(Value | None, row["to"]))
    return {**row, "id": Advice(str(row["driver"]), str(row["scope"]), str(row["knob"]), *ends).id}


def plan_summary(found: Planned, refused: Collection[str] = ()) -> str:
    """Return how many changes are due, acknowledged and frozen, and what the guard refuses, in one line."""
    counts = found.counts()
    parts = [f"{counts[state]} {state}" for state in ("due", "muted", "frozen") if counts[state]]
    if counts["frozen"]:
        parts[-1] += " (external changes; see configtron tune status)"
    if not (found.advices or found.have.profiles):
        parts = ["nothing to change: no client has a profile yet (configtron tune profile set, prefix set)"]
    stopped = f"; profiles refused: {', '.join(sorted(refused))}" if refused else ""
    held = f"; {count_of(found.held, 'prefix')} in the control group" if found.held else ""
    return f"plan by {found.driver.name}: {', '.join(parts) or 'nothing to change'}{held}{stopped}; nothing was written"


def obstacle_lines(report: PlanReport) -> list[str]:
    """Return what is under way, and which other database would make `apply` refuse."""
    under_way = [
        f"transaction {number} is under way, or was left half done: configtron tune recover"
        for number in report.unfinished
    ]
    return [*under_way, *([f"apply will be refused: {report.owner}"] if report.owner else [])]
