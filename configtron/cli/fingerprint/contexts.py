# SPDX-License-Identifier: MIT
"""`configtron fingerprint contexts`."""

from __future__ import annotations

from functools import partial

import click

from configtron.cli.options import form_options
from configtron.cli.probe.names import run_number
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING


@click.command(short_help="Show the contexts that a watch stored; without WATCH, list the watches.")
@click.argument("watch", required=False, callback=partial(run_number, what="watch"))
@form_options
def contexts(watch: int | None, form: str, output_file: str) -> int:
    """Show the contexts that `fingerprint live` or `socket` stored.

    WATCH is a number, or last; without it, the watches are listed. Exit code 4: that watch stored nothing.
    """
    from configtron.report.contexts import SightingWriter
    from configtron.report.files import opened
    from configtron.report.rows import emit
    from configtron.service import capture

    with capture.open_watches(settings().db) as store, opened(output_file) as out:
        if watch is None:
            rows = capture.watch_rows(store)
            emit(form, capture.WATCHES_COLUMNS, rows, out, schema=capture.WATCHES_SCHEMA, whole=True)
            return DONE
        found = capture.find_watch(store, watch)
        if not found.contexts:
            click.echo(f"configtron: watch {found.id}: stored no context", err=True)
            return NOTHING
        SightingWriter(form, out).write(store.contexts(found))
        return DONE
