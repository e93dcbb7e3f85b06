# SPDX-License-Identifier: MIT
"""One configuration for every client, whatever is observed: Default, and the best static one in hindsight.

Default is the untouched stack; every gain is counted from it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from configtron.learner.parts import OneCell
from configtron.learner.serving_table import always
from configtron.learner.setting import Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.model.grid import Grid


class Static(TablePolicy):
    """One configuration for every client. name: of its row and of its saved state."""

    name = "static"
    LEARNS: ClassVar[bool] = False

    def __init__(self, grid: Grid, rng: np.random.Generator, configuration: int):
        super().__init__(grid, (), rng, OneCell(), update_every=0)
        self.served_ = always(np.array([configuration]), "static", grid.default)

    @classmethod
    def make(cls, setting: Setting) -> Static:
        """Return the configuration with the lowest mean page load time over all conditions, in hindsight."""
        truth = setting.oracle()
        mean = np.average(truth.median_ms.mean(axis=2, dtype=np.float64), axis=0, weights=setting.weight)
        return cls(truth.grid, setting.rng, int(np.argmin(mean)))


class Default(TablePolicy):
    """The grid's default configuration for every client."""

    name = "default"
    LEARNS: ClassVar[bool] = False

    def __init__(self, grid: Grid, rng: np.random.Generator):
        super().__init__(grid, (), rng, OneCell(), update_every=0)

    @classmethod
    def make(cls, setting: Setting) -> Default:
        """Return the default of a setting's grid."""
        return cls(setting.grid, setting.rng)


ROWS = (
    PolicyRow("default", Default.make, "the untouched stack for everybody", place=1),
    PolicyRow("static", Static.make, "the best one configuration for everybody, in hindsight", oracle=True, place=2),
)
