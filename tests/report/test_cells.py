# SPDX-License-Identifier: MIT
"""Cells as lines, rows and a table: everything that was measured, nothing more certain than it is."""

from __future__ import annotations

import csv
import io
import json

from configtron.model.repeats import Verdict
from configtron.model.samples import Kept
from configtron.report.cells import write_csv, write_jsonl, write_table

SETTINGS = (("http_version", "h2"), ("initcwnd", 10))
CELLS = [
    Kept("a", 0, SETTINGS, "news", Verdict(100.0, 95.0, 104.0, 6, ""), (("initcwnd", "10"),), "ff", (100.0,) * 6),
    Kept("a", 1, SETTINGS, "news", Verdict(300.0, 50.0, None, 24, "wide-interval"), (), "fe", (300.0, None)),
    Kept("b", 0, SETTINGS, "news", Verdict(None, None, None, 0, "stack-not-as-asked"), (), "fd", ()),
    Kept("b", 1, SETTINGS, "news", Verdict(400.0, None, None, 1, "few-loads"), (), "fc", (400.0,)),
]


def test_a_line_says_all_of_a_cell() -> None:
    out = io.StringIO()
    write_jsonl(CELLS, out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert rows[0] == {
        "schema": "configtron.cell/1", "condition": "a", "configuration": 0, "site": "news", "median_ms": 100.0,
        "low_ms": 95.0, "high_ms": 104.0, "loads": 6, "flag": "", "settings": {"http_version": "h2", "initcwnd": 10},
        "read_back": {"initcwnd": "10"}, "provenance": "ff", "plt_ms": [100.0] * 6,
    }  # fmt: skip
    assert rows[1]["plt_ms"] == [300.0, None] and rows[1]["high_ms"] is None
    assert (rows[2]["median_ms"], rows[2]["flag"]) == (None, "stack-not-as-asked")


def test_a_row_of_csv_has_the_same() -> None:
    out = io.StringIO()
    write_csv(CELLS, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert len(rows) == 4 and rows[1]["flag"] == "wide-interval" and rows[1]["high_ms"] == ""
    assert json.loads(rows[0]["settings"]) == {"http_version": "h2", "initcwnd": 10}


def test_the_table_counts_what_is_known() -> None:
    out = io.StringIO()
    write_table(CELLS, out)
    text = out.getvalue()
    first, second = (line.split() for line in text.splitlines()[1:3])
    assert first == ["a", "2", "1", "30", "0.20", "1", "wide-interval"]
    assert second == ["b", "2", "0", "1", "0.40", "1", "stack-not-as-asked,", "1", "few-loads"]
