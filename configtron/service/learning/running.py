# SPDX-License-Identifier: MIT
"""`learn run`: a policy made or resumed, and taken through the outcomes of the database.

An interruption, a kill or `cancelled` ends it between two batches; each batch is one transaction, so that the next run
goes on with the same result as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.db.outcomes import Learner, Outcomes
from configtron.learner import ENGINES, POLICIES, PREFERRED, row_of, untaken
from configtron.learner.class_cells import PART_MEMBERS
from configtron.learner.damage import DamageBound
from configtron.learner.driver_support import Mask
from configtron.learner.imported import is_imported
from configtron.learner.saved import recipe_of
from configtron.model.bounds import LONGEST_NAME, check_number, check_texts
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.wording import count_are
from configtron.service.learning import lessons
from configtron.service.learning.importable import importable
from configtron.service.learning.lessons import MOST_CLASSES, OFFLINE, LearnResult, PolicyOptions
from configtron.service.learning.reach import allowed
from configtron.service.progress import Cancelled, Progress, never, notice, unheard

# Characters of a strange value that is shown.
SHOWN = 60
# Reasons of refusals that are shown.
REASONS_SHOWN = 3
# Options that make no difference to some policies.
IDLE = ("warm", "engine", "evolve", "by_device", "budget")


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """policy, name: as `learn run` takes them; given: names of the options of `PolicyOptions` that were asked
    for, which a policy that goes on refuses; most: outcomes to learn from now; fresh: forget the policy of that name
    first."""

    db: Path
    policy: str = ""
    name: str = ""
    policy_options: PolicyOptions = PolicyOptions()
    given: Sequence[str] = ()
    most: int | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        if not self.name.isprintable() or len(self.name) > LONGEST_NAME:
            raise BadInput(f"name: {self.name[:SHOWN]!r} is no name: printable, of at most {LONGEST_NAME} characters")
        check_number("most", self.most, 1, whole=True, beside=", or None for all", absent=True)


def run(options: LearnOptions, progress: Progress = unheard, cancelled: Cancelled = never) -> LearnResult:
    """Let a policy learn from the database's outcomes. Errors: `BadInput`."""
    called = options.name or options.policy or PREFERRED
    try:
        with Outcomes(options.db) as store:
            found = _made(store, called, options, progress)
            taken = lessons.learn(store, found, options.most, progress, cancelled)
    except KeyboardInterrupt:
        notice(progress, _kept(options.db, called))
        raise
    if taken.cancelled:
        notice(progress, _kept(options.db, called))
    for text in _remarks(taken):
        notice(progress, text)
    return taken


def _made(store: Outcomes, called: str, options: LearnOptions, progress: Progress) -> Learner:
    """Return the policy that goes on, or one that is made new."""
    found, wanted = store.learner(called), options.policy_options
    kind = _kind(store, found, options.name, options.policy, wanted.engine)
    if found is None or options.fresh:
        before, found = found, _begun(store, called, kind, options, progress)
        if before is not None and (other := _other_grid(before, found)):
            notice(progress, other)
        if why := _refused(found, wanted):
            notice(progress, why)
        return found
    _same(found, options.policy, list(options.given))
    return store.bind_learner(found, wanted.log) if wanted.log < 0 else found


def _other_grid(before: Learner, now: Learner) -> str:
    """Return how many configurations a policy that is made anew gained and lost; "" where they are the same."""
    try:
        old = set(recipe_of(before.recipe).grid.profiles)
    except BadInput:
        return ""
    new = set(recipe_of(now.recipe).grid.profiles)
    if old == new:
        return ""
    gained, lost = len(new - old), len(old - new)
    return f"{now.name}: chooses among {len(new)} configurations now, {len(old)} before: {gained} new, {lost} gone"


def _begun(store: Outcomes, called: str, kind: str, options: LearnOptions, progress: Progress) -> Learner:
    """Make a policy. Errors: `BadInput`, before anything is forgotten."""
    wanted = options.policy_options
    for what in IDLE:
        if what in options.given and (kind in POLICIES or is_imported(kind)):
            if why := untaken([kind], what.replace("_", "-")):
                raise BadInput(why)
    limits = wanted.limits

    def able(grid: Grid, damage: DamageBound | None) -> Mask:
        assert limits is not None, "asked only where there are limits"
        return allowed(grid, limits, damage).allowed

    k = None if wanted.classes == "auto" else _number_of_classes(wanted.classes)
    return lessons.begin(store, called, kind, wanted, k, fresh=options.fresh, allowed=None if limits is None else able,
                         progress=progress)  # fmt: skip


