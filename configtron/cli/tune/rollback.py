# SPDX-License-Identifier: MIT
"""`configtron tune rollback`."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import astuple
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import AUTO, form_options, given, place, where_options
from configtron.model.errors import DONE, BadInput, ConfigtronError, Mismatch, Refused

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.db.tuning import Tuning
    from configtron.model.records import Json
    from configtron.model.tuning import Place
    from configtron.tune.drivers.open_connections import Restored
    from configtron.tune.journal import Act

ROLLBACK_COLUMNS = ("act", "driver", "was", "status", "why")


@click.command(short_help="Put back what stood before; or --keep what stands.")
@where_options
@form_options
@click.option("--last", is_flag=True, help="Only what is not kept, as the end of a lease does: what was kept stays.")
@click.option("--keep", is_flag=True, help="The other way: keep what is in force, without a lease.")
def rollback(form: str, output_file: str, last: bool, keep: bool, **_: object) -> int:
    """Put the stack back as it was before the first apply, by every driver here; any number of times.

    What stands here by our marks in the kernel and in no journal (an export that was played by hand, a database that
    was lost) goes too; what others have put among it stays and is named. With --netns, --interface, --cgroup or
    --listen only what is there; with --driver only that one's. Exit code 4: a driver could not put back all; the
    reason is told, and it is tried again by the keeper and by every later command. Also 4 where all is back but the
    journal cannot be written. Frozen scopes are put back too, and stay frozen: `resume` ends that.
    """
    from configtron.cli.tune.desk import desk, sole
    from configtron.cli.tune.keeping import dismissed
    from configtron.cli.tune.status import frozen_text
    from configtron.db.tuning import Tuning
    from configtron.model.tuning_json import place_text
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    if last and keep:
        raise BadInput("--last and --keep: one or the other")
    try:
        journal = Tuning(settings().db)
    except BadInput as error:
        if last or keep:
            raise
        raise Mismatch(_without_journal(error)) from error
    with opened(output_file) as out, journal as book:
        here = desk(book)
        with sole(book.path):
            connections: dict[int, Restored] = {}
            done, failed = _each(here, last, keep, connections)
            unknown = [] if last or keep else _unknown(here, failed)
        undone = {(act.driver, place_text(act.place), act.space) for act, _ in done} if not keep else set()
        frozen = [one.scope for one in book.frozen() if (one.driver, one.place, one.space) in undone]
        for was, _now in done:
            dismissed(was)
        rows = [_row(was, now, connections.get(was.id)) for was, now in done]
        rows += [_row_of(None, driver, "unjournaled", "undone", what) for driver, what in unknown]
        left = [] if last or keep else _left(here, {(was.driver, was.place) for was, _ in done}, unknown)
        rows += [_row_of(None, driver, "", "left", line) for driver, line in left]
        write_rows(form, ROLLBACK_COLUMNS, rows, out)
    if failed:
        raise Mismatch("; ".join(failed) + "; see: configtron tune status")
    if settings().loudness >= 0:
        if not rows:
            click.echo("nothing of ours is in force here", err=True)
        for number, restored in connections.items():
            if restored.text and not restored.left:  # what is left has been a warning
                click.echo(f"act {number}: {restored.text}", err=True)
        for driver, line in left:
            click.echo(f"{driver}: left as it is, for it is not ours: {line}", err=True)
        if told := frozen_text(frozen):
            click.echo(told, err=True)
    return DONE


def _row(was: Act, now: Act, restored: Restored | None) -> dict[str, Json]:
    """An act that was undone, with what became of open connections."""
    row = _row_of(was.id, was.driver, was.status, now.status, now.why)
    if restored is not None:
        row |= {"connections": restored.connections, "restored": restored.restored, "carrying": dict(restored.left)}
    return row


def _row_of(*cells: Json) -> dict[str, Json]:
    return dict(zip(ROLLBACK_COLUMNS, cells, strict=True))


def _each(
    here: Desk, last: bool, keep: bool, connections: dict[int, Restored]
) -> tuple[list[tuple[Act, Act]], list[str]]:
    """Every open act here, before and after; and why others are not undone. One that fails keeps no other back."""
    from configtron.cli.tune import acting, keeping
    from configtron.tune.journal import KEPT, LEASED, OPEN

    done: list[tuple[Act, Act]] = []
    failed: list[str] = []
    named = given("driver", AUTO)
    try:
        acting.recover(here)
    except acting.Unwritten as error:
        failed.append(str(error))
    acts = here.book.acts(*OPEN)
    for act in acts:
        if act.space not in ("", here.space) or not _meant(act, named):
            continue
        if keep:
            if act.status == LEASED:
                done.append((act, acting.keep(here, act)))
                if settings().loudness >= 0 and (told := acting.besides(here, act)):
                    click.echo(f"act {act.id}: {told}", err=True)
            continue
        if last and act.status == KEPT:
            continue
        # Without one it is done all the same: a keeper goes on where this process is killed.
        with suppress(ConfigtronError, OSError):
            if not keeping.guarded(act):
                keeping.start(here, act.id)
        try:
            done.append((act, acting.undo(here, act, acting.ASKED, wholly=not last, connections=connections)))
        except (ConfigtronError, OSError) as error:
            acting.not_yet(here, act, acting.ASKED, error)
            failed.append(f"act {act.id} ({act.driver}): {error}")
    return done, failed


def _without_journal(error: BadInput) -> str:
    """Undo what a journal that cannot be written (a full disk, a read-only one) says; what is to be told of it.

    One that fails keeps no other back. Errors: itself, where it cannot be read, or has nothing in force.
    """
    from configtron.cli.tune.acting import reverted
    from configtron.cli.tune.claims import taken
    from configtron.cli.tune.desk import desk, gone, sole
    from configtron.db.glance import glance
    from configtron.tune.drivers import load
    from configtron.tune.journal import OPEN

    def meant(book: Tuning) -> list[Act]:
        here = desk(book)
        ours = [act for act in book.acts(*OPEN, bare=True) if act.boot == here.boot and act.space in ("", here.space)]
        return [act for act in ours if _meant(act, given("driver", AUTO)) and not taken(here, act)]

    try:
        acts = glance(settings().db, meant)
    except ConfigtronError:
        acts = []
    if not acts:
        raise error
    done, failed = list[str](), list[str]()
    with ExitStack() as stack:
        # Where not even the lock can be opened, nobody else can act either.
        with suppress(OSError):
            stack.enter_context(sole(settings().db))
        for act in acts:
            whose = f"act {act.id} ({act.driver})"
            try:
                with suppress(*([BadInput] if gone(act.place) else [])):
                    reverted(load(act.driver, act.place), act.place, act.before)
                done.append(whose)
            except (ConfigtronError, OSError) as why:
                failed.append(f"{whose}: {why}")
    back = f"what stood before is back, but not in the journal ({error}); once it can be written, do it again"
    return "; ".join([*failed, *([f"{', '.join(done)}: {back}"] if done else [])])


def _meant(act: Act, driver: str) -> bool:
    """Whether an act is the named driver's, at the place named; what is not named leaves nobody out."""
    said, found = astuple(place()), astuple(act.place)
    return driver in (AUTO, act.driver) and all(word in ("", at) for word, at in zip(said, found, strict=True))


