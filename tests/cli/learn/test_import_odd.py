# SPDX-License-Identifier: MIT
"""`learn import` of odd files: each bad page, number, field or date costs itself, in one line that names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.model.errors import PARTIAL, USAGE
from tests.cli.learn.test_import_logs import view
from tests.support.learn_command import Typed, typed

__all__ = ["typed"]


@pytest.mark.slow
def test_a_bad_page_of_an_archive_costs_itself(typed: Typed, tmp_path: Path) -> None:
    good = {"id": "p", "startedDateTime": "2023-11-14T22:13:20Z", "pageTimings": {"onLoad": 500}}
    undated = [{**good, "startedDateTime": 5}, 7, {**good, "startedDateTime": "soon"}]
    pages = [good, *undated, {"pageTimings": {"onLoad": 9}}]
    (tmp_path / "har").write_text(json.dumps({"log": {"pages": pages, "entries": [7]}}))
    code, _, err = typed("learn", "import", "har")
    assert code == PARTIAL and "1 outcome" in err
    for says in ("har, page 2: ", "har, page 3: ", "har, page 4: 'soon' is no date", "4 of 5 pages are bad"):
        assert says in err
    assert "Error" not in err


@pytest.mark.parametrize("text", ['{"log": {"pages": [', '{"log": {}}', '{"log": 7}', '{"log": {"pages": {"a": 1}}}'])
def test_what_is_no_archive_says_which_file_and_why(typed: Typed, tmp_path: Path, text: str) -> None:
    (tmp_path / "har").write_text(text)
    code, _, err = typed("learn", "import", "har")
    printed = err.splitlines()[-1]
    assert code == USAGE and "har: no HTTP archive" in printed and "export it anew" in printed
    assert "Error" not in printed


@pytest.mark.parametrize("text", [
    '{"t_done": 1e400, "u": "https://site.example/"}',
    '{"name": "LCP", "value": Infinity, "id": "1", "navigationType": "navigate"}',
    '{"schema": "configtron.context/1", "prefix": "192.0.2.0/24"}',
])  # fmt: skip
def test_a_number_without_end_or_a_field_that_lacks_is_one_line(typed: Typed, tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text + "\n")
    code, _, err = typed("learn", "import", "log")
    printed = err.splitlines()[-1]
    assert code == USAGE and "log, line 1: " in printed and "Error" not in printed


def test_a_date_beyond_the_stores_years_costs_its_view(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(view(1_700_000_000.0, 0.5) + view(99_999_999_999.0, 0.5))
    code, _, err = typed("learn", "import", "log")
    assert code == PARTIAL and "not from 1970 to 2262" in err and "1 outcome" in err
