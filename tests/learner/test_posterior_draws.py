# SPDX-License-Identifier: MIT
"""What draws may choose, against the same written out row by row and draw by draw."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from configtron.learner.ledger import MOST_EXCESS_LN, PLAN_ERRORS, part_cost
from configtron.learner.posterior_draws import ROWS_AT_ONCE, DrawLimits, excess_at_full_width

ROWS, DRAWS, CANDIDATES, UNGUARDED, DEFAULT = ROWS_AT_ONCE + 7, 6, 5, 2, 1
BOLDNESS, GUARD_LN, SIGMAS = 0.3, 0.05, 1.0


def problem(bounded: bool) -> tuple[np.ndarray, np.ndarray, DrawLimits]:
    rng = np.random.default_rng(8)
    mean = 0.1 * rng.standard_normal((ROWS, CANDIDATES))
    drawn = mean[:, None] + 0.03 * rng.standard_normal((ROWS, DRAWS, CANDIDATES))
    out, may = rng.random((ROWS, CANDIDATES)) < 0.2, rng.random((ROWS, CANDIDATES)) < 0.5
    out[:, DEFAULT], may[:, 0] = False, True
    unloaded = np.array([False, False, True, False, False])
    return drawn, mean, DrawLimits(out, unloaded, may if bounded else None, GUARD_LN, SIGMAS, BOLDNESS, DEFAULT)


def best(values: np.ndarray, barred: np.ndarray, may: np.ndarray | None, mean: np.ndarray) -> int:
    open_ = np.where(barred, np.inf, values)
    if may is not None:
        open_ = np.where(may, open_, np.inf)
        open_ = np.where(may, mean, np.inf) if np.isinf(open_).all() else open_
    return DEFAULT if np.isinf(open_).all() else int(open_.argmin())


@pytest.mark.parametrize("bounded", [False, True])
def test_each_draw_takes_its_fastest_that_passes(bounded: bool) -> None:
    drawn, mean, limits = problem(bounded)
    guarded, free = limits.guarded(drawn, mean, UNGUARDED), limits.free(drawn[:, :UNGUARDED], mean)
    for row in range(ROWS):
        may = None if limits.may is None else limits.may[row]
        deviation = (drawn[row] - drawn[row, :, [DEFAULT]].T).std(axis=0) / BOLDNESS
        risky = mean[row] - mean[row, DEFAULT] + SIGMAS * deviation > GUARD_LN
        risky[DEFAULT] = False
        barred = limits.out[row] | limits.unloaded | risky
        assert guarded[row].tolist() == [best(one, barred, may, mean[row]) for one in drawn[row, UNGUARDED:]]
        assert free[row].tolist() == [best(one, limits.out[row], may, mean[row]) for one in drawn[row, :UNGUARDED]]
    assert len(np.unique(guarded)) > 2 and (guarded != DEFAULT).any()


def test_near_draws_choose_among_the_near_ones() -> None:
    drawn, mean, limits = problem(bounded=False)
    near = np.array([True, True, False, False, False])
    found = limits.free(drawn, mean, near)
    assert set(np.unique(found)) == {0, 1}
    some = ~limits.out[:, 0]
    assert (found[some] == drawn[some][:, :, :2].argmin(axis=2)).all()


def test_the_cost_of_a_part_counts_every_pick() -> None:
    drawn, mean, limits = problem(bounded=False)
    picks, weight = limits.guarded(drawn, mean, UNGUARDED), np.random.default_rng(1).random(ROWS)
    excess = partial(excess_at_full_width, drawn, mean, BOLDNESS, DEFAULT)
    found, rows = np.zeros(DRAWS), np.arange(ROWS)
    for column in picks.T:
        usual = mean[rows, column] - mean[rows, DEFAULT]
        over = (drawn[rows, :, column] - drawn[:, :, DEFAULT] - usual[:, None]) / BOLDNESS + usual[:, None]
        over += np.where(column == DEFAULT, 0.0, 0.02)[:, None]
        found += np.expm1(np.clip(over, -MOST_EXCESS_LN, MOST_EXCESS_LN)).T @ weight / picks.shape[1]
    assert part_cost(picks, weight, excess, 0.02) == pytest.approx(found.mean() + PLAN_ERRORS * found.std(), rel=1e-9)
