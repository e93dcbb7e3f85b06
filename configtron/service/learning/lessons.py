# SPDX-License-Identifier: MIT
"""A policy taken through the outcomes of the database: made, taught batch by batch, saved with each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO

import numpy as np

from configtron.db.outcomes import Learner, Outcomes
from configtron.learner.cell_search import CellSearch
from configtron.learner.class_cells import PART_MEMBERS, ClassCells
from configtron.learner.classes import ALLOWED_K, LEAST_OF_DEVICE, NO_CONTEXTS, Classes
from configtron.learner.columns import ARMS
from configtron.learner.damage import DamageBound
from configtron.learner.driver_support import Mask
from configtron.learner.importance import dead_knobs, proven, tensor_tally
from configtron.learner.initial_classes import ALIKE_LN, AUTO, FEW, Beginning, beginning, tally_of
from configtron.learner.logged import Logged, grid_of
from configtron.learner.saved import Recipe, recipe_of, state_of
from configtron.learner.tensor_mapping import mapped
from configtron.learner.warmstart import FIRST_NOISE_LN
from configtron.model.bounds import WIDEST, check_number, check_texts
from configtron.model.errors import BadInput
from configtron.model.grid import DEAD, Grid
from configtron.model.nouns import Profile, Value
from configtron.model.tensor import Tensor, read
from configtron.model.wording import count_of
from configtron.service.learning.dead_knobs import without_dead_knobs
from configtron.service.learning.learners import damage_of, none_in, restored_with_watch
from configtron.service.learning.parts import parts, teach
from configtron.service.progress import Cancelled, Progress, StepProgress, never, notice, unheard
from configtron.tune.guard import Limits

# Outcomes that classes are made from: the offline start.
OFFLINE = 10_000
# Where a number of classes is asked for, as many of those are to be in each, on the average, as in one that is cut.
MOST_CLASSES = OFFLINE // PART_MEMBERS
# Loads of a cell in which a logger that follows this policy, if not at once, would have tried what it asks for.
PATIENCE = 20
# A logger that tries most configurations will try what a search asks for: it is waited for twice as long as the median
# configuration takes to come up.
PATIENCE_PER_TRY = 2.0
# Sites that are distinguished. A shared model has a column for each of them, and a row for each of them and class: what
# it sums is by the cube of their number, 1.4 GB at most with a hundred and 153 classes, no machine's with 3000.
MOST_SITES = 100
# Configurations kept apart; the whole of the paper's grid is 768. With 1000 of them and 12 sites thompson took
# 590 MB and 10 ms an outcome on a busy core; with 2000 it was not through 6000 outcomes in 100 s.
MOST_CONFIGURATIONS = 1000
# Sites times configurations: what a policy keeps grows with both. All sites there may be, of the live grid.
MOST_PAIRS = 20_000
# The job's name in progress events.
LEARN = "learn"


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What a policy is made of, once. log: a log's number, 0 for all, -n for all that measured what log n did; classes:
    a number as text, or auto; warm, damage_from: tensors' files; limits: what the operator allows, None for all."""

    log: int = 0
    seed: int = 1
    classes: str = "auto"
    update_every: int = 500
    engine: str = "grid"
    warm: bytes | None = None
    watch: bool = False
    evolve: bool = False
    by_device: bool = False
    features: str = "auto"
    damage: str = ""
    damage_from: bytes | None = None
    limits: Limits | None = field(default_factory=lambda: Limits({}))
    budget: float = 0.01

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("log", self.log, -WIDEST, whole=True)
        check_number("seed", self.seed, 0, whole=True)
        check_number("update_every", self.update_every, 1, whole=True)
        check_number("budget", self.budget, 0, 1)
        if self.features not in (AUTO, FEW):
            raise BadInput(f"features: {self.features!r} is neither {AUTO} nor {FEW}")


@dataclass
class LearnResult:
    """What a run came to. agreed: decisions that were the logger's too; learned: outcomes in all, earlier ones too;
    splits: classes that were split off; latencies: for each client that came to another class, its own outcomes from
    the change until then; unexplored: knobs that were proven to do nothing; suggested: cells for which the engine
    found a configuration to try, None for a policy that searches no cells; classes: those it decides by now;
    began_with: those that its first outcomes were put into; set_aside: outcomes of configurations that are none of its
    grid's, read and not learned; cancelled: it was ended before it had read all."""

    name: str
    policy: str
    log: int
    outcomes: int = 0
    learned: int = 0
    agreed: int = 0
    updates: int = 0
    classes: int = 0
    splits: int = 0
    arms: Counter[str] = field(default_factory=Counter)
    latencies: list[int] = field(default_factory=list)
    unexplored: tuple[str, ...] = ()
    suggested: int | None = None
    began_with: int = 0
    set_aside: int = 0
    cancelled: bool = False


