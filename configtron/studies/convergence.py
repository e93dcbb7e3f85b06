# SPDX-License-Identifier: MIT
"""The study `convergence`: how soon the ensemble gets near the best. CT Figure 6a."""

from __future__ import annotations

from collections.abc import Callable

from configtron.learner.table_policy import TablePolicy
from configtron.studies.sim.metrics import distance
from configtron.studies.sim.world import World, world
from configtron.studies.simulated.ensemble_updates import AT, SPANS, between, ensemble
from configtron.studies.simulated.points import Plot, Point, SessionsStudy, lived, quantiles
from configtron.studies.simulated.tensor_source import TensorSource

POLICIES: dict[str, Callable[[World], TablePolicy]] = {
    "configtron": ensemble,
    "without GP": lambda here: ensemble(here, use_gp=False),
    "without tree": lambda here: ensemble(here, use_tree=False),
    "mab_nc": lambda here: here.policy("mab_nc"),
    "thompson": lambda here: here.policy("thompson"),
}


def convergence(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Distance from the best by update, median and 95th percentile."""
    here, found = world(source.tensor("spread", seed), sessions, seed), []
    for row, make in POLICIES.items():
        replay = lived(here, [make(here)])
        for name, (first, last) in SPANS.items():
            rows = between(replay, first, last)
            if rows.stop > rows.start:
                median, p95 = quantiles(distance(replay, rows))
                found += [Point(row, f"median, {name}", median), Point(row, f"p95, {name}", p95)]
        for at in AT:
            rows = between(replay, at - 1, at)
            if rows.stop > rows.start:
                median, p95 = quantiles(distance(replay, rows))
                found += [Point(row, "median", median, float(at)), Point(row, "p95", p95, float(at))]
    return found


STUDY = SessionsStudy(
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
    duration="15 minutes",
)
