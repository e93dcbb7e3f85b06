# SPDX-License-Identifier: MIT
"""Interim analysis of a learning policy: drop the knobs that have no effect in the outcomes so far.

Rules for this file: the result depends on the recipe and on the stored outcomes alone, so that a run that was killed
gets the same result when it repeats the analysis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from configtron.db.outcomes import Learner, Outcomes
from configtron.learner import interim
from configtron.learner.contrasts import Contrasts
from configtron.learner.importance import DeadKnob
from configtron.learner.logged import Logged, taught
from configtron.learner.reclassify import Watch, settled
from configtron.learner.saved import Recipe, recipe_of
from configtron.learner.table_policy import TablePolicy
from configtron.model.grid import Grid
from configtron.service.learning.learners import warm_of
from configtron.service.learning.parts import within
from configtron.service.progress import Progress, StepProgress, notice

# The job's name in progress events.
AGAIN = "learn again without"


def without_dead_knobs(store: Outcomes, found: Learner, upto: int, outcomes: int, progress: Progress
                       ) -> tuple[Recipe, TablePolicy, Watch | None] | None:  # fmt: skip
    """If an interim analysis is due and finds dead knobs, return the recipe without them, a policy that has learned all
    outcomes up to number `upto` again, and its watch; else None. outcomes: how many those are."""
    if not interim.share(outcomes):
        return None
    recipe = recipe_of(found.recipe)
    dead = _dead(store, found.log, recipe, upto, outcomes, progress)
    if not dead:
        return None
    recipe = replace(recipe, grid=recipe.grid.without([one.dead for one in dead]))
    for one in dead:
        seen = f"{one.dead.reason} in {outcomes} outcomes, where one of {interim.SMALL:.0%} would have been seen"
        of = "of any two of network class, site and other knobs"
        notice(progress, f"{found.name}: {one.dead.knob} is not explored from here on: {seen} in the means {of}")
    policy, watch = recipe.make(warm_of(found)), recipe.watch()
    at = 0
    progress(StepProgress(0, outcomes, AGAIN, "outcomes"))
    for part in _upto(store, found.log, upto, recipe.grid):
        seen_as = part
        if watch is not None:
            seen_as = replace(part, contexts=settled(watch, part.contexts, part.contexts)[0])
        taught(policy, seen_as)
        at += len(part)
        progress(StepProgress(at, outcomes, AGAIN, "outcomes"))
    return recipe, policy, watch


def _dead(store: Outcomes, log: int, recipe: Recipe, upto: int, outcomes: int, progress: Progress
          ) -> list[DeadKnob]:  # fmt: skip
    seen = Contrasts(recipe.grid, recipe.classes, recipe.sites, outcomes)
    for part in _upto(store, log, upto, recipe.grid):
        seen.count(part)
    if seen.counted < outcomes:
        # A policy that learns again would lack them, and its count of outcomes would be wrong.
        gone = f"{outcomes - seen.counted} of {outcomes} outcomes are gone"
        notice(progress, f"{gone}: dead knobs are not searched for")
        return []
    seen.fit()
    for part in _upto(store, log, upto, recipe.grid):
        seen.add(part)
    return interim.small(seen, outcomes)


def _upto(store: Outcomes, log: int, upto: int, grid: Grid) -> Iterator[Logged]:
    for part in store.batches(log):
        known = int((part.number <= upto).sum())
        if known and len(inside := within(part[:known], grid)):
            yield inside
        if known < len(part):
            return
