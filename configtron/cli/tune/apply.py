# SPDX-License-Identifier: MIT
"""`configtron tune apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import Finite, form_options, place, policy_options, where_options
from configtron.model.errors import DONE, NOTHING, Missing

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.cli.tune.planning import Planned
    from configtron.model.tuning import Place
    from configtron.tune.journal import Act

APPLIED_COLUMNS = ("act", "status", "driver", "changes", "profiles", "prefixes", "held", "lease_s")
# Long enough to see whether the site still works, short enough to wait for if it does not.
LEASE_S = 60.0


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

    What stands there now is written to the journal first, everything is read back afterwards, and a keeper process
    undoes it when the lease ends, or if this command is killed; if the keeper is killed too, the next command, the
    timer or `watch` does. What is in force already is not written again; its lease is renewed.

    Exit code 4: it did not read back, and was undone, or nothing is in force and all that would be is frozen; 6: the
    guard refuses, or the plan is out of date.
    """
    from configtron.cli.tune.acting import besides, recover
    from configtron.cli.tune.desk import desk, sole
    from configtron.db.tuning import Tuning
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    with opened(output_file) as out, Tuning(settings().db) as book:
        here = desk(book)
        with sole(book.path):
            recover(here)
            where, found = (place(), _planned(here)) if plan is None else _saved(here, plan)
            lost = _is_lost(found)
            try:
                act = None if lost else _apply(here, where, found, 0.0 if keep else lease_s)
            except KeyboardInterrupt:
                _interrupted(here, where, found)
                raise
        changes = len(found.due())
        also = ""
        if lost:
            write_rows(form, APPLIED_COLUMNS, [{"act": None, "status": "frozen", "driver": found.driver.name}], out)
        if act is not None:
            also = f"; {told}" if not act.lease_s and (told := besides(here, act)) else ""
            row = (act.id, act.status, act.driver, changes, len(act.rules.profiles), len(act.rules.prefixes),
                   act.held, act.lease_s)  # fmt: skip
            write_rows(form, APPLIED_COLUMNS, [dict(zip(APPLIED_COLUMNS, row, strict=True))], out)
    if lost:
        if settings().loudness >= 0:
            count = found.counts()["frozen"]
            click.echo(hint(f"nothing is in force: another hand took it away, and all {count} changes are frozen; see: "
                            "configtron tune status; to put it back: configtron tune resume --all, then apply"),
                       err=True)  # fmt: skip
        return NOTHING
    if settings().loudness >= 0:
        click.echo(_advice(act, changes) + also, err=True)
        if frozen := found.counts()["frozen"]:
            click.echo(hint(f"{frozen} frozen by another hand and left alone: configtron tune status"), err=True)
    return DONE


def _is_lost(found: Planned) -> bool:
    """Whether nothing is in force, and nothing will be, since all of it is frozen."""
    return bool(found.counts()["frozen"]) and not (found.due() or found.have.prefixes or found.have.default)


def _planned(here: Desk) -> Planned:
    from configtron.cli.tune.planning import planned

    return planned(here)


def _saved(here: Desk, path: Path) -> tuple[Place, Planned]:
    """A saved plan, checked against what is in force now."""
    from configtron.cli.tune.acting import in_force
    from configtron.cli.tune.planfile import DUE, saved
    from configtron.cli.tune.planning import Planned
    from configtron.tune.plan import follow
    from configtron.tune.pools import for_kernel

    found = saved(path)
    driver = here.load(found.driver, found.place)
    if lack := driver.missing():
        raise Missing(f"driver {found.driver}: {lack}")
    standing = here.book.standing(found.driver, found.place, here.space_of(found.place))
    want = for_kernel(here.book.wanted())
    have = in_force(driver, [standing.rules, want] if standing else [want])
    advices = [(advice, DUE) for advice in found.advices]
    return found.place, Planned(driver, have, follow(have, found.advices), advices, found.held)


def _apply(here: Desk, where: Place, found: Planned, lease_s: float) -> Act | None:
    """Do it; without anything to do, renew the lease of what stands, if anything does."""
    from configtron.cli.tune.acting import enforce, keep
    from configtron.cli.tune.keeping import dismissed
    from configtron.cli.tune.planning import guarded
    from configtron.tune.journal import LEASED

    guarded(found.driver, found.target)
    standing = here.book.standing(found.driver.name, where, here.space_of(where))
    if found.due():
        act = enforce(here, found.driver, where, found.have, found.target, lease_s, found.held)
        if standing is not None:
            dismissed(standing)
        return act
    if standing is None or standing.status != LEASED:
        return standing
    if not lease_s:
        return keep(here, standing)
    here.book.renew(standing.id, here.now_s() + lease_s, lease_s)
    return here.book.act(standing.id)


def _interrupted(here: Desk, where: Place, found: Planned) -> None:
    """Say what stands, where the interruption came after all was in force."""
    act = here.book.standing(found.driver.name, where, here.space_of(where))
    if act is not None:
        click.echo(hint(f"act {act.id} is {act.status}; take it back: configtron tune rollback"), err=True)


def _advice(act: Act | None, changes: int) -> str:
    if act is None:
        return "nothing to change, and nothing is in force"
    done = f"{changes} changes" if changes else "nothing to change"
    if not act.lease_s:
        return hint(f"act {act.id}: {done}; kept. Take it back: configtron tune rollback")
    return hint(
        f"act {act.id}: {done}; undone in {act.lease_s:g} s unless renewed (configtron tune watch) or kept "
        "(configtron tune rollback --keep)"
    )
