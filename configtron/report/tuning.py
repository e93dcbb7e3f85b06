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
# Heads of tables whose key is a word of the model: (schema, key) -> the operator's word.
LABELS = {
    (SCHEMA, "act"): "transaction",
    (SCHEMA, "place"): "where",
    (SCHEMA, "held"): "control_group",
    (SCHEMA, "keeper"): "watchdog",
    ("configtron.learning/1", "held"): "map",
    ("configtron.learning/1", "arm"): "chosen_by",
    ("configtron.learning/1", "arms"): "chosen_by",
}

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
        out.writelines(f"{line}\n" for line in aligned(columns, rows, width_of(out), schema))


def aligned(columns: Sequence[str], rows: Iterable[Row], width: int | None = None, schema: str = SCHEMA) -> list[str]:
    """A table's lines, folded to a terminal's `width`, without columns that are empty; none if there are no rows."""
    cells = [[visible(_words(row.get(column))) for column in columns] for row in rows]
    if not cells:
        return []
    if width is None:
        cells = [[*map(_short, row[:-1]), row[-1]] for row in cells]
    lines = [[LABELS.get((schema, column), column) for column in columns], *cells]
    filled = [n for n in range(len(columns)) if any(row[n] for row in cells)]
    return table_lines([[line[n] for n in filled] for line in lines], width)


def _words(value: Json) -> str:
    """Return a cell of a table: a list as its items, an object as its keys with their values."""
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(one)}" for key, one in value.items())
    return _cell(value)


def _cell(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical(value)


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
