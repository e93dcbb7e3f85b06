# SPDX-License-Identifier: MIT
"""Groups of classes whose networks are alike: all of them, halves, quarters, eighths, and each by itself.

Rules for this file: groups are made of networks and of how many clients have them, never of page load times, so that
the choice of groups does not depend on the result of their comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.features import SCALE_LN

# Levels of groups between all classes and single ones.
HALVINGS = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Classes by number; level: 0 for all, the last for single ones."""

    level: int
    classes: tuple[int, ...]


def groups(centroid: Floats, loads: Floats) -> tuple[Group, ...]:
    """Return the groups of K classes with centroids (K, 3 and more) and loads (K,); only the first group holds classes
    without loads."""
    every = np.arange(len(centroid))
    found, level = [Group(0, tuple(every.tolist()))], [every[loads > 0]]
    for depth in range(HALVINGS):
        level = [half for classes in level for half in _halved(classes, centroid, loads)]
        found += [Group(depth + 1, tuple(classes.tolist())) for classes in level if len(classes) > 1]
    return (*found, *(Group(HALVINGS + 1, (int(k),)) for k in every[loads > 0]))


def _halved(classes: Codes, centroid: Floats, loads: Floats) -> list[Codes]:
    """Return two halves of the loads, along the feature in which the classes differ most."""
    if len(classes) < 2:
        return []
    at, weight = centroid[classes, :3] / np.array(SCALE_LN), loads[classes] / loads[classes].sum()
    mean = weight @ at
    along = at[:, int((weight @ (at - mean) ** 2).argmax())]
    order = np.argsort(along, kind="stable")
    upto = int(np.clip(np.searchsorted(np.cumsum(weight[order]), 0.5) + 1, 1, len(classes) - 1))
    return [np.sort(classes[order[:upto]]), np.sort(classes[order[upto:]])]
