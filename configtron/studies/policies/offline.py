# SPDX-License-Identifier: MIT
"""Offline model: the best configuration per class and site of an emulated tensor, never corrected by outcomes.

A class for which the tensor has no condition takes the nearest class that has one; an unknown site gets Default.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.cell_best import cell_best
from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import conditions_of
from configtron.learner.parts import Saved
from configtron.learner.serving_table import always
from configtron.learner.setting import DEVICE, WARM, Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.model.errors import BadInput


class Offline(TablePolicy):
    """The warm tensor, over the same grid, for good."""

    name = "offline"
    LEARNS: ClassVar[bool] = False
    cells: ClassCells

    def __init__(self, s: Setting):
        grid, sites, classes, warm = s.grid, s.sites, s.classes, s.warm
        cells = ClassCells(grid, sites, s.rng, classes, counts=False)
        super().__init__(grid, sites, s.rng, cells, update_every=0)
        if warm is None:
            raise BadInput("the offline model needs an emulated tensor: name one with --warm FILE")
        if warm.grid.profiles != grid.profiles:
            raise BadInput("the offline model needs a tensor over these very configurations; thompson takes any")
        network = classes.assign(classes.points(conditions_of(warm)))
        best, expected = cell_best(warm, network, len(classes))
        held = np.unique(network[network >= 0])
        away = ((classes.centroid[:, None] - classes.centroid[None, held]) / classes.scale[:, None]) ** 2
        source = held[away.sum(axis=2).argmin(axis=1)]
        picks = np.full((len(classes), len(sites) + 1), grid.default)
        means: Any = np.full(picks.shape, np.nan)
        for at, site in enumerate(sites):
            if site in warm.sites:
                column = warm.sites.index(site)
                picks[:, at], means[:, at] = best[source, column], expected[source, column]
        self.served_ = always(picks.ravel(), "offline", grid.default, means.ravel())

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells,)


ROWS = (PolicyRow("offline", Offline, "the warm tensor's word, for good", takes=WARM + DEVICE, place=9),)
