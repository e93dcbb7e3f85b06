# SPDX-License-Identifier: MIT
"""`learn evaluate`: the mean page load time that candidates would have had on logged outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configtron.db.outcomes import Outcomes
from configtron.learner.logged import grid_of
from configtron.learner.policies.default import Static
from configtron.learner.table_policy import TablePolicy
from configtron.learner.value import Value, value
from configtron.model.bounds import WIDEST, check_number, check_texts
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning_json import setting_of
from configtron.service.learning.learners import none_in, restored_policy, saved
from configtron.service.learning.parts import known_alone
from configtron.service.progress import Progress, notice, unheard

# Characters of a candidate that are shown of it.
SHOWN = 60


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """candidates: names of saved policies, default, or KNOB=VALUE,...; none: the one saved last. log: as in
    `PolicyOptions`; last: from so many outcomes."""

    db: Path
    candidates: tuple[str, ...] = ()
    log: int = 0
    last: int = 100_000

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("log", self.log, -WIDEST, whole=True)
        check_number("last", self.last, 1, whole=True)


@dataclass(frozen=True, slots=True)
class CandidateValue:
    """A candidate's value by each estimator, on so many sessions; learned_from: it has learned from all of them."""

    candidate: str
    value: Value
    sessions: int
    learned_from: bool


def evaluate(options: EvaluateOptions, progress: Progress = unheard) -> tuple[CandidateValue, ...]:
    """Value candidates on the outcomes that came after any that one of them learned from, so that all are judged by the
    same ones; where there are none, on all. Errors: `BadInput` for no outcomes, or outcomes without propensities."""
    with Outcomes(options.db) as store:
        logged = store.last(options.last, options.log)
        if logged is None:
            raise BadInput(f"no outcomes to judge by: {none_in(store, options.log)}")
        names = options.candidates or (saved(store, "", progress).name,)
        made = {name: _candidate(store, name, options.log, progress) for name in names}
    position = max(position for _, position in made.values())
    later = logged[int((logged.number <= position).sum()) :]
    used, found = later if len(later) else logged, []
    for name, (candidate, _) in made.items():
        used = known_alone(used, candidate.grid, name, progress)
    for name, (candidate, own) in made.items():
        seen = own > 0 and not len(later)
        if seen:
            notice(progress, f"{name}: has learned from all of these outcomes, so they cannot judge it; log new ones")
        judged = value(candidate, used.contexts, used.judging(candidate.grid), used.plt_ms, learned_from=seen)
        found.append(CandidateValue(name, judged, len(used), seen))
    return tuple(found)


def _candidate(store: Outcomes, name: str, log: int, progress: Progress) -> tuple[TablePolicy, int]:
    """Return the policy, and the last outcome it learned from."""
    if name == "default" or "=" in name:
        settings = () if name == "default" else tuple(setting_of(word) for word in name.split(","))
        if len(dict(settings)) < len(settings):
            raise BadInput(f"{name[:SHOWN]!r} sets a knob twice")
        asked = Profile(name, settings)
        grid = grid_of((*store.profiles(log), asked))
        return Static(grid, np.random.default_rng(0), grid.index(asked)), 0
    found = saved(store, name, progress)
    return restored_policy(found), found.position
