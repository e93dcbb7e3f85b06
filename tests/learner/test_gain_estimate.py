# SPDX-License-Identifier: MIT
"""The estimator of gains against packets that are counted one round trip after another."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.learner.initial.gain_estimate import round_trips, speed_up


def counted(packets: int, first: int, most: int) -> int:
    window, sent, trips = min(first, most), 0, 0
    while sent < packets:
        sent, trips, window = sent + window, trips + 1, min(2 * window, most)
    return trips


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 200), st.integers(1, 2000))
def test_round_trips_are_those_that_are_counted(packets: int, first: int, most: int) -> None:
    found = round_trips(*(np.array([float(one)]) for one in (packets, first, most)))
    assert found[0] == counted(packets, first, most)


def test_a_larger_first_window_saves_round_trips() -> None:
    """150 packets from 10: 10 + 20 + 40 + 80; from 50 with at most 100: 50 + 100."""
    packets, null = np.array([150.0, 8.0, np.nan]), np.full(3, 10.0)
    gain = speed_up(packets, null, np.full(3, 50.0), np.full(3, 100.0))
    assert gain[:2].tolist() == [2.0, 1.0] and np.isnan(gain[2])


def test_a_window_beyond_the_paths_costs_its_penalty() -> None:
    one = np.array([150.0])
    assert speed_up(one, np.array([10.0]), np.array([50.0]), np.array([40.0]), penalty=5.0)[0] == 5 / 9
    assert speed_up(one, np.array([10.0]), np.array([40.0]), np.array([40.0]), penalty=5.0)[0] == 5 / 4