def begin(
    store: Outcomes, name: str, policy: str, wanted: PolicyOptions, k: int | None, *, fresh: bool = False,
    allowed: Callable[[Grid, DamageBound | None], Mask] | None = None, progress: Progress = unheard,
) -> Learner:  # fmt: skip
    """Make a policy for a log and keep it, in place of the one of that name if fresh. k: its number of classes, None
    for as few as keep members alike; allowed: which configurations of a grid it may choose, within a bound on damage;
    None: all. Errors: `BadInput` for an empty log, or a tensor of another world; then what was kept stays."""
    log, evolve, by_device = wanted.log, wanted.evolve, wanted.by_device
    tensor = None if wanted.warm is None else read(BytesIO(wanted.warm), "--warm")
    first = next(store.batches(log, size=OFFLINE), None)
    if first is None:
        raise BadInput(none_in(store, log))
    grid, own = _grid_for(store, log, tensor)
    sites = tensor.sites if own and tensor is not None else _distinguished(store, log, len(grid), progress)
    start = beginning(first, k, np.random.default_rng(wanted.seed), by_device=by_device, grid=grid,
                      features=wanted.features)  # fmt: skip
    grid = _alive(grid, first, start.classes, tensor if own else None)
    if tensor is not None and (left := mapped(tensor, grid, sites).left_out):
        notice(progress, f"--warm: not used of it: {left}")
    divergence = start.divergence() if evolve else None
    measured = tensor if wanted.damage_from is None else read(BytesIO(wanted.damage_from), "--damage-from")
    bound = damage_of(wanted.damage, measured, grid, progress)
    recipe = Recipe(policy, grid, sites, start.classes, wanted.seed, wanted.update_every, wanted.engine, wanted.watch,
                    divergence, _patience(first, grid), damage=bound, budget=wanted.budget)  # fmt: skip
    if allowed is not None:
        recipe = replace(recipe, allowed=tuple(grid.rows[at] for at in np.flatnonzero(allowed(grid, bound))))
    state = state_of(recipe.make(tensor), recipe.watch())
    found = store.begin_learner(name, policy, log, recipe.text(), wanted.warm, state, fresh=fresh)
    for one in grid.dead:
        where = f" where {one.where} is {one.value}" if one.where else ""
        notice(progress, f"{one.knob}{where} is not explored: {one.reason}")
    for text in _bounded(start, auto=k is None, evolve=evolve, by_device=by_device):
        notice(progress, text)
    return found


def _grid_for(store: Outcomes, log: int, tensor: Tensor | None) -> tuple[Grid, bool]:
    """The configurations to learn about, and whether they and the sites are the tensor's: where all that was logged is
    among them. Else they are the log's, and the tensor is taken for what it says of those."""
    if tensor is not None and tensor.grid.has(Profile("default", _defaults(tensor.grid))):
        known = set(tensor.sites)
        try:
            for profile in store.profiles(log):
                tensor.grid.index(profile)
        except BadInput:
            known = set()
        if known & set(store.sites(log)):
            return tensor.grid, True
    return _grid(store, log), False


def _defaults(grid: Grid) -> tuple[tuple[str, Value], ...]:
    return tuple((knob.name, knob.default) for knob in grid.knobs if knob.default is not None)


def _patience(first: Logged, grid: Grid) -> int:
    """Loads of a cell to wait for what a search asks for: by how often the log tries the median configuration."""
    tried = Counter(map(int, first.on(grid).configuration))
    share = float(np.median([tried[at] for at in range(len(grid))])) / max(len(first), 1)
    return max(PATIENCE, math.ceil(PATIENCE_PER_TRY / share)) if share > 0 else PATIENCE


def _grid(store: Outcomes, log: int) -> Grid:
    """Return the log's configurations. Errors: `BadInput` for more of them than a policy can distinguish."""
    profiles = store.profiles(log)
    if len(profiles) > MOST_CONFIGURATIONS:
        values = Counter(name for name, _ in {one for profile in profiles for one in profile.settings})
        name, count = values.most_common(1)[0]
        which = f"log {log} has" if log else "the logs have"
        raise BadInput(
            f"{which} {len(profiles)} configurations, and a policy distinguishes {MOST_CONFIGURATIONS}: learn from a"
            f" log of fewer (--log N), or import this one again with {name} rounded, which has {count} values"
        )
    return grid_of(profiles)


