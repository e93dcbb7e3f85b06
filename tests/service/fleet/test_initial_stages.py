# SPDX-License-Identifier: MIT
"""Strategies of initial windows by stages: shadow, canary, a quarter, all.

Core, store, stages and maker are the product's; ends of connections are planned, page loads drawn by published maps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.learner.map_making import MapOptions
from configtron.learner.rollout import Rollout, RolloutPlan
from configtron.learner.window_classes import SHARES, strategy_of
from configtron.learner.window_maker import WindowMapMaker
from configtron.model.fleet import MOST_ARMS, WHOLE
from tests.support.staged_world import EPOCH_S, PLAIN, StagedWorld

PLAN = RolloutPlan(margins=(("median", 0.25), ("p95", 0.6), ("failures", 0.1)), clients=700)
OPTIONS = MapOptions(holdback=0.2, least_clients=5, new_prefixes=1000, epoch_s=EPOCH_S)
PREFIXES = [f"198.51.{at}.0/24" for at in range(40)]


def ends(windows: dict[str, float]) -> EndStates:
    """Return the ends of connections of all hours: what is known of an hour never seen is less sure."""
    return of_rows([
        {"at_s": 1.19e9 + 3600.0 * (7 * at + place), "prefix": prefix, "max_cwnd": window * (0.9, 1.0, 1.1)[at % 3],
         "packets_out": 400.0, "loss": 0.01, "min_rtt_ms": 15.0 if window < 300 else 150.0}
        for place, (prefix, window) in enumerate(windows.items()) for at in range(10)
    ])  # fmt: skip


@dataclass
class StrategiesWorld(StagedWorld):
    """windows: of the paths of prefixes, as connections end."""

    maker: Any = None
    plan: RolloutPlan | None = PLAN
    windows: dict[str, float] = field(default_factory=lambda: {one: (90.0, 700.0)[at % 2]
                                                               for at, one in enumerate(PREFIXES)})  # fmt: skip

    def next_maker(self) -> WindowMapMaker:
        return WindowMapMaker(lambda: ends(self.windows), OPTIONS, bytes(range(16)), SHARES)

    def until(self, stage: str, steps: int = 75) -> list[str]:
        """Play until a stage; return the stages on the way."""
        stages = []
        while not stages or stages[-1] != stage:
            assert len(stages) < steps, [name for name, _ in groupby(stages)]
            stages.append(self.step())
        return [name for name, _ in groupby(stages)]

    def rollout(self) -> Rollout:
        assert self.stages.rollout is not None
        return self.stages.rollout

    def strategies(self) -> set[str]:
        """Return the strategies that any client may get."""
        return {strategy_of(name) for mix in self.current.mixes.values() for name, _ in mix} - {""}


@pytest.mark.slow
def test_strategies_reach_all_clients_by_the_gates_and_chances_stay_those_of_the_draw(tmp_path: Path) -> None:
    world = StrategiesWorld(tmp_path)
    assert world.until("canary")[-1] == "canary"
    # beside Default's arm there is room for seven, one of which stands for the rest
    assert all(len(mix) <= MOST_ARMS and mix[0][0] == PLAIN for mix in world.current.mixes.values())
    first = {
        name: sum(weight for profile, weight in mix if profile == PLAIN) for name, mix in world.current.mixes.items()
    }
    assert all(weight == pytest.approx(0.95 * WHOLE, abs=2) for weight in first.values())
    assert world.until("all")[-2:] == ["quarter", "all"]
    assert [row.why for row in world.rollout().evidence][:4] == ["begun", "unseen", "gate", "gate"]
    assert world.strategies() == set(SHARES) and len(world.current.mixes) == 2
    for mix in world.current.mixes.values():
        assert {strategy_of(name): weight / WHOLE for name, weight in mix} == pytest.approx(SHARES, abs=1e-3)


@pytest.mark.slow
def test_a_prefix_whose_path_changed_has_default_until_its_new_class_passed_the_stages(tmp_path: Path) -> None:
    """Which class a prefix is of is not staged; what a class draws is: a class that the version in force lacks draws
    Default, and the next version has it."""
    world = StrategiesWorld(tmp_path)
    world.until("all")
    before = set(world.current.mixes)
    world.windows |= dict.fromkeys(PREFIXES[:10], 20.0)
    world.until("canary")
    fresh = {world.current.prefixes[one] for one in PREFIXES[:10]}
    assert fresh.isdisjoint(before)
    assert all(dict(world.current.mixes[one])[PLAIN] / WHOLE >= 0.9 for one in fresh)
    world.until("all")
    fresh = {world.current.prefixes[one] for one in PREFIXES[:10]}
    assert not any(PLAIN in dict(world.current.mixes[one]) for one in fresh)


@pytest.mark.slow
def test_without_page_loads_no_version_leaves_the_canary(tmp_path: Path) -> None:
    """Ends of connections teach windows; whether strategies harm is read from page loads alone."""
    world = StrategiesWorld(tmp_path, loads=0)
    assert set(world.play(12)) <= {"", "canary"} and world.stage == "canary"
