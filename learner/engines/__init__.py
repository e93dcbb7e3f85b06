# SPDX-License-Identifier: MIT
"""Engines that suggest the next configuration to try. Each is imported when it is made; GPyOpt's two are an extra."""

from __future__ import annotations

from collections.abc import Callable

from configtron.learner.searches import Engine
from configtron.model.grid import Grid


def _grid(grid: Grid) -> Engine:
    from configtron.learner.engines.grid import GridEngine

    return GridEngine(grid)


def _gpy_grid(grid: Grid) -> Engine:
    from configtron.learner.engines.gpyopt import GpyGrid

    return GpyGrid(grid)


def _gpy_classic(grid: Grid) -> Engine:
    from configtron.learner.engines.gpyopt import GpyClassic

    return GpyClassic(grid)


# The engine that searches cells unless another is named.
GRID = "grid"
# Engines that search a cell, by name.
ENGINES: dict[str, Callable[[Grid], Engine]] = {GRID: _grid, "gpyopt": _gpy_grid, "gpyopt-classic": _gpy_classic}
