# SPDX-License-Identifier: MIT
"""Default: the untouched stack for everybody. What every gain is counted from."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from configtron.learner.columns import Codes, Contexts
from configtron.learner.policy import Seen, TablePolicy
from configtron.learner.served import always
from configtron.model.grid import Grid


class Static(TablePolicy):
    """One configuration for everybody, whatever is observed."""

    name: ClassVar[str] = "static"
    LEARNS: ClassVar[bool] = False

    def __init__(self, grid: Grid, rng: np.random.Generator, configuration: int, *, arm: str = "static"):
        super().__init__(grid, (), rng, update_every=0)
        self.served_ = always(np.array([configuration]), arm, grid.default)

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        return np.zeros(len(contexts), dtype=np.int64), np.full(len(contexts), -1)

    def learn(self, seen: Seen) -> None:
        """Nothing is learned."""


class Default(Static):
    """The grid's default configuration for everybody."""

    name: ClassVar[str] = "default"

    def __init__(self, grid: Grid, rng: np.random.Generator):
        super().__init__(grid, rng, grid.default, arm="default")
