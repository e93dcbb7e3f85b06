# SPDX-License-Identifier: MIT
"""The list of slow tests: made from measured seconds, and of tests that exist."""

from __future__ import annotations

import re

from rigs import ROOT
from tests.support.slow_tests import LIST, MOST_S, measured, slow_tests


def test_a_function_counts_with_all_its_parameters() -> None:
    lines = [f"{MOST_S * 0.6:.3f} a.py::test_one[x-1]", f"{MOST_S * 0.6:.3f} a.py::test_one[2]", "0.010 a.py::test_two"]
    assert measured(lines) == ["a.py::test_one"]


def test_the_list_is_of_tests_that_exist() -> None:
    names = slow_tests(LIST.read_text())
    assert len(names) > 50
    stale = []
    for name in names:
        path, _, function = name.partition("::")
        file = ROOT / path
        if not file.exists() or not re.search(rf"^def {function}\(", file.read_text(), re.M):
            stale.append(name)
    assert sorted(stale) == [], "make tests/slow.txt anew, or rename there too: a test of another name is not left out"


def test_the_repositorys_rules_are_always_checked() -> None:
    assert measured([f"{MOST_S * 2:.3f} tests/test_words.py::test_one"]) == []
