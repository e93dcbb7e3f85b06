"""`configtron tune status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.errors import DONE

if TYPE_CHECKING:
    from configtron.db.tuning import Tuning
    from configtron.records import Json
    from configtron.tune.journal import Act

COLUMNS = ("act", "status", "driver", "place", "profiles", "prefixes", "held", "lease_left_s", "keeper", "about")


@click.command(short_help="Show what is in force, by whom and until when.")
@form_options
def status(form: str, output_file: str) -> int:
    """Show what is in force and by which driver, how long its lease lasts, who will undo it, and what is frozen.

    A scope that somebody else changed stays frozen until `resume`, also after a rollback, when nothing of ours is in
    force there: rows with the status `frozen`, after the acts. Reads the database only, and writes nothing; `verify`
    reads the stack. Exit code 0 also if nothing is in force.
    """
    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    def look(book: Tuning) -> list[dict[str, Json]]:
        return [*_acts(book), *_frozen(book)]

    rows = glance(settings().db, look)
    with opened(output_file) as out:
        write_rows(form, COLUMNS, rows, out)
    if settings().loudness >= 0:
        if not any(row["kind"] == "act" for row in rows):
            click.echo("nothing of ours is in force", err=True)
        if told := frozen_text([str(row["scope"]) for row in rows if row["kind"] == "frozen"]):
            click.echo(told, err=True)
    return DONE


def _acts(book: Tuning) -> Iterator[dict[str, Json]]:
    from configtron.cli.tune.desk import desk
    from configtron.cli.tune.processes import alive
    from configtron.tune.journal import LEASED, OPEN
    from configtron.tune.text import place_text

    here = desk(book)
    for act in book.acts(*OPEN):
        keeper = act.keeper.split()[0] if alive(act.keeper) else ""
        left = round(max(act.expires_s - here.now_s(), 0.0), 1) if act.status == LEASED else None
        yield {
            "kind": "act", "act": act.id, "status": act.status, "driver": act.driver, "place": place_text(act.place),
            "space": act.space, "begun_at": act.begun_at, "profiles": len(act.rules.profiles),
            "prefixes": len(act.rules.prefixes), "default": act.rules.default, "held": act.held, "over": act.over,
            "lease_left_s": left, "keeper": keeper, "about": _about(act, here.boot, here.space, left, keeper),
        }  # fmt: skip


def _about(act: Act, boot: str, space: str, left: float | None, keeper: str) -> str:
    """What somebody who looks should know."""
    from configtron.tune.journal import IN_FORCE

    if act.boot != boot:
        return "of an earlier boot: nothing of it is in force"
    if act.space not in ("", space):
        return f"in another network namespace, {act.space}"
    if act.status not in IN_FORCE:
        return act.why or "under way, or left behind: configtron tune recover"
    if left is not None and not keeper:
        return "nobody will undo it: configtron tune recover"
    return act.why


def frozen_text(scopes: Sequence[str]) -> str:
    """How many scopes are frozen and how that ends, in one line; "" if none is."""
    if not scopes:
        return ""
    count = f"{scopes[0]} is" if len(scopes) == 1 else f"{len(scopes)} scopes are"
    which = scopes[0] if len(scopes) == 1 else "SCOPE..., or --all"
    return f"{count} frozen: no plan touches what another hand changed, until configtron tune resume {which}"


def _frozen(book: Tuning) -> Iterator[dict[str, Json]]:
    from configtron.tune.journal import OPEN
    from configtron.tune.text import place_of

    ours = {(act.driver, act.place, act.space) for act in book.acts(*OPEN, bare=True)}
    for frozen in book.frozen():
        about = f"{frozen.scope}: {frozen.was or 'none'} became {frozen.found or 'none'} by another hand"
        if (frozen.driver, place_of(frozen.place), frozen.space) not in ours:
            about += "; taken back since"
        yield {
            "kind": "frozen", "status": "frozen", "driver": frozen.driver, "place": frozen.place, "scope": frozen.scope,
            "was": frozen.was, "found": frozen.found, "frozen_at": frozen.frozen_at, "about": about,
        }  # fmt: skip
