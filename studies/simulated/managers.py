# SPDX-License-Identifier: MIT
"""One manager for all or one for each PoP, and how often they learn: CT's sections 6.4.1 and 6.4.2."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes
from configtron.learner.sim.conditions import DEFAULT_MEDIAN_MS
from configtron.learner.sim.loop import Replay
from configtron.learner.sim.metrics import away
from configtron.learner.sim.sessions import USUAL, Arrivals, Sessions, drawn
from configtron.learner.sim.world import SESSIONS, chance, world
from configtron.model.tensor import Tensor
from configtron.studies.simulated.ground import Ground
from configtron.studies.simulated.points import Plot, Point, Study, last_half, lived, quantiles

# Networks of each PoP's own, and share of its prefixes whose network is another's: CT's 17 %.
OF_A_POP, OVERLAP = 75, 0.17
LEARNERS = ("configtron", "thompson")
# Of those that can be updated some thousand times in a study that people wait for.
UPDATED = ("configtron", "mab_nc")
# Two days at this rate are some forty thousand sessions.
DAY_S, DAYS = 86_400.0, 2.0
INTERVALS_S = {"2 min": 120.0, "15 min": 900.0, "1 h": 3600.0, "6 h": 21_600.0, "1 day": DAY_S}


def local(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """Four PoPs, one a trace, each with its own manager, or all with one."""
    tensor, homes = ground.parted(tuple(DEFAULT_MEDIAN_MS), OF_A_POP, seed)
    here = world(tensor, 0, seed, sessions=_homed(tensor, homes, sessions, seed))
    found = []
    for name in LEARNERS:
        tails = {}
        for row, managers in (("local", len(DEFAULT_MEDIAN_MS)), ("global", 1)):
            replay = lived(here, [here.policy(name, at) for at in range(managers)])
            tails[row] = _tail_ms(replay)
            median, p95 = quantiles(away(replay, last_half(replay)))
            found += [
                Point(f"{name}, {row}", "median distance", median),
                Point(f"{name}, {row}", "p95 distance", p95),
                Point(f"{name}, {row}", "p95 of page load times, ms", tails[row]),
            ]
        found.append(Point(f"{name}, global against local", "tail gain", 1.0 - tails["global"] / tails["local"]))
    return found


def _homed(tensor: Tensor, homes: list[Codes], n: int, seed: int) -> Sessions:
    """Sessions whose prefixes are at home in their PoP's networks, but for the overlap."""
    rng, pops = chance(seed, SESSIONS), len(homes)
    pop = np.arange(USUAL.prefixes) % pops
    abroad = rng.random(USUAL.prefixes) < OVERLAP
    # Abroad is any PoP but the own one.
    whose = np.where(abroad, (pop + 1 + rng.integers(pops - 1, size=USUAL.prefixes)) % pops, pop)
    at = rng.random(USUAL.prefixes)
    home = np.array([homes[pop][int(share * len(homes[pop]))] for pop, share in zip(whose, at, strict=True)])
    return drawn(tensor, n, rng, home=home)


def _tail_ms(replay: Replay) -> float:
    return float(np.percentile(replay.median_ms_[last_half(replay)], 95))


def updates(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """The same two days, learned from more and more rarely."""
    arrivals = Arrivals(per_s=sessions / (DAYS * DAY_S))
    here, found = world(ground.tensor("spread", seed), sessions, seed, arrivals=arrivals), []
    for name in UPDATED:
        for row, interval_s in INTERVALS_S.items():
            replay = lived(here, [here.policy(name)], interval_s)
            median, p95 = quantiles(away(replay, last_half(replay)))
            found += [
                Point(f"{name}, {row}", "median distance", median),
                Point(f"{name}, {row}", "p95 distance", p95),
                Point(f"{name}, {row}", "p95 of page load times, ms", _tail_ms(replay)),
                Point(name, "by interval", p95, interval_s),
            ]
    return found


LOCAL = Study(
    "managers",
    "A manager for each PoP, or one for all",
    "CT 6.4.1",
    "A global manager is less than 2 % better in the tail; 17 % of the traces' conditions overlap",
    local,
    "Four PoPs stand for the four traces, with 17 % of prefixes in another's networks. The managers share twenty "
    "classes made offline over all networks; what is local is what is learned.",
    figures={("configtron, global against local", "tail gain"): "below 0.02"},
)
UPDATES = Study(
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
)
