# SPDX-License-Identifier: MIT
"""Rows of `configtron tune`: a table for people, JSON Lines or CSV for programs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from configtron.model.records import Json, canonical
from configtron.report.files import visible
from configtron.report.folding import table_lines, width_of

# What a row calls itself is in its field "schema"; raised when a field changes its meaning.
SCHEMA = "configtron.tuning/1"
# Cells of a table that is not folded are cut there, but for those of the last column, which says what to do.
WIDEST = 60

Row = Mapping[str, Json]


def write_rows(
    form: str, columns: Sequence[str], rows: Iterable[Row], out: TextIO, *, header: bool = True, schema: str = SCHEMA
) -> None:
    """Rows in the form asked for; `columns` are those of the table and the CSV, a JSON line has every field."""
    if form == "jsonl":
        out.writelines(canonical({"schema": schema, **row}) + "\n" for row in rows)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        if header:
            writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    else:
        out.writelines(f"{line}\n" for line in aligned(columns, rows, width_of(out)))


def aligned(columns: Sequence[str], rows: Iterable[Row], width: int | None = None) -> list[str]:
    """A table's lines, folded to a terminal's `width`; none if there are no rows."""
    cells = [[visible(_cell(row.get(column))) for column in columns] for row in rows]
    if not cells:
        return []
    if width is None:
        cells = [[*map(_short, row[:-1]), row[-1]] for row in cells]
    return table_lines([list(columns), *cells], width)


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical(value)


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
