# SPDX-License-Identifier: MIT
"""Bins of variables: every bin's value lies in it, unknown stays unknown, odd tables are refused."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.initial.quantisation import TARGETS, UNKNOWN, BinMap, linear, table
from configtron.model.errors import BadInput


@pytest.mark.parametrize("one", TARGETS.values(), ids=TARGETS)
def test_the_inverse_map_is_one(one: BinMap) -> None:
    every = np.arange(len(one.values))
    assert 10 <= len(every) <= 30
    # the first bin is open below: its value is its upper edge, which belongs to the bin after it
    assert one.bins(one.of_bins(every))[1:].tolist() == every[1:].tolist()
    assert one.values[0] <= one.edges[0]


def test_values_fall_between_their_edges() -> None:
    bins = table("x", tuple(float(10 * n) for n in range(1, 10)))
    assert bins.bins(np.array([-5.0, 0.0, 9.9, 10.0, 89.0, 90.0, 1e300, np.nan])).tolist() == [
        0, 0, 0, 1, 8, 9, 9, UNKNOWN,
    ]  # fmt: skip


def test_linear_bins_have_one_width() -> None:
    bins = linear("x", 0.0, 100.0, 10)
    assert bins.values == tuple(5.0 + 10 * n for n in range(10))
    assert bins.bins(np.array([-1.0, 10.0, 99.0, 500.0])).tolist() == [0, 1, 9, 9]


def test_odd_maps_are_refused() -> None:
    for count in (9, 31):
        with pytest.raises(BadInput):
            linear("x", 0.0, 1.0, count)
    with pytest.raises(BadInput):
        linear("x", 1.0, 1.0, 10)
    with pytest.raises(BadInput):
        table("x", (1.0, 2.0))
    with pytest.raises(BadInput):
        table("x", (*map(float, range(1, 10)), 5.0))
    with pytest.raises(BadInput):
        table("x", (*map(float, range(1, 10)), float("inf")))
