# SPDX-License-Identifier: MIT
"""Connection reuse: a client keeps the configuration of its last connections while they went well.

Named in Configanator's Fig. 1 without its rule. Here: a prefix starts on Default. When the mean of its loads under its
present configuration, relative to the sites' means, exceeds that of its best configuration so far by more than
`patience_ln`, or once in `restless` updates with loads, it moves: in the first case back to the best, in the second
on to one it has not tried.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.cells import observed_best
from configtron.learner.policy import Seen
from configtron.learner.prefixpolicy import PrefixPolicy
from configtron.learner.served import always
from configtron.learner.tally import no_tally


class Reuse(PrefixPolicy):
    """patience_ln: how much worse than its best a client's configuration may be; restless: as above."""

    name: ClassVar[str] = "reuse"
    STATE: ClassVar[tuple[str, ...]] = (*PrefixPolicy.STATE, "tally_", "kept_")

    def __init__(self, *given: Any, patience_ln: float = 0.1, restless: int = 10, **more: Any):
        super().__init__(*given, **more)
        self.patience_ln, self.restless = patience_ln, restless
        self.tally_ = no_tally(self.rows, len(self.grid))
        self.kept_ = np.full(self.rows, self.grid.default)
        self.served_ = always(self.kept_, "reuse", self.grid.default)

    def learn(self, seen: Seen) -> None:
        self.tally_ = self.tally_.plus(seen.row, seen.configuration, self.relative(seen))
        rows = np.unique(seen.row[seen.row >= 0])
        mean, best = self.tally_.mean(), observed_best(self.tally_, self.grid.default)
        chance = self.rng.random((len(rows), 2))
        kept = self.kept_.copy()
        for row, (move, where) in zip(rows, chance, strict=True):
            untried = np.flatnonzero(self.tally_.count[row] == 0)
            if move < 1.0 / self.restless and len(untried):
                kept[row] = untried[int(where * len(untried))]
            elif not mean[row, kept[row]] - mean[row, best[row]] <= self.patience_ln:
                kept[row] = best[row]
        self.kept_ = kept
        self.served_ = always(kept, "reuse", self.grid.default)
