# SPDX-License-Identifier: MIT
"""The configurations that another driver can put in force, and substitutes for those that none can.

Rules for this file: the caller passes in the drivers' reach (their own tables are an edge's); a knob at its default
needs no driver.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Floats
from configtron.model.grid import Grid
from configtron.model.nouns import Value

Mask = npt.NDArray[np.bool_]
# Loads that show a value's effect to a few per cent, where load times deviate by a third.
LEAST_LOADS = 100
# Whether a knob can be given a value.
Takes = Callable[[str, Value], bool]


def reachable_mask(grid: Grid, takes: Takes) -> Mask:
    """Return (configurations,) whether the driver takes each value that is no default; true of Default."""
    usual = {knob.name: knob.default for knob in grid.knobs}
    found = np.array([
        all(value == usual[knob] or takes(knob, value) for knob, value in profile.settings) for profile in grid.profiles
    ])  # fmt: skip
    found[grid.default] = True
    return found


def loaded_mask(grid: Grid, loads: Floats) -> Mask:
    """Return (configurations,) whether each of its values had `LEAST_LOADS`, with any values of other knobs; true of
    Default. A model's prediction for values that were never loaded is extrapolation. loads: (configurations,)."""
    found = np.ones(len(grid), dtype=np.bool_)
    for at in range(len(grid.knobs)):
        value = grid.positions[:, at]
        found &= np.bincount(value, weights=loads)[value] >= LEAST_LOADS
    found[grid.default] = True
    return found


def list_unreachable(grid: Grid, takes: Takes) -> tuple[str, ...]:
    """Return knobs that can be given no value but their default."""
    return tuple(
        knob.name
        for knob in grid.knobs
        if not any(value != knob.default and takes(knob.name, value) for value in knob.values)
    )


def find_substitutes(grid: Grid, among: Mask) -> Codes:
    """Return for each configuration, (configurations,), the one of `among` that shares most settings with it.

    Among ties, return the one nearest to Default. A configuration of `among` stands for itself.
    """
    at = grid.positions
    alike = (at[:, None, :] == at[None, :, :]).sum(axis=2) * (len(grid.knobs) + 1)
    alike = np.where(among[None, :], alike + (at == at[grid.default]).sum(axis=1)[None, :], -1)
    found: Codes = np.where(among, np.arange(len(grid)), alike.argmax(axis=1))
    return found
