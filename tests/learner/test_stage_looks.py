# SPDX-License-Identifier: MIT
"""Readings of a stage from rows of outcomes: harm trips, an equal version passes, lost loads stop it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configtron.learner.rollout import Rollout, RolloutBegun, RolloutPlan, ShadowUnseen, advance
from configtron.learner.sequential.sample_ratio import ERROR
from configtron.learner.stage_looks import stage_look
from configtron.model.fleet import OutcomeRow
from tests.support.fleet_rows import BEGUN_NS, HELD, fleet_rows

PLAN = RolloutPlan(margins=(("median", 0.3), ("p95", 0.6), ("failures", 0.05)), clients=1500, places=("ams", "fra"))
CANARY = advance(advance(Rollout((1, 9), (1, 8), PLAN), RolloutBegun(1)), ShadowUnseen(2))
QUARTER = replace(CANARY, stage="quarter")
LATE_NS = BEGUN_NS + 4 * 3600 * 10**9


def of_version(gain: float, seed: int = 1, **lost: float) -> list[OutcomeRow]:
    """Rows of a stage in which a quarter of the clients that are not held back have version 1.9."""
    rows = fleet_rows(seed, 24_000, gain, **lost)  # type: ignore[arg-type]
    has = [int(row.unit[:8], 16) % 4 == 0 for row in rows]
    return [row._replace(map_version=9 if new else 8) for row, new in zip(rows, has, strict=True)]


@pytest.mark.slow
def test_an_equal_version_passes_and_a_harmful_one_trips() -> None:
    same = stage_look(QUARTER, of_version(0.0), LATE_NS, holdback=HELD)
    assert [place for place, _ in same.differences] == [""] * 3 + ["ams"] * 3 + ["fra"] * 3
    assert same.ratio > ERROR and advance(QUARTER, same).stage == "all"
    worse = stage_look(QUARTER, of_version(-1.5), LATE_NS, holdback=HELD)
    tripped = advance(QUARTER, worse)
    assert (tripped.stage, tripped.evidence[-1].why, tripped.in_force) == ("returned", "alarm", (1, 8))


@pytest.mark.slow
def test_only_loads_of_the_stage_and_version_count() -> None:
    rows = of_version(0.0)
    one = stage_look(QUARTER, rows, LATE_NS, holdback=HELD).differences[0][1]
    counted = [row for row in rows if row.teaches and (row.held or row.map_version == 9)]
    assert sum(one.loads) == len(counted) and one.loads[0] == sum(row.held for row in counted)
    began = replace(QUARTER, evidence=(replace(QUARTER.evidence[-1], at_ns=LATE_NS),))
    assert stage_look(began, rows, LATE_NS + 1, holdback=HELD).differences[0][1].reason == "few-units"


@pytest.mark.slow
def test_an_arm_that_loses_its_loads_stops_the_stage() -> None:
    rows = [row for row in of_version(0.0) if row.held or row.unit[3] in "05af"]
    look = stage_look(QUARTER, rows, LATE_NS, holdback=HELD)
    assert look.ratio < ERROR
    assert advance(QUARTER, look).suspended == "sample-ratio"
    assert stage_look(QUARTER, [], LATE_NS, holdback=HELD).ratio == 1.0


def test_refusals_are_handed_on() -> None:
    look = stage_look(CANARY, [], LATE_NS, holdback=HELD, refused=3, entries=100)
    assert advance(CANARY, look).evidence[-1].why == "refused"
    assert look.differences[0][1].reason == "few-units" and look.differences[0][1].estimate != pytest.approx(0.0)
