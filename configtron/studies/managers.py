# SPDX-License-Identifier: MIT
"""The study `managers`: one manager for all PoPs, or one for each. CT section 6.4.1."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes
from configtron.model.tensor import Tensor
from configtron.studies.sim.conditions import DEFAULT_MEDIAN_MS
from configtron.studies.sim.metrics import distance
from configtron.studies.sim.sessions import USUAL, Sessions, drawn
from configtron.studies.sim.world import SESSIONS, chance, world
from configtron.studies.simulated.points import Point, SessionsStudy, last_half, lived, quantiles, tail_ms
from configtron.studies.simulated.tensor_source import TensorSource

# Networks of each PoP's own, and share of its prefixes whose network is another's: CT's 17 %.
OF_A_POP, OVERLAP = 75, 0.17
LEARNERS = ("configtron", "thompson")


def local(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Four PoPs, one a trace, each with its own manager, or all with one."""
    tensor, homes = source.parted(tuple(DEFAULT_MEDIAN_MS), OF_A_POP, seed)
    here = world(tensor, 0, seed, sessions=_homed(tensor, homes, sessions, seed))
    found = []
    for name in LEARNERS:
        tails = {}
        for row, managers in (("local", len(DEFAULT_MEDIAN_MS)), ("global", 1)):
            replay = lived(here, [here.policy(name, at) for at in range(managers)])
            tails[row] = tail_ms(replay)
            median, p95 = quantiles(distance(replay, last_half(replay)))
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


STUDY = SessionsStudy(
    "managers",
    "A manager for each PoP, or one for all",
    "CT 6.4.1",
    "A global manager is less than 2 % better in the tail; 17 % of the traces' conditions overlap",
    local,
    "Four PoPs stand for the four traces, with 17 % of prefixes in another's networks. The managers share twenty "
    "classes made offline over all networks; what is local is what is learned.",
    figures={("configtron, global against local", "tail gain"): "below 0.02"},
    duration="10 minutes",
)
