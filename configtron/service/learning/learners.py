# SPDX-License-Identifier: MIT
"""Policies as the database keeps them: found by name, made again as they stood."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from configtron.db.outcomes import Learner, Outcomes
from configtron.learner.damage import BOUND, DamageBound, bound_of, damage_bound
from configtron.learner.reclassify import Watch
from configtron.learner.saved import recipe_of, restore
from configtron.learner.state import OtherVersion
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.tensor import Tensor, read
from configtron.model.wording import count_of
from configtron.service.learning.importable import importable
from configtron.service.progress import Progress, notice, unheard

# Logs that are named where one is wanted.
SHOWN = 12
MAKE = "make one: configtron learn run"


def none_in(store: Outcomes, log: int) -> str:
    """Return that a log (0: any) has no outcomes, and which logs have."""
    bring = "bring some: configtron learn import, configtron replay sessions --log"
    there = [str(one.id) for one in store.logs()]
    if log <= 0 or not there:
        return f"the database has no outcomes; {bring}"
    which = "has no outcomes" if str(log) in there else "is not in the database"
    return f"log {log} {which}; there is: {', '.join(there[:SHOWN])}{', ...' if len(there) > SHOWN else ''}"


def saved(store: Outcomes, name: str, progress: Progress = unheard) -> Learner:
    """Return the policy of that name, or the one that was saved last. Errors: `BadInput` if there is none."""
    every = store.learners()
    if not every:
        raise BadInput(f"no policy has learned anything yet; {MAKE}")
    # Of those of one second, the one that was begun last.
    chosen = name or max(enumerate(every), key=lambda one: (one[1].saved_at, one[0]))[1].name
    if not name and len(every) > 1:
        notice(progress, f"{chosen} is meant, of {len(every)} policies the one saved last; --policy names another")
    found = store.learner(chosen)
    if found is None:
        raise BadInput(f"no policy is called {name!r}; there is: {', '.join(one.name for one in every)}; {MAKE}")
    return found


def drop(db: Path, name: str) -> bool:
    """Forget a policy and its decisions; return whether there was one."""
    with Outcomes(db) as store:
        return store.drop_learner(name)


def log_of_metric(db: Path, metric: str) -> int:
    """Return -n, n being the first log of that metric. Errors: `BadInput` where there is none."""
    with Outcomes(db) as store:
        found = store.metrics()
    if metric not in found:
        raise BadInput(f"no log has metric {metric!r}; there is: {', '.join(found) or 'none'}")
    return -found[metric]


def restored_policy(found: Learner) -> TablePolicy:
    """Return a saved policy as it stood. Errors: `BadInput` for one of another version."""
    return restored_with_watch(found)[0]


def restored_with_watch(found: Learner) -> tuple[TablePolicy, Watch | None]:
    """Return a saved policy as it stood, and the watch over its clients if it has one. Errors: `BadInput`."""
    try:
        recipe = recipe_of(found.recipe)
        importable([recipe.policy])
        policy, watch = recipe.make(warm_of(found)), recipe.watch()
        restore(found.state, policy, watch)
    except OtherVersion as error:
        lost = f"what it learned from {count_of(found.outcomes, 'outcome')} is lost, outcomes and exported rules stay"
        anew = f"make it anew: `configtron learn run --policy {found.name} --fresh` ({lost})"
        raise BadInput(f"policy {found.name}: {error.what}; {anew}") from error
    return policy, watch


def warm_of(found: Learner) -> Tensor | None:
    """Return the tensor that a saved policy was made with."""
    return None if found.warm is None else read(BytesIO(found.warm), f"the tensor of {found.name}")


def damage_of(text: str, tensor: Tensor | None, grid: Grid, progress: Progress = unheard) -> DamageBound | None:
    """Return the bound on damage that a word means; None where none is wanted, or nothing was measured and none is
    asked for. Errors: `BadInput` for a bound that no tensor measured."""
    bound = bound_of(text) if text else BOUND
    if bound is None or (not text and (tensor is None or tensor.damage is None)):
        return None
    if tensor is None:
        raise BadInput("--damage: no tensor measured what neighbours lose; name a tensor: --damage-from FILE")
    found = damage_bound(tensor, grid, bound)
    measured = int((~np.isnan(found.high)).any(axis=1).sum())
    notice(
        progress,
        f"served is what neighbours lose at most {bound:g} bytes by for each byte of a page, as measured"
        f" on {measured} conditions; elsewhere no bbr, no unpaced window above 30, no more than six connections",
    )
    return found
