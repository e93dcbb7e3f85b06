# SPDX-License-Identifier: MIT
"""The manager's wall clock is set back, or an agent's is late: maps stay valid, and harm is taken back all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.learner.rollout import RolloutPlan
from configtron.model.fleet import WHOLE
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.running_fleet import MAP
from tests.support.staged_world import PLAIN, PlannedMaker, StagedWorld, planned_map

DAY_S = 86_400.0
BEGUN_NS = 1_800_000_000 * 10**9
PLAN = RolloutPlan(margins=(("median", 0.25), ("p95", 0.6), ("failures", 0.1)), clients=700)
HARMFUL = planned_map({name: [(PLAIN, 6_000), ("x2.5", WHOLE - 6_000)] for name in ("near", "far")})


@pytest.mark.parametrize("stepped_s", [-DAY_S, -40.0, 0.0])
def test_a_map_is_renewed_in_time_though_the_clock_was_set_back(tmp_path: Path, stepped_s: float) -> None:
    """Agents fell back to Default: they count the 100 s by their own clocks, and the manager waited for its own."""
    with FleetStore(tmp_path / "m.db") as store:
        core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), SigningKey(bytes(32)), "m", BEGUN_NS)
        for second in range(140):
            core.tick(float(second), BEGUN_NS + round((second + (stepped_s if second > 45 else 0.0)) * 1e9))
        # The first is made at second 0; agents that got it then have it until second 100.
        assert [row.why for row in store.maps()][:3] == ["made", "validity renewed", "validity renewed"]


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
def test_harm_is_taken_back_though_the_clock_was_set_back(tmp_path: Path, restarted: bool) -> None:
    """Looks that seemed to be earlier than the latest one were passed over, until the clock had caught up."""
    world = StagedWorld(tmp_path, PlannedMaker(HARMFUL), PLAN)
    assert "canary" in (world.step() for _ in range(60))
    world.stepped_s = -DAY_S
    if restarted:
        world.start()
    assert "returned" in world.play(12)
    assert set(world.current.mixes["near"]) == {(PLAIN, WHOLE)}


@pytest.mark.slow
def test_harm_on_an_agent_whose_clock_is_late_is_taken_back(tmp_path: Path) -> None:
    """Its loads seemed to be from before the stage: they were left out for a day, on both of its arms."""
    world = StagedWorld(tmp_path, PlannedMaker(HARMFUL), PLAN)
    # The manager's clock is the one that is ahead.
    world.stepped_s = DAY_S
    stages = world.play(14)
    assert "canary" in stages and "returned" in stages[stages.index("canary") :]
