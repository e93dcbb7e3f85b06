# SPDX-License-Identifier: MIT
"""`configtron tune rollback`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.apply import WATCH
from configtron.cli.tune.options import form_options, where_options
from configtron.cli.tune.resolved import lease_options, show_notice
from configtron.cli.tune.status import frozen_text
from configtron.model.errors import DONE, BadInput, Mismatch

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease import Closed, RolledBack

ROLLBACK_COLUMNS = ("act", "driver", "was", "status", "why")


@click.command(short_help="Put back what stood before; or --keep what stands.")
@where_options
@form_options
@click.option("--last", is_flag=True, help="Only what is not kept, as the end of a lease does: what was kept stays.")
@click.option("--keep", is_flag=True, help="The other way: keep what is in force, without a lease.")
def rollback(form: str, output_file: str, last: bool, keep: bool, **_: object) -> int:
    """Put the stack back as it was before the first apply, by every driver here; any number of times.

    What stands here by our marks in the kernel and in no journal (an export that was played by hand, a database that
    was lost) goes too; what other programs added among it stays and is named. With --netns, --interface, --cgroup or
    --listen only what is there; with --driver only that one's. Exit code 4: a driver could not put back all; the
    reason is printed, and it is tried again by the watchdog and by every later command. Also 4 where all is back but
    the journal cannot be written. Frozen scopes are put back too, and stay frozen: `unfreeze` ends that.
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    if last and keep:
        raise BadInput("--last and --keep: one or the other")
    with opened(output_file) as out:
        options = lease_options()
        done = lease.keep(options) if keep else lease.rollback(options, last=last, on_notice=show_notice)
        rows = list(_rows(done))
        write_rows(form, ROLLBACK_COLUMNS, rows, out)
    if settings().loudness >= 0:
        for line in _watch_lines(done):
            click.echo(hint(line), err=True)
    if done.failed:
        raise Mismatch("; ".join(done.failed) + "; see: configtron tune status")
    if settings().loudness >= 0:
        for line in _lines(done, bool(rows)):
            click.echo(line, err=True)
    return DONE


def _rows(done: RolledBack) -> Iterator[dict[str, Json]]:
    yield from map(_row, done.closed)
    yield from (_row_of(None, driver, "unjournaled", "undone", what) for driver, what in done.unjournaled)
    yield from (_row_of(None, driver, "", "left", line) for driver, line in done.left)


def _row(closed: Closed) -> dict[str, Json]:
    """Return the row of a transaction, with what became of open connections."""
    before, after, restored = closed
    row = _row_of(before.id, before.driver, before.status, after.status, after.why)
    if restored is not None:
        row |= {"connections": restored.connections, "restored": restored.restored, "carrying": dict(restored.left)}
    return row


def _row_of(*cells: Json) -> dict[str, Json]:
    return dict(zip(ROLLBACK_COLUMNS, cells, strict=True))


def _watch_lines(done: RolledBack) -> Iterator[str]:
    return (f"act {number}: {WATCH}" for number in done.needs_watch)


def _lines(done: RolledBack, anything: bool) -> Iterator[str]:
    if not anything:
        yield "nothing of ours is in force here"
    for before, _, restored in done.closed:
        if restored is not None and restored.text and not restored.left:  # what is left has been a warning
            yield f"act {before.id}: {restored.text}"
    for driver, line in done.left:
        yield f"{driver}: left as it is, for it is not ours: {line}"
    if frozen := frozen_text(done.frozen):
        yield frozen
