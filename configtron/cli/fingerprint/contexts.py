# SPDX-License-Identifier: MIT
"""`configtron fingerprint contexts`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.fingerprint.watch_display import FORMATS
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, BadInput
from configtron.report.lines import opened, write_list

if TYPE_CHECKING:
    from configtron.db.store import LiveFingerprint, Store


# Described by `report/watches.schema.json`.
SCHEMA = "configtron.watches/1"
WATCHES = ("watch", "begun", "source", "status", "contexts")
LAST = -1


def _watch_number(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    if value is None or value == "last":
        return None if value is None else LAST
    if not re.fullmatch(r"\d{1,9}", value):
        raise click.BadParameter(f"{value!r} is no watch; give a number, or last")
    return int(value)


@click.command(short_help="Show the contexts that a watch kept; without WATCH, list the watches.")
@click.argument("watch", required=False, callback=_watch_number)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
def contexts(watch: int | None, form: str, output_file: str) -> int:
    """Show the contexts that `fingerprint live` or `socket` kept.

    WATCH is a number, or last; without it, the watches are listed. Exit code 4: that watch kept nothing.
    """
    from configtron.report.contexts import SightingWriter
    from configtron.service.capture import open_watches

    with open_watches(settings().db) as store, opened(output_file) as out:
        if watch is None:
            _list(store, form, out)
            return DONE
        kept = store.watches()
        found = next((one for one in kept if one.id == watch), None) if watch != LAST else next(iter(kept[-1:]), None)
        if found is None:
            name = "last" if watch == LAST else watch
            raise BadInput(f"watch {name}: not in {store.path}; `configtron fingerprint contexts` lists them")
        if not found.contexts:
            click.echo(f"configtron: watch {found.id}: kept no context", err=True)
            return NOTHING
        SightingWriter(form, out).write(store.contexts(found))
        return DONE


def _list(store: Store, form: str, out: TextIO) -> None:
    rows = [(one.id, one.begun_at, one.source, _status(one), one.contexts) for one in store.watches()]
    write_list(SCHEMA, WATCHES, rows, form, out)


def _status(watch: LiveFingerprint) -> str:
    """As kept; of one that never said how it ended nobody knows whether it still looks."""
    return "unfinished" if watch.status == "running" else watch.status
