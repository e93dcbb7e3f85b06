# SPDX-License-Identifier: MIT
"""`learn knobs`: which knobs matter, and which do nothing, by a tensor or by what a policy has seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configtron.db.outcomes import Outcomes
from configtron.learner.class_cells import has_classes
from configtron.learner.importance import DeadKnob, Importance, dead_knobs, knob_importance, tensor_tally
from configtron.learner.warmstart import FIRST_NOISE_LN
from configtron.model.grid import DEAD, Dead
from configtron.model.tensor import Tensor
from configtron.service.learning.learners import restored_policy, saved
from configtron.service.progress import Progress, notice, unheard

# Of the bootstrap's resamples: the same question has the same answer.
SEED = 0


@dataclass(frozen=True, slots=True)
class KnobEffects:
    """importance: of a tensor, excess without each knob; dead: knobs without an effect beyond noise; unexplored: knobs
    that a policy goes without."""

    importance: tuple[Importance, ...] = ()
    dead: tuple[DeadKnob, ...] = ()
    unexplored: tuple[Dead, ...] = ()


def knobs_of_tensor(tensor: Tensor) -> KnobEffects:
    """Return the knobs' importance, and, of a tensor with repeats, which do nothing."""
    importance = tuple(knob_importance(tensor, np.random.default_rng(SEED)))
    if tensor.repeats_ms is None:
        return KnobEffects(importance)
    tally = tensor_tally(tensor)
    return KnobEffects(importance, tuple(dead_knobs(tensor.grid, tally, tally.noise_ln(0.0))))


def knobs_of_policy(db: Path, name: str, progress: Progress = unheard) -> KnobEffects:
    """Return the knobs that a policy goes without, and those that did nothing in what it has seen; name "" for the one
    saved last, if there is any. Errors: `BadInput` for a name that no policy has."""
    found = None
    if name or db.is_file():
        with Outcomes(db) as store:
            found = saved(store, name, progress) if name or store.learners() else None
    if found is None:
        notice(progress, "no policy has seen anything yet, and no --tensor is named: what is known beforehand")
        return KnobEffects()
    policy = restored_policy(found)
    unexplored = tuple(one for one in policy.grid.dead if one not in DEAD)
    if not has_classes(policy) or not policy.LEARNS:
        notice(progress, f"{found.name} ({found.policy}) counts nothing by class: no knob can be found dead")
        return KnobEffects(unexplored=unexplored)
    tally = policy.cells.tally_
    dead = tuple(dead_knobs(policy.grid, tally, tally.noise_ln(FIRST_NOISE_LN)))
    return KnobEffects(dead=dead, unexplored=unexplored)
