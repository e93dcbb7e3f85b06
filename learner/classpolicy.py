"""Policies that tell clients apart by network class and website: one table row, a cell, for each pair.

The row of class c and site s is c x (sites + 1) + s; the last site stands for all that are not in the vocabulary.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts
from configtron.learner.grid import Grid
from configtron.learner.policy import TablePolicy


class ClassPolicy(TablePolicy):
    """A table policy over cells. classes: those to start with, made offline (`classes.fit`, `classes.choose_k`)."""

    STATE: ClassVar[tuple[str, ...]] = ("classes_",)

    def __init__(
        self,
        grid: Grid,
        sites: tuple[str, ...],
        rng: np.random.Generator,
        classes: Classes,
        *,
        update_every: int = 500,
    ):
        super().__init__(grid, sites, rng, update_every=update_every)
        self.classes_ = classes
        self.class_ids_ = classes.ids

    @property
    def rows(self) -> int:
        """Cells: classes x (sites + 1)."""
        return len(self.classes_) * (len(self.sites) + 1)

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        network = self.classes_.assign(contexts.points())
        row = network * (len(self.sites) + 1) + self.site_codes(contexts)
        return np.where(network < 0, -1, row), network

    def row_of(self, network: int, contexts: Contexts, row: Codes) -> Codes:
        return network * (len(self.sites) + 1) + self.site_codes(contexts)
