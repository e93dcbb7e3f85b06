# SPDX-License-Identifier: MIT
"""The new outcomes of a log in the parts that a policy is taught and saved by.

Outcomes of configurations that the policy's grid lacks teach it nothing: they are read and set aside, so that a log
which begins to try something else does not end the policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from configtron.db.outcomes import BATCH, Learner, Outcomes
from configtron.learner import interim
from configtron.learner.columns import Decisions
from configtron.learner.logged import Logged, taught
from configtron.learner.reclassify import Watch, settled
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Profile
from configtron.model.wording import count_are
from configtron.service.progress import Cancelled, Progress, notice

# Outcomes between two checks of cancellation, to begin with; s that they should take.
FIRST_STEP, CHECK_S = 500, 0.25


@dataclass(frozen=True, slots=True)
class LogPart:
    """Outcomes of the policy's configurations; read: how many were read for them, those set aside too; upto: number of
    the last one read."""

    logged: Logged
    read: int
    upto: int


@dataclass(slots=True)
class TaughtPart:
    """What became of a part: how many outcomes were learned, what the policy decided, latencies as in `LearnResult`."""

    learned: int = 0
    decided: list[Decisions] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)

    def decisions(self) -> Decisions:
        """Return all decisions in order."""
        names = Decisions.__dataclass_fields__
        return Decisions(*(np.concatenate([getattr(one, name) for one in self.decided]) for name in names))


def parts(store: Outcomes, found: Learner, grid: Grid, total: int) -> Iterator[LogPart]:
    """Yield what is new, `total` outcomes read; cut where one is looked for knobs that do nothing."""
    read = learned = 0
    for batch in store.batches(found.log, found.position, min(BATCH, total) or 1):
        logged = batch[: total - read]
        inside, at, before = within(logged, grid), 0, 0
        while at < len(inside) or not before:
            more = min(len(inside) - at, interim.left(found.outcomes + learned))
            part, at, learned = inside[at : at + more], at + more, learned + more
            upto = int(logged.number[-1] if at == len(inside) else part.number[-1])
            count = int((logged.number <= upto).sum())
            yield LogPart(part, count - before, upto)
            before = count
        read += len(logged)
        if read == total:
            return


def within(logged: Logged, grid: Grid) -> Logged:
    """Return the outcomes whose configurations the grid has."""
    inside = np.array([_has(grid, profile) for profile in logged.profiles], dtype=bool)
    if inside.all():
        return logged
    rows = np.flatnonzero(inside[logged.decisions.configuration])
    position = np.cumsum(inside) - 1
    decisions = logged.decisions[rows]
    decisions = replace(decisions, configuration=position[decisions.configuration])
    profiles = tuple(profile for profile, has in zip(logged.profiles, inside, strict=True) if has)
    numbers = logged.number[rows], logged.contexts[rows], decisions, logged.plt_ms[rows], logged.measured_at[rows]
    return Logged(*numbers, profiles, logged.class_ids)


def known_alone(logged: Logged, grid: Grid, name: str, progress: Progress) -> Logged:
    """Return the outcomes whose configurations a policy of that name has, and report how many were set aside; all of
    them where it has none of these configurations."""
    inside = within(logged, grid)
    if not 0 < len(inside) < len(logged):
        return logged
    out = count_are(len(logged) - len(inside), "outcome")
    notice(progress, f"{name}: {out} of configurations that it lacks, and not counted")
    return inside


def _has(grid: Grid, profile: Profile) -> bool:
    try:
        grid.index(profile)
    except BadInput:
        return False
    return True


def teach(policy: TablePolicy, watch: Watch | None, logged: Logged, count: Callable[[int], None], cancelled: Cancelled
          ) -> TaughtPart:  # fmt: skip
    """Teach a policy outcomes, fewer where `cancelled` ends it; `count` gets how many it has learned."""
    done, step = TaughtPart(), FIRST_STEP
    while done.learned < len(logged) or not done.decided:
        before, began = done.learned, time.monotonic()
        some = logged[before : before + step]
        if watch is not None:
            contexts, moved = settled(watch, some.contexts, some.contexts)
            some = replace(some, contexts=contexts)
            done.latencies += [one.latency for _, one in moved]
        done.decided.append(taught(policy, some, lambda n, before=before: count(before + n)))  # type: ignore[misc]
        done.learned += len(some)
        step = max(step // 2, 1) if time.monotonic() - began > CHECK_S else 2 * step
        if done.learned < len(logged) and cancelled():
            break
    return done
