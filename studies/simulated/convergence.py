# SPDX-License-Identifier: MIT
"""How soon the ensemble gets near the best, and with which arm: CT's Figures 6a and 6b."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from configtron.learner.columns import ARMS
from configtron.learner.policies.ensemble import Ensemble, EnsembleOptions
from configtron.learner.setting import Setting
from configtron.learner.sim.loop import Replay
from configtron.learner.sim.metrics import away
from configtron.learner.sim.world import POLICY, World, chance, world
from configtron.learner.table_policy import TablePolicy
from configtron.studies.simulated.ground import Ground
from configtron.studies.simulated.points import EVERY_S, Plot, Point, Study, lived, quantiles

# Updates at whose end the curves are read: CT's "iterations".
AT = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 115)
SPANS = {"update 1": (0, 1), "updates 3 to 10": (2, 10), "updates 100 on": (99, 10**6)}


def _ensemble(here: World, *, use_gp: bool = True, use_tree: bool = True) -> TablePolicy:
    tensor, rng = here.tensor, chance(here.seed, POLICY)
    setting = Setting(tensor.grid, tensor.sites, here.classes, rng, update_every=0)
    return Ensemble(setting, EnsembleOptions(use_gp=use_gp, use_tree=use_tree))


RIVALS: dict[str, Callable[[World], TablePolicy]] = {
    "configtron": _ensemble,
    "without GP": lambda here: _ensemble(here, use_gp=False),
    "without tree": lambda here: _ensemble(here, use_tree=False),
    "mab_nc": lambda here: here.policy("mab_nc"),
    "thompson": lambda here: here.policy("thompson"),
}


def _between(replay: Replay, first: int, last: int) -> slice:
    """Sessions between two updates."""
    begin, end = np.searchsorted(replay.sessions.at_s[: replay.at_], (first * EVERY_S, last * EVERY_S))
    return slice(int(begin), int(end))


def convergence(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """Distance from the best by update, median and 95th percentile."""
    here, found = world(ground.tensor("spread", seed), sessions, seed), []
    for row, make in RIVALS.items():
        replay = lived(here, [make(here)])
        for name, (first, last) in SPANS.items():
            rows = _between(replay, first, last)
            if rows.stop > rows.start:
                median, p95 = quantiles(away(replay, rows))
                found += [Point(row, f"median, {name}", median), Point(row, f"p95, {name}", p95)]
        for at in AT:
            rows = _between(replay, at - 1, at)
            if rows.stop > rows.start:
                median, p95 = quantiles(away(replay, rows))
                found += [Point(row, "median", median, float(at)), Point(row, "p95", p95, float(at))]
    return found


def arms(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """Which arm decided, by update."""
    here, found = world(ground.tensor("spread", seed), sessions, seed), []
    replay = lived(here, [_ensemble(here)])
    shown = ("default", "lhc", "gp", "epsilon", "tree", "greedy")
    for name, (first, last) in SPANS.items():
        shares = _shares(replay, _between(replay, first, last))
        found += [Point(arm, name, share) for arm, share in shares.items() if arm in shown]
    for at in AT:
        shares = _shares(replay, _between(replay, at - 1, at))
        found += [Point(arm, "share", share, float(at)) for arm, share in shares.items() if arm in shown]
    return found


def _shares(replay: Replay, rows: slice) -> dict[str, float]:
    """Share of each arm, 0 too; nothing where there were no sessions."""
    arm = replay.decisions_.arm[rows]
    if not len(arm):
        return {}
    count = np.bincount(arm, minlength=len(ARMS)) / len(arm)
    return dict(zip(ARMS, count.tolist(), strict=True))


CONVERGENCE = Study(
    "convergence",
    "Distance from the best by update",
    "CT Fig. 6a",
    "Equal at iteration 1; ConfigTron ahead in 3 to 10; without GP near the best at 100 and more, but not in the tail",
    convergence,
    "The paper does not say what an iteration is: here an update, every 500 sessions over 240 cells, so that a cell "
    "sees two loads in one. A search needs at least seven of a cell's configurations, hence the long start.",
    plots=(
        Plot("median", "update, counted from 1", "distance from the best, median share", log_x=True),
        Plot("p95", "update, counted from 1", "distance from the best, 95th percentile", log_x=True),
    ),
)
ARM_SHARES = Study(
    "arms",
    "Which arm of the ensemble decides",
    "CT Fig. 6b",
    "The share of the Gaussian process falls, the tree's rises",
    arms,
    "lhc are the Gaussian process's first samples; greedy is a searched cell's own best while no tree stands; "
    "epsilon is the degree of randomness, a tenth of searched cells' sessions.",
    plots=(Plot("share", "update, counted from 1", "share of decisions", log_x=True),),
)
