# SPDX-License-Identifier: MIT
"""Importance with intervals that hold what was planted; dead knobs found, live ones not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.importance import (
    dead_knobs,
    feature_importance,
    knob_importance,
    proven,
    tensor_tally,
)
from configtron.learner.tally import no_tally
from configtron.model.grid import paper_grid
from tests.support.worlds import SITES, clients, small_classes, small_tensor

TENSOR = small_tensor(conditions=40)
CONTROL = "tcp_congestion_control"


def test_knobs_that_matter_come_first() -> None:
    found = knob_importance(TENSOR, np.random.default_rng(1))
    by_name = {row.name: row for row in found}
    # The formula of `small_tensor`: windows and HTTP version count, corking and pacing are not in it.
    assert {found[0].name, found[1].name} <= {"initcwnd", "http_version", "tcp_congestion_control"}
    assert by_name["tcp_autocorking"].p95 == by_name["pacing"].p95 == 0.0
    for row in found:
        assert row.median_low <= row.median <= row.median_high and row.p95_low <= row.p95 <= row.p95_high


def test_a_feature_that_is_exchanged_costs() -> None:
    rng = np.random.default_rng(1)
    oracle = policy("cell_optimum", Setting(TENSOR.grid, SITES, small_classes(TENSOR, 12), rng, truth=TENSOR))
    contexts, condition = clients(TENSOR, 2000)
    rows = feature_importance(oracle, contexts, lambda k: TENSOR.lookup(condition, k, contexts.site), rng)
    assert {row.name for row in rows} == {"bandwidth_kbps", "rtt_ms", "loss", "site"}
    assert max(row.p95 for row in rows) > 0.01
    flat = replace(TENSOR, median_ms=np.ones_like(TENSOR.median_ms))
    none = feature_importance(oracle, contexts, lambda k: flat.lookup(condition, k, contexts.site), rng)
    assert all(row.p95 == 0.0 for row in none)


def test_planted_dead_knobs_are_found_and_not_explored() -> None:
    """Over the paper's 768: three knobs do nothing, one does nothing where another has a value."""
    grid, rng = paper_grid(), np.random.default_rng(2)
    icw, http = grid.column("initcwnd"), grid.column("http_version")
    bbr, paced = grid.column("tcp_congestion_control") == 3, grid.column("pacing")
    truth = 7.0 - 0.1 * icw + 0.2 * http + 0.15 * grid.column("tcp_congestion_control") + 0.2 * paced * ~bbr
    tally = no_tally(6, len(grid))
    for _ in range(4):
        for row in range(6):
            y = truth + 0.1 * rng.standard_normal(len(grid))
            tally = tally.plus(np.full(len(grid), row), np.arange(len(grid)), y)
    found = dead_knobs(grid, tally, 0.1)
    named = {(row.dead.knob, row.dead.where, row.dead.value) for row in found}
    assert named == {
        ("tcp_slow_start_after_idle", "", ""),
        ("tcp_low_latency", "", ""),
        ("tcp_autocorking", "", ""),
        ("pacing", "tcp_congestion_control", "bbr"),
    }
    assert all(0 < row.unseen < 0.1 and row.pairs > 100 for row in found)
    assert len(grid.without([row.dead for row in found])) == 84
    assert len(proven(found)) == sum(row.unseen <= 0.05 for row in found) > 0


def test_configurations_that_one_side_never_saw_are_no_pairs() -> None:
    grid, rng = paper_grid(), np.random.default_rng(2)
    rows, some = rng.integers(0, 5, 4000), rng.integers(0, len(grid), 4000)
    quiet = 7.0 + 0.1 * rng.standard_normal(4000)
    found = dead_knobs(grid, no_tally(5, len(grid)).plus(rows, some, quiet), 0.1)
    assert {row.dead.knob for row in found if not row.dead.where} == {knob.name for knob in grid.knobs}
    assert all(row.pairs < 5 * 768 * 3 and 0.0 < row.unseen < 0.2 for row in found)


def test_many_pairs_are_compared_in_parts() -> None:
    grid, rng = paper_grid(), np.random.default_rng(2)
    rows, some = rng.integers(0, 5, 4000), rng.integers(0, len(grid), 4000)
    tally = no_tally(5, len(grid)).plus(rows, some, 7.0 + 0.1 * rng.standard_normal(4000))
    whole = dead_knobs(grid, tally, 0.1)
    parts = dead_knobs(grid, tally, 0.1, at_once=777)
    assert [(one.dead, one.pairs) for one in whole] == [(one.dead, one.pairs) for one in parts]
    assert [one.unseen for one in whole] == pytest.approx([one.unseen for one in parts])
    few = {one.dead for one in dead_knobs(grid, tally, 0.1, most_values=2)}
    assert few == {one.dead for one in whole if {one.dead.knob, one.dead.where}.isdisjoint({"initcwnd", CONTROL})}


def test_no_loads_give_no_importance() -> None:
    grid = paper_grid()
    assert dead_knobs(grid, no_tally(3, len(grid)), 0.1) == []
    assert len(grid.without([])) == 768


def test_a_tensors_repeats_are_loads() -> None:
    repeats = np.repeat(TENSOR.median_ms[..., None], 3, axis=3)
    repeats[0, 0, 0, 0] = np.nan
    tally = tensor_tally(replace(TENSOR, repeats_ms=repeats))
    assert tally.count[0, 0] == 2 and tally.count[1, 0] == 3
    assert tensor_tally(TENSOR).count.sum() == TENSOR.median_ms.size
