# SPDX-License-Identifier: MIT
"""Halves of a class that want different configurations are distinguished from chance and from slower halves."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.columns import Codes, Floats
from configtron.learner.split_test import ClassDifference, difference, likeliest, values_of
from configtron.model.grid import live_grid

GRID = live_grid()
VALUES = values_of(GRID)
ROWS = 5
H1, H2 = (np.flatnonzero(GRID.column("http_version") == version) for version in (0, 1))


def loads(seed: int, *, n: int = 1200, wants: float = 0.0, slower: float = 0.0) -> tuple[Floats, Codes, Codes, Floats]:
    """Points, rows, configurations and ln(ms) of one class, as a searched cell has them: one configuration nine times
    of ten, any at all the tenth. Members farther along the second feature are `slower`, and like HTTP/2 by `wants`
    where the others dislike it. A pair of knobs acts together, which no sum of knobs says; loads have a heavy tail."""
    rng = np.random.default_rng(seed)
    row, far = rng.integers(ROWS, size=n), rng.random(n) < 0.4
    usual = np.array([GRID.default, 40, 80, 120, 7])[row]
    configuration = np.where(rng.random(n) < 0.1, rng.integers(len(GRID), size=n), usual)
    points = 0.1 * rng.standard_normal((n, 3))
    points[:, 1] += 0.8 * far
    h2, window = GRID.column("http_version")[configuration], GRID.column("initcwnd")[configuration]
    log_ms = 7.0 + 0.3 * row + slower * far + 0.3 * (h2 == 1) * (window > 2) + 0.05 * window
    log_ms += wants * (h2 == 1) * np.where(far, -1.0, 1.0)
    tail = np.where(rng.random(n) < 0.05, rng.exponential(0.5, n), 0.0)
    return points, row, configuration, log_ms + 0.12 * rng.standard_normal(n) + tail


def found(seed: int, **more: float) -> ClassDifference | None:
    points, row, configuration, log_ms = loads(seed, **more)  # type: ignore[arg-type]
    return likeliest(points, row, configuration, log_ms, VALUES, least=100, gain_ln=0.02)


def test_halves_that_want_different_configurations_are_found() -> None:
    """In nine of ten classes; in less than 14 of 20 in one of a thousand runs."""
    sure = 0
    for seed in range(20):
        one = found(seed, wants=0.5)
        if one is None or one.chance >= 1e-4:
            continue
        far = loads(seed, wants=0.5)[0][:, 1] > 0.4
        sure += 0.02 <= one.gain_ln < 0.5 and max((one.half == far).mean(), (one.half != far).mean()) > 0.99
    assert sure >= 14


@pytest.mark.slow
@pytest.mark.parametrize("slower", [0.0, 1.0])
def test_a_difference_is_not_invented(slower: float) -> None:
    """Being slower is none. Of 300 classes that want the same, five or so are below one in a hundred by chance."""
    chances = []
    for seed in range(300):
        points, row, configuration, log_ms = loads(seed, slower=slower)
        far = (points[:, 1] > 0.4).astype(np.int64)
        chances.append(difference(row, configuration, far, log_ms, VALUES, points)[0])
    assert np.mean(np.array(chances) < 0.05) < 0.10 and np.mean(np.array(chances) < 0.01) < 0.03
    assert min(chances) > 1e-4


def test_a_logger_that_chose_by_the_network_is_no_difference() -> None:
    """All want the same, and load slower the farther they are; HTTP/2 was had mostly by the far ones of each half."""
    chances = []
    for seed in range(60):
        points, row, configuration, log_ms = loads(seed)
        rng = np.random.default_rng((seed, 1))
        points = rng.uniform(-1.0, 1.0, points.shape)
        far = (points[:, 1] > 0.0).astype(np.int64)
        away = points[:, 1] + 0.5 - far
        h2 = rng.random(len(row)) < 0.5 + np.where(far, 0.8, -0.8) * away
        configuration = np.where(h2, rng.choice(H2, len(row)), rng.choice(H1, len(row)))
        log_ms = 7.0 + 0.1 * h2 + 0.6 * points[:, 1] + 0.15 * rng.standard_normal(len(row))
        chances.append(difference(row, configuration, far, log_ms, VALUES, points)[0])
    assert np.mean(np.array(chances) < 0.05) < 0.2 and min(chances) > 1e-4


def test_partings_that_were_tried_count() -> None:
    seen = 0
    for seed in range(20):
        points, row, configuration, log_ms = loads(seed, wants=0.5)
        thrice = points[:, [1, 1, 1]]
        one = likeliest(thrice, row, configuration, log_ms, VALUES, least=100, gain_ln=0.02)
        if one is None:
            continue
        chance, _ = difference(row, configuration, one.half, log_ms, VALUES, thrice)
        assert one.chance == pytest.approx(min(4 * chance, 1.0), rel=1e-6, abs=0.0)
        seen += 1
    assert seen


def test_the_likeliest_parting_is_taken_whichever_was_tried_last() -> None:
    points, row, configuration, log_ms = loads(3, wants=0.5)
    far = points[:, 1] > 0.4
    wide = points * np.array([1.0, 1.0, 30.0])
    one = likeliest(wide, row, configuration, log_ms, VALUES, least=100, gain_ln=0.0)
    assert one is not None and (one.half == far).all()


def test_what_gains_nothing_or_too_few_is_no_difference() -> None:
    points, row, configuration, log_ms = loads(3, wants=0.5)
    seen = (points, row, configuration, log_ms, VALUES)
    assert likeliest(*seen, least=100, gain_ln=2.0) is None
    assert likeliest(*seen, least=700, gain_ln=0.0) is None
    same = np.zeros_like(points)
    assert likeliest(same, row, configuration, log_ms, VALUES, least=1, gain_ln=0.0) is None
    one = np.full_like(configuration, GRID.default)
    halves = (points[:, 1] > 0.4).astype(np.int64)
    alone = difference(row, one, halves, log_ms, VALUES, points)
    assert alone == (1.0, 0.0), "one configuration alone says nothing of others"
