# SPDX-License-Identifier: MIT
"""What the same loads would have taken under one configuration for all, and under the best one of each condition.

Both know the truth: the static one is the best in hindsight, over all epochs that are judged; the optimum of each
condition is how much there is to gain for anything that cannot see the website. Held-back clients keep Default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.live.fleet import Run
from configtron.learner.columns import Codes, Floats
from configtron.model.grid import Grid
from tests.support.live_world import LiveWorld, Loads


def configurations(world: LiveWorld, grid: Grid) -> Codes:
    """Return the grid's configurations in the world's tensor."""
    return np.array([world.tensor.grid.index(profile) for profile in grid.profiles])


def instead(world: LiveWorld, run: Run, epochs: range, choose: Callable[[int, Loads], Codes]) -> list[Floats]:
    """Return load times of a run's epochs as if tuned clients had had what `choose` gives for an epoch's loads; what is
    planted is planted all the same."""
    found = []
    for epoch in epochs:
        made = run.loads[epoch]
        world.slow = dict(run.slow[epoch])
        found.append(world.instead(made, np.where(made.held == 1, world.tensor.grid.default, choose(epoch, made))))
    return found


def static_of(world: LiveWorld, run: Run, epochs: range, among: Codes) -> int:
    """Return the configuration whose loads of tuned clients have the lowest mean logarithm, in hindsight."""
    cost = [_cost(run, epochs, static_times(world, run, epochs, int(at))) for at in among]
    return int(among[int(np.argmin(cost))])


def _cost(run: Run, epochs: range, times: Sequence[Floats]) -> float:
    tuned = [ms[run.loads[epoch].held == 0] for epoch, ms in zip(epochs, times, strict=True)]
    return float(np.log(np.concatenate(tuned)).mean())


def static_times(world: LiveWorld, run: Run, epochs: range, configuration: int) -> list[Floats]:
    """Return load times under one configuration."""
    return instead(world, run, epochs, lambda _, made: np.full(len(made.client), configuration))


def optimum_times(world: LiveWorld, run: Run, epochs: range, among: Codes) -> list[Floats]:
    """Return load times under what is best in each condition, over its sites, in that epoch."""
    mean = np.log(world.tensor.median_ms[:, among]).mean(axis=2)

    def best(epoch: int, made: Loads) -> Codes:
        slower = np.log([run.slow[epoch].get(int(at), 1.0) for at in among])
        found: Codes = among[(mean + slower).argmin(axis=1)][made.condition]
        return found

    return instead(world, run, epochs, best)


def ln_gain(world: LiveWorld, run: Run, epochs: range, times: Sequence[Floats]) -> tuple[Floats, Codes]:
    """Return (n,) ln of how much faster each load of a tuned client is than under Default, by the same chance, and its
    client (n,)."""
    default = static_times(world, run, epochs, world.tensor.grid.default)
    gain, client = [], []
    for epoch, ms, base in zip(epochs, times, default, strict=True):
        tuned = np.flatnonzero(run.loads[epoch].held == 0)
        gain.append(np.log(base[tuned]) - np.log(ms[tuned]))
        client.append(run.loads[epoch].client[tuned])
    return np.concatenate(gain), np.concatenate(client)
