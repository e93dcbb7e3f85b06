# SPDX-License-Identifier: MIT
"""`configtron tune move`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, NOTHING, Missing

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.db.tuning import Tuning
    from configtron.model.records import Json

REAPPLIED_COLUMNS = ("act", "driver", "served", "moved", "about")


@click.command(short_help="Put connections that are open right too.")
@form_options
def move(form: str, output_file: str) -> int:
    """Give connections that are open already the profile of their client, as new ones get it.

    Without this command they keep what they began with. An initial window is not given twice; what the kernel is not
    asked for stays as it is. `rollback` puts open connections back by itself. `served` counts the open connections of
    clients, `moved` those of them whose client has a profile. With kmod a connection that no process holds yet, since
    nobody has accepted it, is served, but not moved.

    Exit code 4: nothing is in force here, or no driver of it reaches open connections.
    """
    from configtron.cli.tune.desk import desk, sole
    from configtron.db.tuning import Tuning
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    with opened(output_file) as out, Tuning(settings().db) as book:
        with sole(book.path):
            rows = list(_moved(desk(book), book))
        write_rows(form, REAPPLIED_COLUMNS, rows, out)
    if not rows and settings().loudness >= 0:
        click.echo("nothing of ours is in force here", err=True)
    return DONE if any(row["served"] is not None for row in rows) else NOTHING


def _moved(here: Desk, book: Tuning) -> Iterator[dict[str, Json]]:
    from configtron.model.protocols import Mover
    from configtron.tune.journal import IN_FORCE

    for act in book.acts(*IN_FORCE):
        if act.boot != here.boot or act.space not in ("", here.space):
            continue
        driver = here.load(act.driver, act.place)
        if lack := driver.missing():
            raise Missing(f"act {act.id}: driver {act.driver}: {lack}")
        row: dict[str, Json] = {"act": act.id, "driver": act.driver, "served": None, "moved": None, "about": ""}
        if isinstance(driver, Mover):
            row["served"], row["moved"] = driver.move()
        else:
            row["about"] = "does not reach open connections"
        yield row
