# SPDX-License-Identifier: MIT
"""Differences of arms: intervals that hold as often as stated, clusters, expectations, failures, reasons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.sequential.differences import (
    FAILURES,
    GEOMETRIC,
    GOALS,
    MEDIAN,
    P95,
    REASONS,
    ArmLoads,
    Goal,
    difference,
)
from tests.support.arm_loads import arm_loads

NONE = np.zeros(0, dtype=np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("goal", [*GOALS, GEOMETRIC], ids=lambda goal: goal.name)
def test_errors_are_those_of_repeated_draws(goal: Goal) -> None:
    found = [difference(arm_loads((1, seed), 2000), goal) for seed in range(150)]
    z = np.array([one.estimate / one.error for one in found])
    # the spacing of quantiles beside a heavy tail's makes p95's errors too large rather than too small
    assert (0.7 if goal is P95 else 0.82) < z.std() < 1.18
    assert (np.abs(z) > 1.96).mean() <= 0.107  # 5 % and two and a half standard errors of 150 logs


# An expectation that explains half of the loads' variance, where clients have a quarter of it in common, which it does
# not know, leaves sqrt(1.5 / 2) = 0.866 of the mean's error.
@pytest.mark.parametrize(("goal", "most"), [(MEDIAN, 0.91), (P95, 0.98), (GEOMETRIC, 0.88)], ids=lambda x: str(x))
def test_an_expectation_narrows_the_interval_and_moves_nothing(goal: Goal, most: float) -> None:
    found = [difference(arm_loads((2, seed), 3000, 0.08, explained=0.5), goal) for seed in range(40)]
    assert np.mean([one.error / one.plain_error for one in found]) < most
    mean = float(np.mean([one.estimate for one in found]))
    assert mean == pytest.approx(np.log(1.08), abs=4.0 * np.mean([one.error for one in found]) / np.sqrt(40))


def test_an_expectation_of_noise_or_of_nothing_costs_nothing() -> None:
    loads = arm_loads((3, 1), 4000)
    noise = replace(loads, expected_ln=np.random.default_rng(3).normal(7.0, 1.0, 4000))
    unknown = replace(loads, expected_ln=np.full(4000, np.nan))
    bare, wild = difference(loads, MEDIAN), difference(noise, MEDIAN)
    assert wild.error == pytest.approx(bare.error, rel=0.03)
    assert difference(unknown, MEDIAN) == bare


def test_loads_of_one_client_are_no_draws_of_their_own() -> None:
    loads = arm_loads((4, 1), 20_000)
    alone = replace(loads, unit=np.arange(20_000))
    assert difference(loads, GEOMETRIC).error > 1.1 * difference(alone, GEOMETRIC).error


def test_clients_that_come_back_every_epoch_are_clustered_by_prefix() -> None:
    """A holdback that lives for ever: 40 epochs of the same 120 clients, without any effect. By unit alone such a log
    seems to show one."""
    by_unit, by_prefix = [], []
    for seed in range(120):
        rng = np.random.default_rng((5, seed))
        client = np.repeat(np.arange(120), 40)
        held = (rng.random(120) < 0.5)[client]
        ln_ms = 7.0 + rng.normal(0.0, 0.5, 120)[client] + rng.normal(0.0, 0.5, 4800)
        loads = ArmLoads(~held, ln_ms, np.arange(4800), client, np.zeros(0))
        by_prefix.append(difference(loads, GEOMETRIC))
        by_unit.append(difference(replace(loads, prefix=NONE), GEOMETRIC))
    wrong = [np.mean([abs(one.estimate) > 1.96 * one.error for one in found]) for found in (by_unit, by_prefix)]
    assert wrong[0] > 0.5
    assert wrong[1] <= 0.11


def test_few_prefixes_are_a_doubt() -> None:
    loads = arm_loads((6, 1), 3000)
    few = difference(replace(loads, prefix=loads.unit % 4), MEDIAN)
    assert (few.doubt, few.prefixes, few.reason) == ("few-prefixes", 4, "")
    assert difference(replace(loads, prefix=loads.unit % 400), MEDIAN).doubt == ""


def test_a_profile_that_kills_connections_does_not_look_good() -> None:
    loads = arm_loads((7, 1), 20_000, -0.2, failing=0.01, failing_treated=0.12)
    finished = loads[np.isfinite(loads.ln_ms)]
    assert difference(finished, P95).estimate < 0.0
    killed = difference(arm_loads((7, 1), 12_000, -0.05, failing=0.01, failing_treated=0.04), P95)
    assert killed.estimate > 0.05
    assert difference(loads, P95).reason == "in-failures"
    failures = difference(loads, FAILURES)
    assert failures.estimate == pytest.approx(0.11, abs=0.02)
    assert failures.level[0] == pytest.approx(0.01, abs=0.005)


def test_a_slow_tail_shows_in_p95_alone() -> None:
    loads = arm_loads((8, 1), 60_000, slow_tail=1.5)
    tail, middle = difference(loads, P95), difference(loads, MEDIAN)
    # expected: seven errors
    assert tail.estimate > 3.0 * tail.error
    assert middle.estimate < 0.5 * tail.estimate


def test_where_nothing_is_known_there_is_a_reason() -> None:
    loads = arm_loads((9, 1), 3000, failing=0.0)
    assert difference(loads[:40], MEDIAN).reason == "few-units"
    assert difference(loads[:300], P95).reason == "few-beyond"
    coarse = replace(loads, ln_ms=np.where(loads.ln_ms > 6.0, 7.0, 6.0))
    assert difference(coarse, MEDIAN).reason in ("no-spread", "few-beyond")
    tied = replace(loads, ln_ms=np.round(loads.ln_ms))
    assert difference(tied, MEDIAN).reason == "no-spread"
    one = replace(loads, unit=np.where(loads.treated, 0, loads.unit + 1))
    assert difference(one, MEDIAN).reason == "few-units"
    for found in (difference(loads[:40], MEDIAN), difference(tied, MEDIAN)):
        assert found.reason in REASONS and np.isnan(found.estimate) and found.information == 0.0


def test_few_failures_are_counted_by_client() -> None:
    none = difference(arm_loads((10, 1), 6000, failing=0.0), FAILURES)
    assert (none.reason, none.level) == ("", (0.0, 0.0))
    assert none.estimate == pytest.approx(0.0, abs=1e-4) and 0.0005 < none.error < 0.003
    loads = arm_loads((10, 2), 6000, failing=0.0)
    treated = np.flatnonzero(loads.treated)[::350][:8]
    broken = replace(loads, ln_ms=np.where(np.isin(np.arange(6000), treated), np.inf, loads.ln_ms))
    assert 1.5 < difference(broken, FAILURES).estimate / difference(broken, FAILURES).error < 3.0


@pytest.mark.slow
def test_a_small_arm_without_failures_by_chance_is_no_proof() -> None:
    """Beside a holdback of a twentieth: the fewer failures it has by chance, the surer a plain error would be that the
    other arm fails more often."""
    found = [difference(arm_loads((11, seed), n, share=0.95), FAILURES) for seed in range(120) for n in (3000, 5000)]
    z = np.array([one.estimate / one.error for one in found if not one.reason])
    assert len(z) > 200 and z.max() < 3.0 and z.std() < 1.2  # with the plain error: 8.0 and 1.7
    apart = difference(arm_loads((11, 1), 12_000, share=0.95, failing=0.01, failing_treated=0.08), FAILURES)
    assert apart.estimate / apart.error > 5.0, "and true harm is found"