def _distinguished(store: Outcomes, log: int, configurations: int, progress: Progress) -> tuple[str, ...]:
    """Return the sites that the policy will know; others are learned about together, as those are that come later."""
    sites, most = store.sites(log), min(MOST_SITES, MOST_PAIRS // configurations)
    if len(sites) <= most:
        return sites
    apart = f"the {most} with the most outcomes are distinguished, the others learned about together"
    notice(progress, f"{len(sites)} sites: {apart}")
    return store.sites(log, most)


def _alive(grid: Grid, first: Logged, classes: Classes, tensor: Tensor | None) -> Grid:
    """Without the knobs that do nothing: known beforehand, or by the first outcomes, or by the warm start's repeats."""
    tally = tally_of(first, classes, grid)
    dead = proven(dead_knobs(grid, tally, tally.noise_ln(FIRST_NOISE_LN)))
    if tensor is not None and tensor.repeats_ms is not None:
        tally = tensor_tally(tensor)
        dead += proven(dead_knobs(grid, tally, tally.noise_ln(0.0)))
    return grid.without([one for one in dict.fromkeys((*DEAD, *dead)) if len(grid.without([one])) < len(grid)])


def _bounded(start: Beginning, *, auto: bool, evolve: bool, by_device: bool) -> Iterator[str]:
    """Say by which bound classes were made and will be split, and how noise was separated from divergence."""
    classes, noise = start.classes, start.repeats
    if classes.everyone:
        yield f"{NO_CONTEXTS}; for classes, import contexts with the outcomes (docs/learn.md)"
        return
    if auto or evolve:
        taken = f"{noise.sigma_ln:.3f} by {noise.count} repeats" if noise.sigma_ln is not None else "unknown"
        alike = f"members may differ by {ALIKE_LN:g} in ln(ms), the noise of loads apart: {taken}"
        yield f"{count_of(len(classes), 'class')} to begin with; {alike}"
    if auto and start.spread_ln > ALIKE_LN:
        spread = f"members differ by {start.spread_ln:.3f}"
        yield f"no number of classes up to {ALLOWED_K[-1]} keeps them that alike: {spread}"
    if (auto or evolve) and noise.sigma_ln is None:
        yield f"noise counts as difference between members, so that there may be too many classes: {noise.why}"
    if evolve:
        bound = f"its loads spread by more than {start.divergence().spread_ln:.3f} in ln(ms)"
        yield f"a class is split where {bound}, or where two halves of it want different configurations"
    if start.relevance.asked:
        yield _features(start)
    if by_device:
        own = sorted(set(classes.devices) - {""})
        yield (f"classes of their own: {', '.join(own)}" if own else
               f"no device has {LEAST_OF_DEVICE} of the first outcomes: all classes are of any device")  # fmt: skip


def _features(start: Beginning) -> str:
    """Name the features of classes besides bandwidth, round trip and loss, of those that were there to ask."""
    asked = [f"{one.name} (chance {one.chance:.2g})" for one in start.relevance.asked if one.entered]
    others = [one.name for one in start.relevance.asked if not one.entered]
    decide = f"classes live over bandwidth, round trip, loss{''.join(f', {words}' for words in asked)}"
    return f"{decide}{'; nothing more than chance: ' + ', '.join(others) if others else ''}"


def _counted(progress: Progress, read: int, total: int) -> Callable[[int], None]:
    """Return what reports outcomes of a part as they are learned; the last one once it is saved."""
    return lambda n: progress(StepProgress(min(read + n, total - 1), total, LEARN, "outcomes"))


def learn(store: Outcomes, found: Learner, most: int | None, progress: Progress = unheard,
          cancelled: Cancelled = never) -> LearnResult:  # fmt: skip
    """Teach a policy what is new, at most so many outcomes; each part is saved in one transaction. Outcomes of
    configurations that the policy lacks are set aside. `cancelled` is asked some four times a second; what is learned
    by then is saved."""
    policy, watch = restored_with_watch(found)
    new = store.count(found.log, found.position)
    total = new if most is None else min(new, most)
    taken = LearnResult(found.name, found.policy, found.log, learned=found.outcomes)
    taken.began_with = len(recipe_of(found.recipe).classes)
    progress(StepProgress(0, total, LEARN, "outcomes"))
    read = 0
    for part in parts(store, found, policy.grid, total):
        lesson = teach(policy, watch, part.logged, _counted(progress, read, total), cancelled)
        logged, chosen = part.logged[: lesson.learned], lesson.decisions()
        whole = lesson.learned == len(part.logged)
        upto = part.upto if whole else int(logged.number[-1])
        read += part.read if whole else lesson.learned
        taken.set_aside += part.read - len(part.logged) if whole else 0
        taken.latencies += lesson.latencies
        taken.outcomes += len(logged)
        taken.agreed += int((chosen.configuration == logged.on(policy.grid).configuration).sum())
        named = policy.grid.profiles, policy.class_ids_
        looked = upto, taken.learned + taken.outcomes
        if policy.LEARNS and len(logged) and (anew := without_dead_knobs(store, found, *looked, progress)):
            recipe, policy, watch = anew
            found = found._replace(recipe=recipe.text())
        found = store.save_learner(found, state_of(policy, watch), logged, chosen, *named, upto)
        taken.arms.update({ARMS[at]: int(n) for at, n in enumerate(np.bincount(chosen.arm)) if n})
        progress(StepProgress(read, total, LEARN, "outcomes"))
        if read < total and (not whole or cancelled()):
            taken.cancelled = True
            break
    taken.learned += taken.outcomes
    taken.updates, taken.classes = policy.updates_, len(policy.class_ids_)
    taken.suggested = next((part.suggested() for part in policy.parts() if isinstance(part, CellSearch)), None)
    taken.splits = policy.cells.splits_ if isinstance(policy.cells, ClassCells) else 0
    taken.unexplored = tuple(dict.fromkeys(one.knob for one in policy.grid.dead if one not in DEAD))
    return taken
