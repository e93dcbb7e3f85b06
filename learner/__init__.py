"""POLICIES: every way to choose a configuration. To add one.

A class in a file of its own (`learner/baselines/` for what a learner is held against), a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from configtron.errors import BadInput
from configtron.learner.baselines.default import Default, Static
from configtron.learner.baselines.optimal import CellOptimum, Optimal
from configtron.learner.classes import Classes
from configtron.learner.columns import Floats
from configtron.learner.grid import Grid
from configtron.learner.policy import TablePolicy
from configtron.learner.sim.tensor import Tensor

__all__ = ["POLICIES", "Row", "Setting", "policy"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What policies are made from. `truth` and `weight` (how often each condition occurs) are for oracles alone.

    warm is an emulated tensor to start from, where a policy can; update_every as in `TablePolicy`.
    """

    grid: Grid
    sites: tuple[str, ...]
    classes: Classes
    rng: np.random.Generator
    update_every: int = 500
    warm: Tensor | None = None
    truth: Tensor | None = None
    weight: Floats | None = None

    def oracle(self) -> Tensor:
        """The tensor the world is made of. Errors: `BadInput` where there is none, in any world but a simulated one."""
        if self.truth is None:
            raise BadInput("this policy knows the truth and runs in simulation only: configtron replay sessions")
        return self.truth


@dataclass(frozen=True, slots=True)
class Row:
    """A policy: how to make it, and what it is, in a few words. oracle: it needs the truth."""

    name: str
    make: Callable[[Setting], TablePolicy]
    help: str
    oracle: bool = False


def _best_static(s: Setting) -> TablePolicy:
    truth = s.oracle()
    mean = np.average(truth.median_ms.mean(axis=2, dtype=np.float64), axis=0, weights=s.weight)
    return Static(truth.grid, s.rng, int(np.argmin(mean)))


POLICIES = {
    row.name: row
    for row in (
        Row("default", lambda s: Default(s.grid, s.rng), "the untouched stack for everybody"),
        Row("static", _best_static, "the best one configuration for everybody, in hindsight", True),
        Row("optimal", lambda s: Optimal(s.oracle(), s.rng), "the fastest for the true network and the site", True),
        Row(
            "cell_optimum",
            lambda s: CellOptimum(s.oracle(), s.rng, s.classes, s.weight),
            "the fastest on the mean of each class and site: the ceiling of any such table",
            True,
        ),
    )
}


def policy(name: str, setting: Setting) -> TablePolicy:
    """A policy by name. Errors: `BadInput` for a name that is none."""
    if name not in POLICIES:
        raise BadInput(f"no policy is called {name!r}; there is: {', '.join(POLICIES)}")
    return POLICIES[name].make(setting)
