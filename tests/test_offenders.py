# SPDX-License-Identifier: MIT
"""A rule that is tried on every row reports each row that breaks it, and nothing else."""

from __future__ import annotations

import pytest

from tests.support.rules import offenders


def is_even(number: int) -> None:
    assert number % 2 == 0, f"{number} is odd"


def test_each_offender_is_listed_with_its_reason() -> None:
    found = offenders(is_even, [1, 2, 3], lambda number: f"row {number}")
    assert list(found) == ["row 1", "row 3"] and "3 is odd" in found["row 3"]
    assert offenders(is_even, [2, 4]) == {}


def test_a_rule_without_rows_and_an_error_are_no_success() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        offenders(is_even, [])
    with pytest.raises(TypeError):
        offenders(is_even, ["a"])  # type: ignore[list-item]
