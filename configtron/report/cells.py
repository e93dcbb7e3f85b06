# SPDX-License-Identifier: MIT
"""Cells of the PLT-tensor for people and programs: a table a condition, JSON lines or CSV a cell.

No median is shown as known that is not: a cell says its interval, and its flag where that is too wide or missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from statistics import median
from typing import TextIO

from configtron.model.records import Json, pairs_form
from configtron.model.samples import Kept
from configtron.report.csv_columns import CELL_COLUMNS
from configtron.report.folding import table_lines, width_of
from configtron.report.rows import emit

SCHEMA = "configtron.cell/1"
# Flags of one condition that are named; the rest are in the lines.
MOST_FLAGS = 3


def write_cells(form: str, cells: Iterable[Kept], out: TextIO) -> None:
    """Write cells in that form: jsonl, csv or a table, a row a condition: cells, medians that are known, loads, and
    what is wrong with the rest."""
    if form != "table":
        emit(form, CELL_COLUMNS, map(_object, cells), out, schema=SCHEMA)
        return
    head = ("condition", "cells", "known", "loads", "median of medians, s", "not known")
    rows = [(condition, *_row(list(group))) for condition, group in groupby(cells, key=lambda cell: cell.condition)]
    right = [name not in ("condition", "not known") for name in head]
    out.writelines(f"{line}\n" for line in table_lines([head, *rows], width_of(out), right=right))


def _object(cell: Kept) -> dict[str, Json]:
    verdict = cell.verdict
    return {
        "condition": cell.condition, "configuration": cell.configuration, "settings": pairs_form(cell.settings),
        "site": cell.site, "median_ms": verdict.median_ms, "low_ms": verdict.low_ms, "high_ms": verdict.high_ms,
        "loads": verdict.loads, "flag": verdict.flag, "plt_ms": list(cell.plt_ms), "read_back": dict(cell.read_back),
        "provenance": cell.provenance,
    }  # fmt: skip


def _row(cells: list[Kept]) -> Iterator[str]:
    medians = [cell.verdict.median_ms for cell in cells if cell.verdict.median_ms is not None]
    flags = Counter(cell.verdict.flag for cell in cells if cell.verdict.flag).most_common()
    yield str(len(cells))
    yield str(sum(cell.verdict.settled for cell in cells))
    yield str(sum(cell.verdict.loads for cell in cells))
    yield f"{median(medians) / 1e3:.2f}" if medians else ""
    more = ", ..." if len(flags) > MOST_FLAGS else ""
    yield ", ".join(f"{count} {flag}" for flag, count in flags[:MOST_FLAGS]) + more
