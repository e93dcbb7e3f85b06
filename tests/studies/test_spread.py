# SPDX-License-Identifier: MIT
"""Means, intervals, ellipses, indices and rankings with answers known by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.studies.flows.spread import CORNERS, agreement, ellipse, jain, margin, mean, ranks

SHARES = st.lists(st.floats(0.001, 1000), min_size=1, max_size=12)


def test_jains_index_by_hand() -> None:
    assert jain([2.0] * 6) == 1.0
    assert jain([5.0, 0.0, 0.0, 0.0]) == 0.25
    # five equal and one with twice as much: 49 of 54
    assert jain([1, 1, 1, 1, 1, 2]) == pytest.approx(49 / 54)
    assert jain([0.0, 0.0]) is None


@given(SHARES, st.floats(0.01, 100))
def test_jains_index_lies_between_one_share_and_all_and_has_no_unit(shares: list[float], factor: float) -> None:
    index = jain(shares)
    assert index is not None and 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert jain([share * factor for share in shares]) == pytest.approx(index)


def test_an_interval_by_hand() -> None:
    # standard deviation 1, four degrees of freedom short of five: t is 2.776
    values = [8.0, 10.0, 10.0, 10.0, 12.0]
    assert mean(values) == 10.0 and margin(values) == pytest.approx(2.776 * 2**0.5 / 5**0.5, rel=1e-3)
    assert margin([3.0]) is None and mean([]) is None
    assert mean([1.0, math.nan, 3.0]) == 2.0 and margin([1.0, math.nan]) is None
    assert margin([5.0] * 3) == 0.0


@pytest.mark.parametrize(("free", "factor"), [(1, 12.706), (10, 2.228), (11, 2.201), (15, 2.131), (29, 2.045)])
def test_an_interval_narrows_with_the_degrees_of_freedom(free: int, factor: float) -> None:
    # Student's table; these values' standard deviation is 1
    values = [math.sqrt(free / 2), -math.sqrt(free / 2), *[0.0] * (free - 1)]
    assert margin(values) == pytest.approx(factor / math.sqrt(free + 1), rel=0.005)


def test_an_ellipse_reaches_one_deviation_along_each_axis() -> None:
    points = [(10 + 3 * x, 5 + 0.5 * y) for x in (-1, 1) for y in (-1, 1)]
    corners = ellipse(points)
    # the deviation of four such points is sqrt(4/3) of their distance
    assert len(corners) == CORNERS
    assert max(x for x, _ in corners) == pytest.approx(10 + 3 * (4 / 3) ** 0.5, rel=1e-6)
    assert min(y for _, y in corners) == pytest.approx(5 - 0.5 * (4 / 3) ** 0.5, rel=1e-6)
    assert ellipse([(1.0, 2.0)]) == []
    assert {(round(x, 9), round(y, 9)) for x, y in ellipse([(1.0, 2.0)] * 3)} == {(1.0, 2.0)}


@pytest.mark.parametrize("slope", [2.0, -2.0, 0.5, -0.5, 7.0, -7.0])
def test_an_ellipse_leans_with_its_points(slope: float) -> None:
    corners = ellipse([(float(n), slope * n) for n in range(5)])
    assert all(y == pytest.approx(slope * x, abs=1e-5) for x, y in corners)


def test_rankings() -> None:
    assert ranks([3.0, 9.0, 3.0, 1.0]) == [2.5, 1.0, 2.5, 4.0]
    assert agreement([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert agreement([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert agreement([1, 1, 1], [1, 2, 3]) is None
