# SPDX-License-Identifier: MIT
"""The rule of use: which window a quantile gives, and what a handshake over a full queue leaves of it."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.initial.half_quantile import (
    paced_round_trips,
    pacing_bytes_s,
    saved_round_trips,
    under_queue,
    windows_of_quantiles,
)


def test_half_of_the_quantile_where_that_is_more_than_the_stacks_own() -> None:
    assert windows_of_quantiles(np.array([4.0, 20.0, 22.0, 81.9, 900.0])).tolist() == [0, 0, 11, 40, 100]
    assert pacing_bytes_s(40, 100.0) == 579_200


@pytest.mark.parametrize(
    ("handshake_ms", "left"),
    [(50.0, 64), (100.0, 64), (156.25, 32), (225.0, 18), (400.0, 0)],
)
def test_a_window_shrinks_as_the_round_trip_grew_and_ends_at_the_stacks_own(handshake_ms: float, left: int) -> None:
    assert under_queue(64, 100.0, handshake_ms) == left


def test_nothing_saved_shrinks_nothing() -> None:
    assert under_queue(64, 0.0, 100.0) == under_queue(64, float("nan"), 100.0) == under_queue(64, 100.0, 0.0) == 64
    assert under_queue(0, 100.0, 400.0) == 0


def test_a_queue_is_what_lengthens_the_handshake_by_more_than_a_seventh() -> None:
    assert [paced_round_trips(100.0, trip) for trip in (40.0, 114.0, 116.0, 900.0)] == [1.0, 1.0, 2.0, 2.0]
    assert paced_round_trips(0.0, 900.0) == paced_round_trips(float("nan"), 900.0) == 1.0


def test_the_saved_round_trip_is_of_the_prefix_else_of_its_network() -> None:
    medians = {"10.1.2.0/24": 40.0, "10.1.0.0/16": 60.0}
    found = saved_round_trips(medians, ["10.1.2.0/24", "10.1.3.0/24", "10.2.0.0/24"])
    assert found[:2].tolist() == [40.0, 60.0] and np.isnan(found[2])
