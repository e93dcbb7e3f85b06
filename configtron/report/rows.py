# SPDX-License-Identifier: MIT
"""Rows in the form that was asked for: JSON Lines or CSV for programs, a table for people.

All rows pass `emit`, but for those of captured connections (`connection_rows.py`, `connection_json.py`), which are
written by column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from configtron.model.records import Json, canonical
from configtron.model.wording import visible
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


def emit(
    form: str, columns: Sequence[str], rows: Iterable[Row | Sequence[Json]], out: TextIO, *, schema: str = SCHEMA,
    header: bool = True, whole: bool = False,
) -> None:  # fmt: skip
    """Write rows in a form: "jsonl", "csv" or a table.

    columns   those of the table and the CSV; a JSON line has every field of a row
    rows      objects, or cells in the order of the columns
    schema    what a JSON line calls itself; it chooses the heads of a table
    header    whether a CSV begins with one
    whole     a table keeps empty columns, and no cell is cut
    """
    objects = (row if isinstance(row, Mapping) else dict(zip(columns, row, strict=True)) for row in rows)
    if form == "jsonl":
        out.writelines(canonical({"schema": schema, **row}) + "\n" for row in objects)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        if header:
            writer.writerow(columns)
        cells = ([row.get(column) for column in columns] if isinstance(row, Mapping) else row for row in rows)
        writer.writerows([one if isinstance(one, str) else _cell(one) for one in row] for row in cells)
    else:
        lines = aligned(columns, objects, width_of(out), schema, whole=whole)
        out.writelines(f"{line}\n" for line in lines)


def aligned(
    columns: Sequence[str], rows: Iterable[Row], width: int | None = None, schema: str = SCHEMA, *, whole: bool = False
) -> list[str]:
    """A table's lines, folded to a terminal's `width`, without columns that are empty; none if there are no rows."""
    cells = [[visible(_words(row.get(column))) for column in columns] for row in rows]
    if whole:
        return table_lines([columns, *cells], width)
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
