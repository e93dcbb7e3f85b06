# SPDX-License-Identifier: MIT
"""Brute force: every configuration once, in the grid's order, then the best observed. Per client, or per class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.cells import observed_best
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import ARM
from configtron.learner.policy import Seen
from configtron.learner.prefixpolicy import PrefixPolicy
from configtron.learner.served import Served
from configtron.learner.tally import Tally, no_tally


class BruteClass(ClassPolicy):
    """Brute+NC: a row per class and site."""

    name: ClassVar[str] = "brute_nc"

    def __init__(self, *given: Any, **more: Any):
        super().__init__(*given, **more)
        self.served_ = exhausting(self.tally_, self.grid.default)

    def learn(self, seen: Seen) -> None:
        self.served_ = exhausting(self.tally_, self.grid.default)


class BrutePrefix(PrefixPolicy):
    """Brute: a row per client prefix."""

    name: ClassVar[str] = "brute"
    STATE: ClassVar[tuple[str, ...]] = (*PrefixPolicy.STATE, "tally_")

    def __init__(self, *given: Any, **more: Any):
        super().__init__(*given, **more)
        self.tally_ = no_tally(self.rows, len(self.grid))
        self.served_ = exhausting(self.tally_, self.grid.default)

    def learn(self, seen: Seen) -> None:
        self.tally_ = self.tally_.plus(seen.row, seen.configuration, self.relative(seen))
        self.served_ = exhausting(self.tally_, self.grid.default)


def exhausting(tally: Tally, default: int) -> Served:
    """All configurations that a row has not tried, equally likely; once there is none, its best.

    Sessions of one interval share the table, so "in the grid's order" would give them all the same one.
    """
    rows, width = tally.count.shape
    untried = tally.count == 0
    left = untried.sum(axis=1)
    weight = np.where(left[:, None] > 0, untried / np.maximum(left, 1)[:, None], 0.0)
    over = np.flatnonzero(left == 0)
    weight[over, observed_best(tally, default)[over]] = 1.0
    arm = np.where(left[:, None] > 0, ARM["brute"], ARM["greedy"]) * np.ones((1, width), dtype=np.int64)
    picks = np.tile(np.arange(width), (rows, 1))
    nothing = np.zeros(0, dtype=np.int64)
    return Served(picks, arm.astype(np.int8), weight, np.full((rows, width), np.nan), np.zeros(rows), nothing, default)
