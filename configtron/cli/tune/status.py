# SPDX-License-Identifier: MIT
"""`configtron tune status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, place, where_options
from configtron.model.errors import DONE

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.db.tuning import Tuning
    from configtron.model.records import Json
    from configtron.tune.journal import Act

IN_FORCE_COLUMNS = (
    "act", "status", "driver", "place", "profiles", "prefixes", "in_force", "held", "lease_left_s", "keeper", "about",
)  # fmt: skip


@click.command(short_help="Show what is in force, by whom and until when.")
@where_options
@form_options
def status(form: str, output_file: str, **_: object) -> int:
    """Show what is in force and by which driver, how long its lease lasts, who will undo it, and what is frozen.

    A scope that somebody else changed stays frozen until `resume`, also after a rollback, when nothing of ours is in
    force there: rows with the status `frozen`, after the acts. What the journal says is compared with the kernel:
    `in_force` counts the prefixes that read back as applied, and `about` says what differs (`verify` shows it). What
    stands here by our marks in no journal has the status `unjournaled`. Nothing is written. Exit code 0 also if nothing
    is in force.
    """
    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    def look(book: Tuning) -> list[dict[str, Json]]:
        return [*_acts(book), *_unjournaled(book), *_frozen(book)]

    rows = glance(settings().db, look)
    with opened(output_file) as out:
        write_rows(form, IN_FORCE_COLUMNS, rows, out)
    if settings().loudness >= 0:
        if not any(row["kind"] in ("act", "unjournaled") for row in rows):
            click.echo("nothing of ours is in force", err=True)
        if told := frozen_text([str(row["scope"]) for row in rows if row["kind"] == "frozen"]):
            click.echo(told, err=True)
    return DONE


def _acts(book: Tuning) -> Iterator[dict[str, Json]]:
    from configtron.cli.tune.desk import desk
    from configtron.cli.tune.processes import alive
    from configtron.model.tuning_json import place_text
    from configtron.tune.journal import LEASED, OPEN

    here = desk(book)
    for act in book.acts(*OPEN):
        keeper = act.keeper.split()[0] if alive(act.keeper) else ""
        left = round(max(act.expires_s - here.now_s(), 0.0), 1) if act.status == LEASED else None
        about = _about(act, here.boot, here.space, left, keeper)
        found, differs = _compared(here, act)
        yield {
            "kind": "act", "act": act.id, "status": act.status, "driver": act.driver, "place": place_text(act.place),
            "space": act.space, "begun_at": act.begun_at, "profiles": len(act.rules.profiles),
            "prefixes": len(act.rules.prefixes), "in_force": found, "default": act.rules.default, "held": act.held,
            "over": act.over, "lease_left_s": left, "keeper": keeper,
            "about": "; ".join(filter(None, (differs, about))),
        }  # fmt: skip


def _about(act: Act, boot: str, space: str, left: float | None, keeper: str) -> str:
    """What somebody who looks should know."""
    from configtron.tune.journal import IN_FORCE

    if act.boot != boot:
        return "of an earlier boot: nothing of it is in force"
    if act.space not in ("", space):
        return f"in another network namespace, {act.space}"
    if act.status not in IN_FORCE:
        return act.why or hint("under way, or left behind: configtron tune recover")
    if left is not None and not keeper:
        return hint("nobody will undo it: configtron tune recover")
    return act.why


def _compared(here: Desk, act: Act) -> tuple[int | None, str]:
    """How many of an act's prefixes read back from the kernel as applied (None: not compared), and what differs."""
    from configtron.cli.tune.acting import in_force
    from configtron.model.errors import ConfigtronError
    from configtron.model.protocols import Asker
    from configtron.tune.journal import IN_FORCE
    from configtron.tune.plan import advise

    if act.boot != here.boot or act.space not in ("", here.space) or act.status not in IN_FORCE:
        return None, ""
    try:
        driver = here.load(act.driver, act.place)
        if lack := driver.missing():
            return None, f"not compared with the kernel: {lack}"
        found = in_force(driver, [act.rules])
        differences = len(advise(act.driver, act.rules, found))
        if isinstance(driver, Asker):
            differences += len(driver.ask(act.rules).differences)
    except (ConfigtronError, OSError) as error:
        return None, f"not compared with the kernel: {error}"
    same = {name for name, profile in act.rules.profiles.items() if found.profiles.get(name) == profile}
    count = sum(1 for prefix, name in act.rules.prefixes.items() if name in same and found.prefixes.get(prefix) == name)
    if not (found.prefixes or found.default) and (act.rules.prefixes or act.rules.default):
        return count, hint("nothing of it is in force: another hand took it away (configtron tune verify)")
    return count, hint(f"{differences} differences in the kernel: configtron tune verify") if differences else ""


def _unjournaled(book: Tuning) -> Iterator[dict[str, Json]]:
    """What stands here by our marks in no journal of this database."""
    from configtron.cli.tune.desk import desk
    from configtron.cli.tune.unjournaled import unjournaled
    from configtron.linux.netns import is_absent
    from configtron.model.tuning_json import place_text

    if is_absent(place().netns):
        return
    for driver, what, owner in unjournaled(desk(book), place()):
        about = f"{what}: {owner or hint('in no journal; configtron tune rollback takes it away')}"
        yield {"kind": "unjournaled", "status": "unjournaled", "driver": driver.name, "place": place_text(place()),
               "about": about}  # fmt: skip


def frozen_text(scopes: Sequence[str]) -> str:
    """How many scopes are frozen and how that ends, in one line; "" if none is."""
    if not scopes:
        return ""
    count = f"{scopes[0]} is" if len(scopes) == 1 else f"{len(scopes)} scopes are"
    which = scopes[0] if len(scopes) == 1 else "SCOPE..., or --all"
    return hint(f"{count} frozen: no plan touches what another hand changed, until configtron tune resume {which}")


def _frozen(book: Tuning) -> Iterator[dict[str, Json]]:
    from configtron.model.tuning_json import place_of
    from configtron.tune.journal import OPEN

    ours = {(act.driver, act.place, act.space) for act in book.acts(*OPEN, bare=True)}
    for frozen in book.frozen():
        about = f"{frozen.scope}: {frozen.was or 'none'} became {frozen.found or 'none'} by another hand"
        if (frozen.driver, place_of(frozen.place), frozen.space) not in ours:
            about += "; taken back since"
        yield {
            "kind": "frozen", "status": "frozen", "driver": frozen.driver, "place": frozen.place, "scope": frozen.scope,
            "was": frozen.was, "found": frozen.found, "frozen_at": frozen.frozen_at, "about": about,
        }  # fmt: skip
