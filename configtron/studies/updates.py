# SPDX-License-Identifier: MIT
"""The study `updates`: how often managers learn. CT section 6.4.2."""

from __future__ import annotations

from configtron.studies.sim.metrics import distance
from configtron.studies.sim.sessions import Arrivals
from configtron.studies.sim.world import world
from configtron.studies.simulated.points import Plot, Point, SessionsStudy, last_half, lived, quantiles, tail_ms
from configtron.studies.simulated.tensor_source import TensorSource

# Of those that can be updated some thousand times in a study that people wait for.
UPDATED = ("configtron", "mab_nc")
# Two days at this rate are some forty thousand sessions.
DAY_S, DAYS = 86_400.0, 2.0
INTERVALS_S = {"2 min": 120.0, "15 min": 900.0, "1 h": 3600.0, "6 h": 21_600.0, "1 day": DAY_S}


def updates(_: str, seed: int, sessions: int, source: TensorSource, days: float = DAYS) -> list[Point]:
    """The same days, learned from more and more rarely."""
    arrivals = Arrivals(per_s=sessions / (days * DAY_S))
    here, found = world(source.tensor("spread", seed), sessions, seed, arrivals=arrivals), []
    for name in UPDATED:
        for row, interval_s in INTERVALS_S.items():
            replay = lived(here, [here.policy(name)], interval_s)
            median, p95 = quantiles(distance(replay, last_half(replay)))
            found += [
                Point(f"{name}, {row}", "median distance", median),
                Point(f"{name}, {row}", "p95 distance", p95),
                Point(f"{name}, {row}", "p95 of page load times, ms", tail_ms(replay)),
                Point(name, "by interval", p95, interval_s),
            ]
    return found


STUDY = SessionsStudy(
    "updates",
    "How often managers learn",
    "CT 6.4.2",
    "From 2 minutes to a day the median stays, the tail decays",
    updates,
    "Two days of 40 000 sessions, where the paper's manager takes in ten thousand at a time: an update of 2 minutes "
    "has 28 here. Judged on the second day. A search of a cell tries one configuration an update, so it is far from "
    "over where updates are rare.",
    sessions=40_000,
    plots=(Plot("by interval", "between updates, s", "distance from the best, 95th percentile", log_x=True),),
    duration="5 minutes",
)
