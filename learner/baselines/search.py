# SPDX-License-Identifier: MIT
"""Bayesian optimisation of every row on its own, then its best: BO, BO+NC and CherryPick+NC.

The three differ in what a row is and in when a search is over; both are arguments. Source: CT section 6; CherryPick
(NSDI'17): expected improvement below 10 %, at least 6 configurations, 3 first samples.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.cells import DONE, FIRST, Searches, Stop, advance, joined_searches, observed_best, started
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import ARM
from configtron.learner.engines.grid import Engine
from configtron.learner.policy import Seen
from configtron.learner.prefixpolicy import PrefixPolicy
from configtron.learner.served import Served
from configtron.learner.tally import no_tally


class ClassSearch(ClassPolicy):
    """BO+NC, CherryPick+NC: a search per class and site. engine, first_samples, stop: as in `Ensemble`."""

    name: ClassVar[str] = "bo_nc"
    STATE: ClassVar[tuple[str, ...]] = (*ClassPolicy.STATE, "searches_")

    searches_: Searches

    def __init__(self, *given: Any, engine: Engine, first_samples: int = 4, stop: Stop | None = None, **more: Any):
        super().__init__(*given, **more)
        _begin(self, engine, first_samples, stop or Stop())

    def learn(self, seen: Seen) -> None:
        _go_on(self, seen)

    def grow(self, before: int) -> None:
        more = started(self.rows - before, self.grid, self.searches_.first.shape[1], self.rng)
        self.searches_ = joined_searches(self.searches_, more)


class CherryPick(ClassSearch):
    """CherryPick+NC."""

    name: ClassVar[str] = "cherrypick_nc"


class PrefixSearch(PrefixPolicy):
    """BO: a search per client prefix; a client without one gets Default."""

    name: ClassVar[str] = "bo"
    STATE: ClassVar[tuple[str, ...]] = (*PrefixPolicy.STATE, "tally_", "searches_")

    searches_: Searches

    def __init__(self, *given: Any, engine: Engine, first_samples: int = 4, stop: Stop | None = None, **more: Any):
        super().__init__(*given, **more)
        self.tally_ = no_tally(self.rows, len(self.grid))
        _begin(self, engine, first_samples, stop or Stop())

    def learn(self, seen: Seen) -> None:
        self.tally_ = self.tally_.plus(seen.row, seen.configuration, self.relative(seen))
        _go_on(self, seen)


def _begin(policy: Any, engine: Engine, first_samples: int, stop: Stop) -> None:
    policy.engine, policy.stop = engine, stop
    policy.searches_ = started(policy.rows, policy.grid, first_samples, policy.rng)
    policy.served_ = _serve(policy)


def _go_on(policy: Any, seen: Seen) -> None:
    rows = np.unique(seen.row[seen.row >= 0])
    policy.searches_ = advance(policy.searches_, policy.tally_, rows, policy.engine, policy.stop)
    policy.served_ = _serve(policy)


def _serve(policy: Any) -> Served:
    phase = policy.searches_.phase
    best = observed_best(policy.tally_, policy.grid.default)
    picks = np.where(phase == DONE, best, policy.searches_.testing)
    arm = np.where(phase == DONE, ARM["greedy"], np.where(phase == FIRST, ARM["lhc"], ARM["gp"])).astype(np.int8)
    column, rows = np.ones((len(phase), 1)), len(phase)
    nothing = np.zeros(0, dtype=np.int64)
    return Served(picks[:, None], arm[:, None], column, column * np.nan, np.zeros(rows), nothing, policy.grid.default)