def _refused(found: Learner, wanted: PolicyOptions) -> str:
    """Say how many configurations are not chosen, and why; "" if all may be."""
    recipe = recipe_of(found.recipe)
    if recipe.allowed is None or wanted.limits is None or len(recipe.allowed) == len(recipe.grid):
        return ""
    why = "; ".join(allowed(recipe.grid, wanted.limits, recipe.damage).why[:REASONS_SHOWN])
    refused = f"{len(recipe.grid) - len(recipe.allowed)} of {len(recipe.grid)} configurations are not chosen"
    return f"{refused}, `configtron tune` would refuse them: {why}"


def _kept(db: Path, called: str) -> str:
    """Say what an interrupted run leaves behind."""
    kept = None
    if db.is_file():
        with Outcomes(db, read_only=True) as store:
            kept = store.learner(called)
    if kept is None:
        return f"{called}: nothing is learned or saved yet"
    again = f"go on with: configtron learn run --policy {called}"
    return f"{called}: {count_are(kept.outcomes, 'outcome')} learned and saved; {again}"


def _remarks(taken: LearnResult) -> list[str]:
    """Return what else a run is to report."""
    found, called = [], taken.name
    if taken.set_aside:
        out = count_are(taken.set_aside, "outcome")
        found.append(f"{called}: {out} of configurations that it lacks, and set aside; to learn from"
                     " them too, make it anew: --fresh")  # fmt: skip
    if not taken.outcomes and not taken.set_aside:
        found.append(f"{called}: nothing new to learn from; `configtron learn status` shows what there is")
    if taken.outcomes and not taken.updates:
        read = count_are(taken.learned, "outcome")
        found.append(f"{called}: nothing is learned before the first update (one each --update-every outcomes; 500 by"
                     f" default), and {read} read; import more")  # fmt: skip
    if taken.outcomes and taken.classes != taken.began_with:
        split = f", {taken.splits} of them split off by --evolve" if taken.splits else ""
        began = f"it began with {taken.began_with}, and cut them finer by what it learned"
        found.append(f"{called}: decides by {taken.classes} classes now: {began}{split}")
    if taken.latencies:
        median = sorted(taken.latencies)[len(taken.latencies) // 2] + 1
        moved = f"{called}: {len(taken.latencies)} times a client came to another class"
        found.append(f"{moved}; after a change of network, with the {median}. outcome at the median")
    if taken.unexplored:
        found.append(f"{called}: goes without {', '.join(taken.unexplored)} where proven to do nothing; "
                     f"see: configtron learn knobs --policy {called}")  # fmt: skip
    if taken.outcomes and taken.suggested == 0:
        found.append(f"{called}: its engine was never asked: the log does not try what a search begins with; "
                     "log outcomes of a policy that tries everything (mab_nc, brute_nc)")  # fmt: skip
    return found


def _kind(store: Outcomes, found: Learner | None, name: str, policy: str, engine: str) -> str:
    """Return the row of `learn policies` that the policy is, or will be made as. A misspelt word is reported first,
    whatever else is wanting. Errors: `BadInput`."""
    if engine not in ENGINES:
        raise BadInput(f"no engine is called {engine!r}; there is: {', '.join(ENGINES)}")
    if found is not None and (not policy or policy == found.name):
        return found.policy
    kind = policy or PREFERRED
    importable([kind])
    if is_imported(kind):
        row_of(kind)
    elif kind not in POLICIES:
        if store.learner(kind) is not None:
            raise BadInput(f"{kind} is there already and goes on under its own name; leave --name out")
        others = (one.name for one in store.learners() if one.name not in POLICIES)
        there = ", ".join([*POLICIES, "package.module:Class", *others])
        raise BadInput(f"no policy is called {kind!r}; there is: {there}")
    if "=" in name:
        raise BadInput(f'--name {name!r}: what has a "=" is KNOB=VALUE to `learn evaluate --policy`; choose another')
    if name != kind and name in POLICIES:
        raise BadInput(f"--name {name!r} already means something to --policy; choose another")
    return kind


def _same(found: Learner, policy: str, given: list[str]) -> None:
    given = [one for one in given if one != "policy" or policy not in (found.policy, found.name)]
    if not given:
        return
    wanted = ", ".join(f"--{one.replace('_', '-')}" for one in given)
    raise BadInput(f"{found.name} ({found.policy}) goes on as it was made, without {wanted}; or start it anew: --fresh")


def _number_of_classes(text: str) -> int:
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit() and digits):
        raise BadInput(f"--classes {text[:SHOWN]!r}: a number from 1 to {MOST_CLASSES}, or auto")
    # Python reads no number of thousands of digits.
    if len(digits) > len(str(MOST_CLASSES)) or int(digits) > MOST_CLASSES:
        why = f"they are made from the first {OFFLINE} outcomes, of which each is to have {PART_MEMBERS}"
        raise BadInput(f"--classes {text[:SHOWN]}: at most {MOST_CLASSES}: {why}")
    return int(digits)
