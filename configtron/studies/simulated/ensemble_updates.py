# SPDX-License-Identifier: MIT
"""Replays of the paper's ensemble, read by update: what `convergence` and `arms` share."""

from __future__ import annotations

import numpy as np

from configtron.learner.policies.ensemble import Ensemble, EnsembleOptions
from configtron.learner.setting import Setting
from configtron.learner.table_policy import TablePolicy
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.world import POLICY, World, chance
from configtron.studies.simulated.points import EVERY_S

# Updates at whose end the curves are read: CT's "iterations".
AT = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 115)
SPANS = {"update 1": (0, 1), "updates 3 to 10": (2, 10), "updates 100 on": (99, 10**6)}


def ensemble(here: World, *, use_gp: bool = True, use_tree: bool = True) -> TablePolicy:
    tensor, rng = here.tensor, chance(here.seed, POLICY)
    setting = Setting(tensor.grid, tensor.sites, here.classes, rng, update_every=0)
    return Ensemble(setting, EnsembleOptions(use_gp=use_gp, use_tree=use_tree))


def between(replay: Replay, first: int, last: int) -> slice:
    """Sessions between two updates."""
    begin, end = np.searchsorted(replay.sessions.at_s[: replay.at_], (first * EVERY_S, last * EVERY_S))
    return slice(int(begin), int(end))
