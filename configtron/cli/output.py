# SPDX-License-Identifier: MIT
"""Where results go: rows to a file or standard output, lines for people to standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.report.files import opened

if TYPE_CHECKING:
    from pathlib import Path

    from configtron.model.records import Json
    from configtron.report.job_display import BarDisplay, CountsOf, EventLines

    WriteRows = Callable[[Sequence[str], Iterable[Mapping[str, Json]]], None]

# Schemas of rows; a number is raised when a field changes its meaning.
TUNING, LEARNING, DOCTOR = "configtron.tuning/1", "configtron.learning/1", "configtron.doctor/1"


def warn(*texts: str) -> None:
    """Print lines to stderr; commands in them are for the database in use."""
    for text in texts:
        click.echo(hint(text), err=True)


def say(*texts: str) -> None:
    """Print lines to stderr, unless --quiet."""
    if settings().loudness >= 0:
        warn(*texts)


def event_lines(*, closing: bool = True) -> EventLines:
    """Return a callback that prints the events of a job as lines on stderr; closing: one at its end too."""
    from configtron.report.job_display import EventLines

    return EventLines(say, closing=closing)


def progress_bar(counts_of: CountsOf, status_file: Path | None, *, counted: bool = False) -> BarDisplay:
    """Return a callback that shows the events of a job as a bar on stderr. Errors: `BadInput` for the status file."""
    from configtron.report.job_display import BarDisplay

    quiet, color = settings().loudness < 0, settings().color
    return BarDisplay(counts_of, status_file, say=say, hint=hint, counted=counted, quiet=quiet, color=color)


@contextmanager
def rows_to(form: str, path: str, schema: str = TUNING) -> Iterator[WriteRows]:
    """Open the output before the work that its rows report; yield a function of columns and rows that writes them.

    Columns are those of table and CSV; JSON Lines have every field. A second table follows below an empty line; a CSV
    has one header. Errors: `BadInput`, `Unwritten`.
    """
    from configtron.report.rows import emit

    written = False
    with opened(path) as out:

        def write(columns: Sequence[str], rows: Iterable[Mapping[str, Json]]) -> None:
            nonlocal written
            out.write("\n" * (written and form == "table"))
            emit(form, columns, map(_hinted, rows), out, header=not written, schema=schema)
            written = True

        yield write


def write_rows(
    form: str, path: str, columns: Sequence[str], rows: Iterable[Mapping[str, Json]], schema: str = TUNING, *,
    none: str = "",
) -> None:  # fmt: skip
    """Write rows to a file, or to standard output for "-"; without rows, print the line `none` to stderr. Errors:
    `BadInput`, `Unwritten`."""
    rows = list(rows)
    with rows_to(form, path, schema) as write:
        write(columns, rows)
    if none and not rows:
        say(none)


def _hinted(row: Mapping[str, Json]) -> Mapping[str, Json]:
    about = row.get("about")
    return {**row, "about": hint(about)} if isinstance(about, str) else row
