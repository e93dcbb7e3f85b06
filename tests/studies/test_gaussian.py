# SPDX-License-Identifier: MIT
"""The process knows its observations, doubts everything else, and climbs along a gradient that is one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from configtron.learner.columns import Floats
from configtron.studies.emulation.gaussian import Process, likelihood

CHANCE = np.random.default_rng(5)
POINTS = CHANCE.random((25, 3))


def wave(points: Floats) -> Floats:
    """The third coordinate does nothing."""
    return np.asarray(np.sin(3 * points[:, 0]) + 2 * points[:, 1] ** 2 + 10)


def test_the_gradient_is_the_likelihoods() -> None:
    values = wave(POINTS) - 10
    logs = np.array([-0.3, 0.2, 0.5, 0.4, -0.2, -3.0])
    _, slope = likelihood(POINTS, values, logs)
    for at in range(len(logs)):
        step = np.zeros(len(logs))
        step[at] = 1e-5
        above, below = (likelihood(POINTS, values, logs + sign * step)[0] for sign in (1, -1))
        assert slope[at] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-5)


def test_it_foretells_a_smooth_function() -> None:
    process, fresh = Process(POINTS, wave(POINTS)), CHANCE.random((200, 3))
    mean, deviation = process.at(fresh)
    off = mean - wave(fresh)
    assert np.abs(off).mean() < 0.1 * wave(fresh).std()
    assert np.mean(np.abs(off) <= 3 * deviation) > 0.9
    # the idle coordinate is seen to be idle
    assert process.logs[2] > max(process.logs[:2])


def test_it_distinguishes_noise_from_shape() -> None:
    points = CHANCE.random((60, 3))
    noisy = wave(points) + CHANCE.normal(0, 0.3, len(points))
    assert Process(points, noisy).noise == pytest.approx(0.3, rel=0.4)
    assert Process(points, wave(points)).noise < 0.05


def test_doubt_grows_with_distance_and_the_slope_goes_on() -> None:
    points = np.linspace(0.3, 0.7, 12)[:, None]
    process = Process(points, 5 * points[:, 0])
    mean, deviation = process.at(np.array([[0.5], [0.9]]))
    assert deviation[1] > 2 * deviation[0]
    # a process without slopes would be on its way back to the middle, 2.5
    assert mean[1] > 3.8


def test_what_it_believes_it_no_longer_doubts() -> None:
    process, there = Process(POINTS, wave(POINTS)), np.array([[0.05, 0.95, 0.5]])
    more = process.believing(there[0])
    assert more.at(there)[0][0] == pytest.approx(process.at(there)[0][0], abs=1e-2)
    assert more.at(there)[1][0] < 0.8 * process.at(there)[1][0]


def test_equal_points_and_equal_values_do_no_harm() -> None:
    process = Process(np.full((4, 2), 0.5), np.full(4, 3.0))
    mean, deviation = process.at(np.array([[0.5, 0.5], [0.0, 1.0]]))
    assert mean == pytest.approx([3, 3]) and all(map(math.isfinite, deviation))


def test_no_points_are_an_error() -> None:
    with pytest.raises(ValueError, match="without points"):
        Process(np.empty((0, 2)), np.empty(0))


def test_the_same_points_give_the_same_bits() -> None:
    first, second = (Process(POINTS, wave(POINTS)) for _ in range(2))
    assert first.logs.tobytes() == second.logs.tobytes()
    assert first.at(POINTS)[0].tobytes() == second.at(POINTS)[0].tobytes()
