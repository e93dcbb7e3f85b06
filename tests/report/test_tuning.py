# SPDX-License-Identifier: MIT
"""Rows as table, JSON Lines and CSV."""

from __future__ import annotations

import io
import json

from configtron.report.tuning import WIDEST, aligned, write_rows

ROWS = [{"a": "x" * 100, "b": None, "c": "do this: " + "y" * 100}, {"a": 1, "b": {"k": [1, "v"]}, "d": "more"}]


def written(form: str, *, header: bool = True) -> str:
    out = io.StringIO()
    write_rows(form, ("a", "b", "c"), ROWS, out, header=header)
    return out.getvalue()


def test_a_table_cuts_all_but_the_last_column() -> None:
    head, first, second = aligned(("a", "b", "c"), ROWS)
    assert head.split() == ["a", "b", "c"] and first.endswith("y" * 100)
    assert first.startswith("x" * (WIDEST - 3) + "...  ")
    assert second.split(maxsplit=1) == ["1", "k 1, v"]
    assert aligned(("a",), []) == [] and written("table").count("\n") == 3


def test_a_table_has_the_operators_words_and_no_empty_column() -> None:
    rows = [{"act": 1, "held": 0, "keeper": "9 8", "about": None, "dropped": []}, {"act": 2, "arms": {"a": 0.5}}]
    columns = ("act", "held", "keeper", "about", "dropped", "arms")
    assert aligned(columns, rows)[0].split() == ["transaction", "control_group", "watchdog", "arms"]
    assert aligned(columns, rows, schema="configtron.learning/1")[0].split()[-1] == "chosen_by"


def test_strangers_move_no_cursor() -> None:
    assert aligned(("a",), [{"a": "\x1b[2J\n"}])[1] == "\\u001b[2J\\u000a"


def test_json_lines_have_every_field_and_a_schema() -> None:
    first, second = map(json.loads, written("jsonl").splitlines())
    assert second == {"a": 1, "b": {"k": [1, "v"]}, "d": "more", "schema": "configtron.tuning/1"} and first["b"] is None


def test_csv_with_and_without_its_header() -> None:
    assert written("csv").splitlines()[0] == "a,b,c"
    assert written("csv", header=False).splitlines()[1] == '1,"{""k"":[1,""v""]}",'
