# SPDX-License-Identifier: MIT
"""The study `arms`: which arm of the ensemble decides, by update. CT Figure 6b."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import ARMS
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.world import world
from configtron.studies.simulated.ensemble_updates import AT, SPANS, between, ensemble
from configtron.studies.simulated.points import Plot, Point, SessionsStudy, lived
from configtron.studies.simulated.tensor_source import TensorSource


def arms(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Which arm decided, by update."""
    here, found = world(source.tensor("spread", seed), sessions, seed), []
    replay = lived(here, [ensemble(here)])
    shown = ("default", "lhc", "gp", "epsilon", "tree", "greedy")
    for name, (first, last) in SPANS.items():
        shares = _shares(replay, between(replay, first, last))
        found += [Point(arm, name, share) for arm, share in shares.items() if arm in shown]
    for at in AT:
        shares = _shares(replay, between(replay, at - 1, at))
        found += [Point(arm, "share", share, float(at)) for arm, share in shares.items() if arm in shown]
    return found


def _shares(replay: Replay, rows: slice) -> dict[str, float]:
    """Share of each arm, 0 too; nothing where there were no sessions."""
    arm = replay.decisions_.arm[rows]
    if not len(arm):
        return {}
    count = np.bincount(arm, minlength=len(ARMS)) / len(arm)
    return dict(zip(ARMS, count.tolist(), strict=True))


STUDY = SessionsStudy(
    "arms",
    "Which arm of the ensemble decides",
    "CT Fig. 6b",
    "The share of the Gaussian process falls, the tree's rises",
    arms,
    "lhc are the Gaussian process's first samples; greedy is a searched cell's own best while no tree stands; "
    "epsilon is the degree of randomness, a tenth of searched cells' sessions.",
    plots=(Plot("share", "update, counted from 1", "share of decisions", log_x=True),),
    duration="3 minutes",
)