def _unknown(here: Desk, failed: list[str]) -> list[tuple[str, str]]:
    """Take away what stands by our marks though no journal knows it: driver and what it was.

    Errors: `Refused`, where it is another database's and its driver was named.
    """
    from configtron.cli.tune.acting import reverted
    from configtron.cli.tune.unjournaled import unjournaled

    named = given("driver", AUTO)
    gone: list[tuple[str, str]] = []
    for driver, what, owner in unjournaled(here, place(), "" if named == AUTO else named):
        if owner and named != AUTO:
            raise Refused(owner)
        if owner:
            click.echo(f"{driver.name}: {what} stay: {owner}", err=True)
            continue
        try:
            # One that is pinned for some listeners stands at a narrower place than the one asked about.
            restored = reverted(driver, driver.place, driver.before())
            gone.append((driver.name, f"{what}; {restored.text}" if restored.text else what))
        except (ConfigtronError, OSError) as error:
            failed.append(f"{driver.name}, in no journal: {error}")
    return gone


def _left(here: Desk, undone: set[tuple[str, Place]], unknown: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What others have put among what went, by driver: it stays, a human's setting."""
    from configtron.cli.tune.unjournaled import others

    places = undone | {(driver, place()) for driver, _ in unknown}
    return [(name, line) for name, at in sorted(places, key=str) for line in others(here.load(name, at))]
