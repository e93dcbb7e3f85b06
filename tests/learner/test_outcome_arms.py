# SPDX-License-Identifier: MIT
"""Rows of outcomes as two arms: what counts, what is expected of a load, and whether arms arrived as drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from configtron.learner.outcome_arms import NO_TIME, RatioCheck, expected_ln, fleet_loads, intervals, ratio_of
from configtron.learner.sequential.sample_ratio import ERROR
from configtron.model.fleet import OutcomeRow
from tests.support.fleet_rows import HELD, fleet_rows

ROWS = fleet_rows(1, 12_000)


@pytest.mark.slow
def test_the_gain_of_the_whole_map_is_found_with_its_interval() -> None:
    """Half of the tuned clients' loads are by a profile that saves 30 %: about a sixth of the median."""
    loads = fleet_loads(fleet_rows(2, 20_000, gain=0.3))
    found = {one.found.goal.name: one for one in intervals(loads.loads)}
    assert found["median"].high < 0.0
    assert found["median"].low < np.log(1.0 - 0.3) / 2.0 < found["median"].high
    assert found["failures"].low < 0.0 < found["failures"].high
    for one in found.values():
        for arm in (0, 1):
            assert one.level_low[arm] < one.found.level[arm] < one.level_high[arm]


def test_what_does_not_teach_is_counted_by_its_reason() -> None:
    loads = fleet_loads([*ROWS, ROWS[0]._replace(teaches=True, plt_ms=None, failure="", why_not="")])
    assert loads.aside["turn"] == sum(not row.teaches for row in ROWS) and loads.aside[NO_TIME] == 1
    assert len(loads.loads) + sum(loads.aside.values()) == loads.rows
    assert np.isinf(loads.loads.ln_ms).sum() == sum(row.plt_ms is None and row.teaches for row in ROWS)


def test_an_expectation_is_of_control_loads_of_other_prefixes_alone() -> None:
    loads = fleet_loads(ROWS).loads
    assert np.isfinite(loads.expected_ln).all()
    rest = (loads.ln_ms - loads.expected_ln)[np.isfinite(loads.ln_ms)]
    assert rest.std() < 0.8 * loads.ln_ms[np.isfinite(loads.ln_ms)].std()
    # a change of any treated load, or of a load's own half, moves no expectation of it
    cell, half = np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1])
    control, ln_ms = np.array([True, False, True, False]), np.array([5.0, 6.0, 7.0, 8.0])
    assert expected_ln(cell, cell, ln_ms, control, half) == pytest.approx([7.0, 7.0, 5.0, 5.0])
    assert np.isnan(expected_ln(cell, cell, ln_ms, np.zeros(4, dtype=np.bool_), half)).all()


def test_arms_that_lose_loads_break_the_ratio() -> None:
    sound = ratio_of(ROWS)
    assert sound.p > ERROR and sound.units > 5000
    lost = ratio_of(fleet_rows(1, 12_000, lost_of_treated=0.4))
    assert lost.p < ERROR
    assert ratio_of([row._replace(propensity=None) for row in ROWS]).units == 0


def drawn_rows(seed: int, weights: Sequence[float], lost: float = 0.0) -> list[OutcomeRow]:
    """One load of each of 6000 clients, a tenth held back. lost: share of arm 1's loads that never come."""
    rng, found = np.random.default_rng(seed), []
    drawn, chance = rng.choice(len(weights), size=6000, p=weights), rng.random((6000, 2))
    for client in range(6000):
        held, arm = bool(chance[client, 0] < 0.1), int(drawn[client])
        if not held and arm == 1 and chance[client, 1] < lost:
            continue
        found.append(OutcomeRow(
            "web1", "b", client, client, "s", f"10.0.{client % 60}.0/24", f"{client}", 100.0, 1, 1, 5, "near",
            None if held else arm, "" if held else f"p{arm}", 0.1 if held else 0.9 * weights[arm], held,
        ))  # fmt: skip
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "lost"), [((0.5, 0.3, 0.1995, 0.0005), 0.3), ((0.5, 0.3, 0.2), 1.0)])
def test_a_rare_arm_or_one_without_any_load_hides_no_loss(weights: Sequence[float], lost: float) -> None:
    """An arm with less than five clients to expect ended the comparison of all; one without a row was not missed."""
    assert ratio_of(drawn_rows(1, weights)).p > ERROR
    found = ratio_of(drawn_rows(1, weights, lost))
    assert found.p < ERROR and found.units > 4000


@pytest.mark.slow
def test_arms_as_they_were_drawn_are_in_order() -> None:
    assert sum(ratio_of(drawn_rows(seed, (0.6, 0.3, 0.099, 0.001))).p < 0.05 for seed in range(40)) <= 6  # 2 expected


def test_clients_that_are_too_few_to_compare_are_not_counted() -> None:
    assert ratio_of(drawn_rows(1, (0.5, 0.5))[:9]) == RatioCheck(1.0, 0)


@pytest.mark.slow
def test_a_holdback_is_one_draw_for_ever() -> None:
    """Sixty draws of who is held back, looked at over 18 epochs each: the ratio is broken in none of them."""
    rows = [fleet_rows(seed, 1500) for seed in range(60)]
    assert sum(ratio_of(one).p < 0.05 for one in rows) <= 8  # 3 expected; more than 8 in one of 300 sets
    assert HELD == 0.2


def test_without_rows_there_is_nothing() -> None:
    found = fleet_loads([])
    assert len(found.loads) == 0 and found.rows == 0
    assert {one.found.reason for one in intervals(found.loads)} == {"few-units"}
    assert (ratio_of([]).p, ratio_of([]).units) == (1.0, 0)
