# SPDX-License-Identifier: MIT
"""`configtron tune plan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, place, policy_options, where_options
from configtron.model.errors import DONE

if TYPE_CHECKING:
    from configtron.cli.tune.planning import Planned
    from configtron.db.tuning import Tuning
    from configtron.model.records import Json

CHANGE_COLUMNS = ("id", "scope", "knob", "was", "to", "state")
# So many prefixes of one kind of advice are told one by one in a table, more are told together.
SINGLY = 8


@click.command(short_help="Say what would change; write nothing anywhere.")
@where_options
@policy_options
@form_options
@click.option("-a", "--all", "everything", is_flag=True, help="Muted and frozen advice too.")
def plan(form: str, output_file: str, everything: bool, **_: object) -> int:
    """Say what would change: each advice with an id that stays the same as long as the advice does.

    Nothing is written: not to the stack, not to a file, not to the database. `-f jsonl` is also the form that `apply
    PLAN` takes, where lines may be taken out. Exit code 6: the guard refuses what is wanted, and says why.
    """
    from configtron.cli.tune.claims import other
    from configtron.cli.tune.desk import desk
    from configtron.cli.tune.planfile import DUE, advice_form, lines
    from configtron.cli.tune.planning import guarded, planned
    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.tune.journal import UNDOING, WRITING

    def look(book: Tuning) -> tuple[Planned, list[int], str]:
        here, halves = desk(book), [act.id for act in book.acts(WRITING, UNDOING)]
        found = planned(here)
        return found, halves, other(here, found.driver.name, place())

    found, halves, claim = glance(settings().db, look)
    rows: Iterator[dict[str, Json]]
    if form == "jsonl":
        rows = iter(lines(found, place()))
    elif form == "csv":
        wanted = ((advice, state) for advice, state in found.advices if everything or state == DUE)
        rows = (advice_form(advice, state, found.untouched) for advice, state in wanted)
    else:
        rows = _told(found, everything)
    with opened(output_file) as out:
        write_rows(form, (*CHANGE_COLUMNS, "now") if form == "csv" else CHANGE_COLUMNS, rows, out)
    if settings().loudness >= 0:
        click.echo(_summary(found), err=True)
    for act in halves:
        click.echo(hint(f"act {act} is under way, or was left half done: configtron tune recover"), err=True)
    if claim:
        click.echo(f"apply will be refused: {claim}", err=True)
    guarded(found.driver, found.target)
    return DONE


def _told(found: Planned, everything: bool) -> Iterator[dict[str, Json]]:
    """Advice for people: many prefixes that go the same way are one row."""
    from configtron.cli.tune.planfile import DUE, advice_form

    alike: dict[tuple[object, ...], list[dict[str, Json]]] = {}
    for advice, state in found.advices:
        if everything or state == DUE:
            one = "/" in advice.scope and (advice.was, advice.to, state)
            alike.setdefault(one or (advice.scope, advice.knob), []).append(
                {**advice._asdict(), "state": state} if one else _shown(advice_form(advice, state, found.untouched))
            )
    for rows in alike.values():
        if len(rows) > SINGLY:
            yield {**rows[0], "id": "", "scope": f"{len(rows)} prefixes, e.g. {rows[0]['scope']}"}
        else:
            yield from (_with_id(row) for row in rows)


def _shown(row: dict[str, Json]) -> dict[str, Json]:
    """For people: where nothing of ours stands, what the kernel has."""
    return {**row, "was": f"{row['now']} (the kernel's)"} if "now" in row else row


def _with_id(row: dict[str, Json]) -> dict[str, Json]:
    """Ids are hashes, made only for what is shown."""
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
        parts[-1] += hint(" (by another hand; see configtron tune status)")
    if not (found.advices or found.have.profiles):
        parts = [hint("nothing to change: no client has a profile yet (configtron tune profile set, prefix set)")]
    held = f"; {found.held} prefixes held back" if found.held else ""
    return f"plan by {found.driver.name}: {', '.join(parts) or 'nothing to change'}{held}; nothing was written"
