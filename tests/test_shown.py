# SPDX-License-Identifier: MIT
"""What the comparison of documents with outputs takes for the same, and what it does not."""

from __future__ import annotations

import pytest

from tests.support.shown import differences

SHOWN = (
    "policy     span         sessions  median                  s",
    "───────────────────────────────────────────────────────────",
    "squarecb   last half    5000      0.164 [0.1571, 0.1713]  2.10",
    "2 profiles and 595 prefixes by http/1.1",
)


def changed(old: str, new: str) -> list[str]:
    return [line.replace(old, new) for line in SHOWN]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("squarecb", "thompson"),  # a word
        ("5000", "5001"),  # a count
        ("2 profiles", "3 profiles"),
        ("0.164 ", "0.19 "),  # a figure beyond a tenth
        ("2.10", "4.3"),
        ("[0.1571, 0.1713]", "[0.1714, 0.18]"),  # intervals that do not overlap
        ("[0.1571, 0.1713]", "0.16"),
        ("http/1.1", "http/1.0"),  # a number in a word is a word
        ("policy", ""),
    ],
)
def test_a_difference_is_two_lines(old: str, new: str) -> None:
    left, right = differences(SHOWN, changed(old, new), rtol=0.1)
    assert left.startswith("- ") and right.startswith("+ ") and old in left and new in right


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.164 ", "0.175 "),
        ("2.10", "2"),
        ("[0.1571, 0.1713]", "[0.17, 0.21]"),
        ("    ", "  "),  # a narrower column
        ("───", "─"),
    ],
)
def test_figures_within_their_interval_are_alike(old: str, new: str) -> None:
    assert differences(SHOWN, changed(old, new), rtol=0.1) == []
    assert differences(SHOWN, changed(old, new)) != []


def test_counts_differ_only_where_the_block_says_so() -> None:
    assert differences(SHOWN, changed("595", "640"), rtol=0.1) != []
    assert differences(SHOWN, changed("595", "640"), rtol=0.1, counts=0.1) == []
    assert differences(SHOWN, changed("595", "700"), rtol=0.1, counts=0.1) != []


def test_a_line_that_is_missing_or_too_much_is_seen() -> None:
    assert differences(SHOWN, SHOWN[:-1], rtol=0.1) == [f"- {SHOWN[-1]}"]
    assert differences(SHOWN, [*SHOWN, "killed"], rtol=0.1) == ["+ killed"]
