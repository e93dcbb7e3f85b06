# SPDX-License-Identifier: MIT
"""The gains that `benchmarks.tensors` prints, on tensors whose gains are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.tensors import content_line, gains, groups_of
from configtron.model.grid import Grid
from configtron.model.knobs import KNOBS
from configtron.model.tensor import Tensor

WINDOW = KNOBS["initcwnd"]
# Three configurations: Default, and the windows of 4 and 30.
GRID = Grid(
    (replace(WINDOW, values=(10, 4, 30)),),
    ((0,), (1,), (2,)),
)


def tensor(ms: list[list[list[float]]], loads: int = 2) -> Tensor:
    """A tensor of (conditions, 3 configurations, sites), each load equal to the median."""
    median = np.array(ms, dtype=np.float32)
    conditions = len(median)
    names = tuple(f"n{at}" for at in range(conditions))
    column = np.arange(1.0, conditions + 1)
    sites = tuple("abcd"[: median.shape[2]])
    return Tensor(GRID, sites, names, 1000 * column, 10 * column, 0 * column, median, "lab",
                  (("looks", str(loads)), ("virtual_s", "7200")),
                  np.repeat(median[..., None], loads, axis=3))  # fmt: skip


# Window 4 halves the time in condition 0, window 30 in condition 1; site b of condition 0 wants 30.
UNLIKE: list[list[list[float]]] = [[[100, 100], [50, 200], [100, 50]], [[100, 100], [100, 100], [50, 50]]]


def test_a_finer_choice_gains_what_there_is_to_gain() -> None:
    found = gains(tensor(UNLIKE), np.array([0, 1]))
    # one for all: window 30 gains half in three cells of four
    assert found["static"].same == pytest.approx(1 - 0.5**0.75)
    assert found["per class"].same == pytest.approx(1 - 0.5**0.75)
    assert found["per class and site"].same == found["per condition and site"].same == pytest.approx(0.5)
    assert all(one.same == pytest.approx(one.other) for one in found.values())


def test_luck_is_a_gain_only_to_those_who_judge_by_the_loads_that_chose() -> None:
    """Loads of one distribution under all configurations: nothing is there to gain."""
    rng = np.random.default_rng(5)
    loads = rng.lognormal(5, 0.5, (200, 3, 2, 2)).astype(np.float32)
    plain = tensor(np.ones((200, 3, 2)).tolist())
    noisy = replace(plain, median_ms=np.median(loads, axis=3).astype(np.float32), repeats_ms=loads)
    best = gains(noisy, np.zeros(200, dtype=np.int64))["per condition and site"]
    assert best.same > 0.2 and abs(best.other) < 0.06


def test_a_cell_without_a_median_counts_as_default() -> None:
    gone = [[[100.0], [np.nan], [80.0]]]
    assert gains(tensor(gone), np.array([0]))["static"].same == pytest.approx(0.2)
    only = [[[100.0], [np.nan], [np.nan]]]
    assert gains(tensor(only), np.array([0]))["static"].same == pytest.approx(0.0)


def test_one_load_a_cell_has_no_other_loads() -> None:
    assert all(np.isnan(one.other) for one in gains(tensor(UNLIKE, loads=1), np.array([0, 1])).values())


def test_a_condition_counts_by_its_weight() -> None:
    heavy = replace(tensor(UNLIKE), weight=np.array([3.0, 1.0]))
    assert gains(heavy, np.array([0, 1]))["static"].same == pytest.approx(1 - 0.5 ** (0.75 * 0.5 + 0.25))


def test_groups_are_as_many_as_their_names_say() -> None:
    sizes = {name: len(np.unique(one)) for name, one in groups_of(tensor(UNLIKE), np.array([0, 0])).items()}
    assert sizes == {"static": 1, "per class": 1, "per class and site": 2, "per condition and site": 4}


def test_the_content_line_counts_cells_loads_and_hours() -> None:
    line = content_line("t", tensor(UNLIKE), 2_000_000)
    assert "= 12 cells, 12 with a median, 0 known within a tenth (95 %), 12 whose loads are all equal" in line
    assert line.endswith("24 loads, 2 virtual hours; 2.00 MB")
    assert ", 12 known within" in content_line("t", tensor(UNLIKE, loads=6), 1)
