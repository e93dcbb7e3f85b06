# SPDX-License-Identifier: MIT
"""Studies for people, and for programs: a text, JSON Lines, CSV (a file a table, or all of them one after another)."""

from __future__ import annotations

import csv
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from configtron.model.errors import BadInput
from configtron.model.records import Json, canonical
from configtron.model.wording import visible
from configtron.report.csv_columns import CLAIM_COLUMNS
from configtron.report.folding import table_lines, width_of
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Cell, Evaluated, Fact, Table

# What a line calls itself is in its field "schema"; raised when a field changes its meaning.
SCHEMA = "configtron.evaluated/1"
WORDS = {HOLDS: "holds", PARTLY: "in part", ABSENT: "NOT SO", UNKNOWN: "not measured"}
# Text is no wider, be the terminal what it is.
WIDTH = 110
# More rows fill a screen: the whole is in CSV and on the page.
MOST_ROWS = 30
# Without a terminal a title or claim is one line, as long as it is.
_ENDLESS = 1_000_000


def write_table(found: Sequence[Evaluated], out: TextIO) -> None:
    """For people: claims with both figures, then the tables."""
    screen = width_of(out)
    width = min(WIDTH, screen or WIDTH)
    for one in found:
        for line in textwrap.wrap(f"{one.title} ({one.paper})", screen or _ENDLESS):
            out.write(f"{line}\n")
        out.write("\n")
        for line in textwrap.wrap(one.missing and f"Not whole: {one.missing}", width):
            out.write(f"{line}\n")
        for fact in one.facts:
            out.writelines(f"{line}\n" for line in _fact(fact, width, screen or _ENDLESS))
        for table in one.tables:
            title = textwrap.wrap(table.title, screen or _ENDLESS)
            out.writelines(f"{line}\n" for line in ("", *title))
            out.writelines(f"{line}\n" for line in _table(table, screen))
        out.write("\n")


def _fact(fact: Fact, width: int, screen: int) -> Iterator[str]:
    for n, line in enumerate(textwrap.wrap(visible(fact.claim), max(screen - 15, 20))):
        yield f"  {'' if n else WORDS[fact.verdict]:<12} {line}"
    rows = (("paper", fact.paper), ("ours", fact.ours), ("why", fact.words))
    for name, text in rows:
        for n, line in enumerate(textwrap.wrap(visible(text), max(width - 22, 20))):
            yield f"{'':15}{name + ':' if n == 0 else '':<7}{line}"


def _table(table: Table, screen: int | None) -> Iterator[str]:
    rows = [[_short(cell) for cell in row] for row in table.rows[:MOST_ROWS]]
    numeric = [all(not isinstance(row[n], str) for row in table.rows) for n in range(len(table.columns))]
    for line in table_lines([list(table.columns), *rows], screen and screen - 2, right=numeric):
        yield f"  {line}".rstrip()
    if len(table.rows) > MOST_ROWS:
        yield f"  ... and {len(table.rows) - MOST_ROWS} more: -f csv, --html"


def _short(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else visible(str(cell))


def write_jsonl(found: Sequence[Evaluated], out: TextIO) -> None:
    """A line a study, then one a claim, one a table's row."""
    for one in found:
        ground: dict[str, Json] = dict(one.ground)
        about: dict[str, Json] = {"title": one.title, "paper": one.paper, "method": one.method, "differs": one.differs}
        _line(out, one, "study", {**about, "missing": one.missing, "ground": ground})
        for fact in one.facts:
            _line(out, one, "fact", dict(fact._asdict()))
        for table in one.tables:
            for row in table.rows:
                cells: dict[str, Json] = dict(zip(table.columns, map(_json, row), strict=True))
                _line(out, one, "row", {"table": table.name, "row": cells})


def _line(out: TextIO, one: Evaluated, kind: str, fields: dict[str, Json]) -> None:
    out.write(canonical({"schema": SCHEMA, "study": one.name, "kind": kind, **fields}) + "\n")


def _json(cell: Cell) -> Json:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def write_csv(found: Sequence[Evaluated], out: TextIO) -> None:
    """Tables one after another, an empty line between, each with its own header; the claims are a table too."""
    for n, (_, table) in enumerate(_tables(found)):
        out.write("\n" if n else "")
        _csv(table, out)


def write_folder(found: Sequence[Evaluated], folder: Path) -> list[Path]:
    """A file a table, STUDY-TABLE.csv. Errors: `BadInput` where it cannot be written."""
    written = []
    for study, table in _tables(found):
        path = folder / f"{study}-{table.name}.csv"
        try:
            with path.open("w", encoding="utf-8", newline="") as out:
                _csv(table, out)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        written.append(path)
    return written


def _tables(found: Sequence[Evaluated]) -> Iterator[tuple[str, Table]]:
    for one in found:
        yield one.name, Table("facts", one.title, CLAIM_COLUMNS, one.facts)
        yield from ((one.name, table) for table in one.tables)


def _csv(table: Table, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if _json(cell) is None else cell for cell in row] for row in table.rows])
