# SPDX-License-Identifier: MIT
"""`configtron tune recover`."""

from __future__ import annotations

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, NOTHING

RECOVERED_COLUMNS = ("act", "driver", "status", "why")


@click.command(short_help="Mend what a killed process or a reboot left behind.")
@form_options
def recover(form: str, output_file: str) -> int:
    """Undo what was left half done and leases that have ended, and give a keeper to leases that lost theirs.

    `apply`, `rollback` and `watch` begin with it; the systemd timer runs it. Exit code 4: something could not be
    undone; `status` says why.
    """
    from configtron.cli.tune import acting
    from configtron.cli.tune.desk import desk, sole
    from configtron.db.tuning import Tuning
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.tune.journal import UNDOING, WRITING

    if not settings().db.is_file():
        return DONE
    with opened(output_file) as out, Tuning(settings().db) as book:
        here = desk(book)
        with sole(book.path):
            rows = [(act.id, act.driver, act.status, act.why) for act in acting.recover(here)]
            left = [act for act in book.acts(WRITING, UNDOING) if act.space in ("", here.space)]
        write_rows(form, RECOVERED_COLUMNS, [dict(zip(RECOVERED_COLUMNS, row, strict=True)) for row in rows], out)
    for act in left:
        click.echo(f"act {act.id} ({act.driver}): {act.why}", err=True)
    return NOTHING if left else DONE
