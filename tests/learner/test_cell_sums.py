# SPDX-License-Identifier: MIT
"""Sums of cells: by the formulae they stand for, and the same bits whichever cells are computed with them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from configtron.learner.cell_sums import LEVEL_PRECISION, CellSums, cell_sums, renewed

CELLS, CONFIGURATIONS, F = 150, 40, 5


def problem() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    features, root = rng.standard_normal((CONFIGURATIONS, F)), rng.standard_normal((F, F))
    weight = np.where(rng.random((CELLS, CONFIGURATIONS)) < 0.1, 20.0 * rng.random((CELLS, CONFIGURATIONS)), 0.0)
    weight[7] = 0.0
    return weight, rng.standard_normal((CELLS, CONFIGURATIONS)), features, 0.1 * root @ root.T + 0.01 * np.eye(F)


def test_sums_are_those_of_the_loads_own_covariance() -> None:
    """Loads of a cell, its level and its own effects integrated out: normal, of a covariance written out."""
    weight, mean_ln, features, of_cell = problem()
    sums = cell_sums(weight, mean_ln, features, of_cell)
    for cell in (0, 7, 149):
        some = weight[cell] > 0
        x, y = features[some], mean_ln[cell, some]
        level = np.full((len(y), len(y)), 1.0 / LEVEL_PRECISION)
        noise = np.diag(1.0 / weight[cell, some]) + level
        inside, outside = np.linalg.inv(noise), np.linalg.inv(noise + x @ of_cell @ x.T)
        own = np.linalg.inv(x.T @ inside @ x + np.linalg.inv(of_cell))
        assert np.allclose(sums.precision[cell], x.T @ outside @ x, atol=1e-6)
        assert np.allclose(sums.shift[cell], x.T @ outside @ y, atol=1e-6)
        assert np.allclose(sums.factor[cell] @ sums.factor[cell].T, own, atol=1e-6)
        assert np.allclose(sums.centre[cell], own @ x.T @ inside @ y, atol=1e-6)
        assert np.allclose(sums.carry[cell], np.linalg.inv(of_cell) @ own, atol=1e-6)
    assert not sums.precision[7].any() and not sums.shift[7].any()


@pytest.mark.parametrize("changed", [0, 1, 3, 64, 70, CELLS])
def test_cells_that_changed_are_computed_anew_and_to_the_bit(changed: int) -> None:
    weight, mean_ln, features, of_cell = problem()
    before = cell_sums(weight, mean_ln, features, of_cell)
    rows = np.random.default_rng(changed).choice(CELLS, changed, replace=False)
    after, moved = weight.copy(), mean_ln.copy()
    after[rows[::2]] *= 1.1
    moved[rows[1::2]] += 0.01
    found, anew = renewed(before, after, moved, features), cell_sums(after, moved, features, of_cell)
    for field in fields(CellSums):
        assert (getattr(found, field.name) == getattr(anew, field.name)).all(), field.name
