# SPDX-License-Identifier: MIT
"""One run of the loop in virtual time: maker, maps, draws, rows, and what is planted, epoch by epoch.

The maker is the product's own; a restart is a kill: the maker is made anew from what it saved last, and rows that came
after that are given to it again, as a manager does after `kill -9`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.live.scenario import Scenario, change_network
from configtron.learner.closed_loop import LoopOptions, Moved
from configtron.learner.columns import Codes
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.nouns import Profile
from tests.support.live_world import LiveWorld, Loads

KEY = bytes(range(16))
EPOCH_NS = 600 * 10**9
# Outcomes from which classes are made.
BEGIN_WITH = 4_000


@dataclass(slots=True)
class Run:
    """What happened: loads and map of each epoch, prefixes that changed class, the harmful configuration, -1: none;
    slow: by epoch, configuration -> factor; left_out: rows that did not teach, by reason."""

    loads: list[Loads] = field(default_factory=list)
    maps: list[FleetMap] = field(default_factory=list)
    moved: list[tuple[int, Moved]] = field(default_factory=list)
    changed: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    harmful: int = -1
    slow: list[dict[int, float]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    outcomes: int = 0


def maker_of(policy: str, grid: Grid, scenario: Scenario, **more: object) -> LoopMapMaker:
    """Return a maker for a scenario: any row of `learn policies`."""
    maps = MapOptions(scenario.seed, scenario.holdback, least_clients=min(20, scenario.clients))
    given: dict[str, object] = {"begin_with": BEGIN_WITH} | more
    return LoopMapMaker(LoopOptions(grid, policy, maps, **given), KEY)  # type: ignore[arg-type]


def free(profile: Profile) -> str:
    """No operator bars anything: the grid is what the guard permits."""
    return ""


def run(policy: str, world: LiveWorld, grid: Grid, scenario: Scenario, **more: object) -> Run:
    """Play a scenario with a policy."""
    found, maker = Run(), maker_of(policy, grid, scenario, **more)
    current: FleetMap | None = None
    for epoch in range(scenario.epochs):
        _plant(epoch, world, scenario, found)
        made = maker.make(epoch * EPOCH_NS, free)
        current = replace(made, term=1, version=epoch + 1) if made is not None else current
        assert current is not None
        found.moved += [(epoch, moved) for moved in maker.moved]
        maker.moved.clear()
        loads = world.epoch(epoch, current)
        rows = loads.rows
        if scenario.restart and epoch == scenario.restart:
            maker = _restarted(maker_of(policy, grid, scenario, **more), maker, rows[: len(rows) // 2])
            rows = rows[len(rows) // 2 :]
        maker.observe(rows)
        found.loads.append(replace(loads, rows=()))
        found.slow.append(dict(world.slow))
        found.maps.append(current)
    found.left_out, found.outcomes = maker.learner.left_out_, maker.learner.outcomes_
    return found


def _restarted(again: LoopMapMaker, before: LoopMapMaker, rows: Sequence[OutcomeRow]) -> LoopMapMaker:
    """Kill a maker that has observed these rows since its map was published, and start it anew from its database."""
    published = before.save()
    before.observe(rows)
    again.restore(published)
    again.observe(rows)
    if again.save() != before.save():
        raise SystemExit("the restarted maker does not know what the killed one knew")
    return again


def _plant(epoch: int, world: LiveWorld, scenario: Scenario, found: Run) -> None:
    if scenario.change and epoch == scenario.change:
        found.changed = change_network(world)
    if scenario.harmful and epoch == scenario.harmful and found.maps:
        found.harmful = most_used(found.loads[-1], world.tensor.grid)
        world.slow = {found.harmful: scenario.slower} if found.harmful >= 0 else {}
    lost = scenario.lost and scenario.lost <= epoch < scenario.lost + scenario.lost_for
    world.lost = {0} if lost else set()


def most_used(loads: Loads, grid: Grid) -> int:
    """Return the configuration, but for Default, that most loads had; -1: none had any."""
    tuned = loads.configuration[loads.configuration != grid.default]
    return int(np.bincount(tuned).argmax()) if len(tuned) else -1


def weights_of(loads: Loads, grid: Grid) -> dict[int, float]:
    """Return the share of each configuration among loads that were not held back."""
    tuned = loads.configuration[loads.held == 0]
    count = np.bincount(tuned, minlength=len(grid))
    return {int(at): float(n / max(len(tuned), 1)) for at, n in enumerate(count) if n}
