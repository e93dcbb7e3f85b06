# SPDX-License-Identifier: MIT
"""The fastest configuration of each cell by a tensor."""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.model.tensor import Tensor


def cell_best(tensor: Tensor, network: Codes, classes: int, weight: Floats | None = None) -> tuple[Codes, Floats]:
    """Return the fastest configuration on the mean of each cell, (classes, sites), and its mean page load time, ms.

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
