# SPDX-License-Identifier: MIT
"""Which rule explains windows at several segment sizes."""

from __future__ import annotations

import pytest

from configtron.fingerprint.icw_formula import across
from configtron.model.nouns import Observation


def icw(mss: int, value: int, grade: str = "C") -> Observation:
    return Observation("icw", value, None, "segments", "", grade, details=(("mss", mss),))


@pytest.mark.parametrize(
    ("windows", "rule"),
    [
        ({64: 10, 536: 10, 1460: 10}, "segments"),
        ({64: 24, 1460: 24}, "segments"),
        ({64: 4, 536: 4, 1460: 3}, "rfc3390"),
        ({536: 10, 1460: 10, 8960: 2}, "rfc6928"),
        ({64: 229, 536: 28, 1460: 10}, "bytes"),
        ({64: 228, 536: 27, 1460: 10}, "bytes"),
        ({64: 2, 536: 10, 1460: 30}, "none"),
    ],
)
def test_the_rule_is_named(windows: dict[int, int], rule: str) -> None:
    verdict = across({"icw": [icw(mss, n) for mss, n in windows.items()]})
    assert verdict is not None and verdict.value == rule
    assert verdict.grade == ("A" if len(windows) == 3 else "B")


def test_one_size_and_bounds_ask_no_question() -> None:
    assert across({"icw": [icw(536, 10), icw(536, 10)]}) is None
    assert across({"icw": [icw(536, 10), icw(64, 10, "L")]}) is None
    assert across({}) is None
