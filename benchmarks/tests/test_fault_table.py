# SPDX-License-Identifier: MIT
"""The table of faults: the page has what its command makes, and each row names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.fault_table import PAGE, TEST, Row, all_rows, page_with, rows_of, table, written
from configtron.model.errors import BadInput
from tests.support import ROOT


def test_the_page_has_the_table_of_the_rows() -> None:
    text = PAGE.read_text()
    assert text == page_with(text, table(all_rows())), "run: python -m benchmarks.fault_table --write"


def test_each_row_names_what_plants_it_once() -> None:
    rows = all_rows()
    assert len({(row.fault, row.by) for row in rows}) == len(rows)
    for row in rows:
        tests = TEST.findall(row.by)
        assert tests or row.by == "simulation" or row.by.startswith("`python -m "), row.by
        for file, name in tests:
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), row.by


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows, path = (
        [Row("a | b", "simulation", "end", "line", "1", "3"), Row("c", "simulation", "end", "")],
        tmp_path / "r",
    )
    path.write_text(written(rows))
    assert rows_of(path) == rows and "| a \\| b | simulation | end | `line` | 1 | 3 |" in table(rows)


@pytest.mark.parametrize("text", ['{"fault": "x"}', "[]", "x", '{"fault": "", "by": "b", "end": "e", "line": ""}',
                                  '{"fault": "f", "by": "b", "end": "e", "line": 1}'])  # fmt: skip
def test_a_row_that_is_none_is_refused_by_file_and_number(text: str, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(text + "\n")
    with pytest.raises(BadInput, match="r:1: "):
        rows_of(tmp_path / "r")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(BadInput, match="there is no"):
        page_with("# none", "")
