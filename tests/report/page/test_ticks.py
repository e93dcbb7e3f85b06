# SPDX-License-Identifier: MIT
"""Axes say numbers that people count in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.report.page.ticks import MOST, log_ticks, ticks


@pytest.mark.parametrize(("low", "high", "words"), [
    (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (0.0, 0.358, ["0.0", "0.1", "0.2", "0.3"]),
    (-10.4, 21.4, ["-10", "0", "10", "20"]), (0.0, 0.12, ["0.00", "0.05", "0.10"]),
    (0.0, 39.6, ["0", "10", "20", "30"]), (0.0, 2.04, ["0.0", "0.5", "1.0", "1.5", "2.0"]),
    (0.0, 12.0, ["0", "5", "10"]), (100.0, 300.0, ["100", "150", "200", "250", "300"]),
])  # fmt: skip
def test_axes_say_round_numbers(low: float, high: float, words: list[str]) -> None:
    assert [word for _, word in ticks(low, high)] == words
    assert all(float(word) == pytest.approx(number) for number, word in ticks(low, high))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_there_are_few_and_their_words_differ(low: float, span: float) -> None:
    words = [word for _, word in ticks(low, low + span)]
    assert 2 <= len(words) <= MOST and len(set(words)) == len(words)


def test_logarithmic_axes_say_ones_twos_and_fives() -> None:
    assert [word for _, word in log_ticks(1.0, 7.0)] == ["1", "2", "5"]
    assert [word for _, word in log_ticks(0.8, 2e4)] == ["1", "10", "100", "1000", "10000"]
    assert [word for _, word in log_ticks(6.1, 9.3)] == ["7", "8", "9"]
