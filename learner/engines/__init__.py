# SPDX-License-Identifier: MIT
"""Engines that suggest the next configuration to try, and their protocol.

Each is imported when it is made; GPyOpt's two are an extra.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from configtron.learner.columns import Codes, Floats
from configtron.model.grid import Grid


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The configuration to try next. gain: expected improvement on the best so far, as a share of its page load
    time."""

    configuration: int
    gain: float


class Engine(Protocol):
    """One way to pick the next configuration."""

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        """tried (n,) configurations, each once, with page load times ms (n,); pending (m,) ones under way.

        Never suggests a tried or pending configuration, unless nothing else is left. Errors: `BadInput` for n = 0.
        """


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
