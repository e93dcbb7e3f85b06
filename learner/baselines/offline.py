# SPDX-License-Identifier: MIT
"""Offline model: what an emulated tensor says is best per class and site, never corrected by what happens.

A class for which the tensor has no condition takes the nearest class that has one; an unknown site gets Default.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.baselines.optimal import cell_best
from configtron.learner.classes import Classes
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import conditions_of
from configtron.learner.policy import Seen
from configtron.learner.served import always
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.tensor import Tensor


class Offline(ClassPolicy):
    """warm: the emulated tensor, over the same grid."""

    name: ClassVar[str] = "offline"
    LEARNS: ClassVar[bool] = False

    def __init__(
        self, grid: Grid, sites: tuple[str, ...], rng: np.random.Generator, classes: Classes, warm: Tensor | None
    ):
        super().__init__(grid, sites, rng, classes, update_every=0)
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

    def learn(self, seen: Seen) -> None:
        """Nothing is learned."""
