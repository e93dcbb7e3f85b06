# SPDX-License-Identifier: MIT
"""The study `drift`: clients that change their network for good; the delay until detection, and its cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from configtron.studies.sim.metrics import distance
from configtron.studies.sim.sessions import Sessions, drifted
from configtron.studies.sim.world import World, chance, world
from configtron.studies.simulated.points import Point, SessionsStudy, lived, quantiles
from configtron.studies.simulated.tensor_source import TensorSource
from configtron.studies.simulated.watched import Watched, watched

LEARNERS = ("configtron", "thompson")
# Where the generators of the drift and of what sessions show begin, beyond those of a world.
MOVES, SAMPLES = 11, 12
# When a manager that only has the history notices, as a share of all sessions: 2 000 of 40 000.
CORRECTED = 0.05


def drift(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """The same sessions under three histories: watched, corrected 2 000 sessions later, never corrected."""
    tensor = source.tensor("spread", seed)
    here = world(tensor, sessions, seed, warm=source.warm(tensor, "spread", seed))
    half = len(here.sessions) // 2
    at_s, corrected_s = float(here.sessions.at_s[half]), float(here.sessions.at_s[half + round(CORRECTED * sessions)])
    never = _moved(here, at_s, np.inf)
    sight = watched(never, tensor, here.classes, chance(seed, SAMPLES), moved_s=at_s)
    histories = {"watched": sight.sessions, "told": _moved(here, at_s, corrected_s - at_s), "never told": never}
    found = _noticed(sight)
    for name in LEARNERS:
        for words, these in histories.items():
            found += _lost(f"{name}, {words}", replace(here, sessions=these), name)
    return found


def _moved(here: World, at_s: float, noticed_s: float) -> Sessions:
    return drifted(here.sessions, here.tensor, chance(here.seed, MOVES), at_s=at_s, noticed_s=noticed_s)


def _noticed(sight: Watched) -> list[Point]:
    """Return what the watch noticed; without sessions of moved clients there is no point."""
    noticed, row = ~np.isnan(sight.after), "re-classification"
    found = [Point(row, "false, per 1000 sessions", 1000.0 * sight.restless)]
    if len(noticed):
        found.append(Point(row, "share of moved clients noticed", float(noticed.mean())))
    if noticed.any():
        median, p95 = quantiles(sight.after[noticed])
        found += [
            Point(row, "median sessions until", median),
            Point(row, "p95 sessions until", p95),
            Point(row, "median s until", float(np.median(sight.waited_s[noticed]))),
        ]
    return found


def _lost(row: str, here: World, name: str) -> list[Point]:
    """Median distances before, just after, and in the eighth of all sessions that ends a quarter of them later."""
    replay, n = lived(here, [here.policy(name)]), len(here.sessions)
    half = n // 2
    spans = {
        "median before": slice(half - n // 8, half),
        "just after": slice(half, half + round(CORRECTED * n)),
        "a quarter later": slice(half + n // 8, half + n // 4),
    }
    return [Point(row, words, float(np.median(distance(replay, rows)))) for words, rows in spans.items()]


STUDY = SessionsStudy(
    "drift",
    "Clients that change their network for good",
    "CT sections 4 and 6",
    "Changes are found by Bayesian online change-point detection, and change a client's class",
    drift,
    "Half of the clients move at half time. Every session is one sample of its network (8 % off, one in fifty with "
    "three times the round trip, loss counted over 1000 packets); a client is decided for by the medians since its "
    "last change. `told`: somebody corrects the history 2 000 sessions later. The paper reports no such latency. "
    "`until`: a client's own sessions and seconds until one was decided by its new class; `just after`: the next 2 000 "
    "sessions.",
    sessions=40_000,
    duration="15 minutes",
)
