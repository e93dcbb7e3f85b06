# SPDX-License-Identifier: MIT
"""Cell optimum: the best one configuration per class and site, from the tensor itself.

It is the upper bound of any policy that divides clients no further than into such cells.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from configtron.learner.cell_best import cell_best
from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import conditions_of
from configtron.learner.parts import Saved
from configtron.learner.serving_table import always
from configtron.learner.setting import Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy


class CellOptimum(TablePolicy):
    """Per class and site the configuration that is fastest on the mean of the class's conditions."""

    name = "cell_optimum"
    LEARNS: ClassVar[bool] = False
    cells: ClassCells

    def __init__(self, s: Setting):
        tensor, classes = s.oracle(), s.classes
        cells = ClassCells(tensor.grid, tensor.sites, s.rng, classes, counts=False)
        super().__init__(tensor.grid, tensor.sites, s.rng, cells, update_every=0)
        network = classes.assign(classes.points(conditions_of(tensor)))
        best, expected = cell_best(tensor, network, len(classes), s.weight)
        other = np.full((len(classes), 1), tensor.grid.default)
        unknown = np.full((len(classes), 1), np.nan)
        picks = np.concatenate((best, other), axis=1).ravel()
        self.served_ = always(picks, "best", tensor.grid.default, np.concatenate((expected, unknown), axis=1).ravel())

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells,)


ROWS = (
    PolicyRow("cell_optimum", CellOptimum,
        "fastest on the mean of each class and site: the ceiling of the classes given", oracle=True, place=17),
)  # fmt: skip
