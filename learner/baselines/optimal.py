# SPDX-License-Identifier: MIT
"""Optimal and cell optimum: what could be had at best, from the tensor itself.

Optimal is given the true network by whoever calls it (`sees_truth`), as in CT section 6; everybody else gets the
history's estimate. The cell optimum is the best one configuration per class and site: the ceiling of any table over
such cells.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import Codes, Contexts, Floats, conditions_of
from configtron.learner.policy import Seen, TablePolicy
from configtron.learner.served import always
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor


class Optimal(TablePolicy):
    """Per condition and site of a tensor the fastest configuration. Contexts must be conditions of that tensor; of
    those that are equal in all that a context says, the first."""

    name: ClassVar[str] = "optimal"
    LEARNS: ClassVar[bool] = False
    sees_truth: ClassVar[bool] = True

    def __init__(self, tensor: Tensor, rng: np.random.Generator):
        super().__init__(tensor.grid, tensor.sites, rng, update_every=0)
        self._names = tuple(tensor.characteristics)
        truth = self._columns(conditions_of(tensor))
        self._condition = {row.tobytes(): at for at, row in reversed(list(enumerate(truth)))}
        expected = tensor.best_ms.astype(np.float64).ravel()
        self.served_ = always(tensor.best.ravel(), "optimal", tensor.grid.default, expected)

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        points = self._columns(contexts)
        distinct, which = np.unique(points, axis=0, return_inverse=True)
        code = np.array([self._condition.get(row.tobytes(), -1) for row in distinct], dtype=np.int64)
        if (code < 0).any():
            raise BadInput("Optimal was shown a network that the tensor does not hold: hand it the true conditions")
        site = self.site_codes(contexts)
        row = code[which.reshape(-1)] * len(self.sites) + np.minimum(site, len(self.sites) - 1)
        return np.where(site < len(self.sites), row, -1), np.full(len(contexts), -1)

    def _columns(self, contexts: Contexts) -> Floats:
        """(n, 3 + characteristics); unknown ones, which no number is, -1."""
        further = [np.nan_to_num(contexts.number(name), nan=-1.0) for name in self._names]
        return np.stack((contexts.bandwidth_kbps, contexts.rtt_ms, contexts.loss, *further), axis=1)

    def learn(self, seen: Seen) -> None:
        """Nothing is left to learn."""


def cell_best(tensor: Tensor, network: Codes, classes: int, weight: Floats | None = None) -> tuple[Codes, Floats]:
    """The fastest configuration on the mean of each cell, (classes, sites), and its mean page load time, ms.

    network: (conditions,) class of each condition; weight: (conditions,) how often each occurs, else all alike.
    """
    known = network >= 0
    share = np.ones(len(network)) if weight is None else weight
    member = np.zeros((classes, len(network)))
    member[network[known], np.arange(len(network))[known]] = share[known]
    flat = tensor.median_ms.reshape(len(network), -1).astype(np.float64)
    mean = (member @ flat) / np.maximum(member.sum(axis=1), 1e-12)[:, None]
    mean = mean.reshape(classes, len(tensor.grid), len(tensor.sites))
    mean[member.sum(axis=1) == 0] = np.nan
    empty = np.isnan(mean).all(axis=1)
    best = np.where(np.isnan(mean), np.inf, mean).argmin(axis=1)
    best[empty] = tensor.grid.default
    found = np.take_along_axis(mean, best[:, None, :], axis=1)[:, 0, :]
    return best, found


class CellOptimum(ClassPolicy):
    """Per class and site the configuration that is fastest on the mean of the class's conditions."""

    name: ClassVar[str] = "cell_optimum"
    LEARNS: ClassVar[bool] = False

    def __init__(self, tensor: Tensor, rng: np.random.Generator, classes: Classes, weight: Floats | None = None):
        super().__init__(tensor.grid, tensor.sites, rng, classes, update_every=0)
        network = classes.assign(classes.points(conditions_of(tensor)))
        best, expected = cell_best(tensor, network, len(classes), weight)
        other = np.full((len(classes), 1), tensor.grid.default)
        unknown = np.full((len(classes), 1), np.nan)
        picks = np.concatenate((best, other), axis=1).ravel()
        self.served_ = always(picks, "best", tensor.grid.default, np.concatenate((expected, unknown), axis=1).ravel())

    def learn(self, seen: Seen) -> None:
        """Nothing is left to learn."""
