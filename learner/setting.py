# SPDX-License-Identifier: MIT
"""The arguments that make a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Floats
from configtron.learner.damage import DamageBound
from configtron.learner.engines import ENGINES, GRID
from configtron.learner.evolve import Divergence
from configtron.learner.searches import Engine
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.tensor import Tensor

# The share by which mean page load time may exceed Default's: the operator's degree of randomness.
BUDGET = 0.01
# Options that make a difference to some policies, as `Row.takes` names them.
WARM, ENGINE, CLASSES, DEVICE = ("warm",), ("engine",), ("evolve", "by-device"), ("by-device",)
SPENDS = ("budget",)


@dataclass(frozen=True, slots=True)
class Setting:
    """The arguments that make policies. `truth` and `weight` (how often each condition occurs) are for oracles alone.

    warm is an emulated tensor to start from, where a policy can; update_every as in `TablePolicy`; engine, a name of
    ENGINES, searches cells where a policy does that; divergence: when policies with classes split one, None for never;
    patience: of searches whose decisions are another's, as in `searches.Stop`; bounded: as in `SharedModel`;
    damage: bound on the configurations served (`damage.py`), None for all; oracles are not bound by it;
    budget: the share by which mean page load time may exceed Default's while a policy explores, where it keeps one;
    None for any.
    """

    grid: Grid
    sites: tuple[str, ...]
    classes: Classes
    rng: np.random.Generator
    update_every: int = 500
    warm: Tensor | None = None
    truth: Tensor | None = None
    weight: Floats | None = None
    engine: str = GRID
    divergence: Divergence | None = None
    patience: int = 0
    bounded: bool = True
    damage: DamageBound | None = None
    budget: float | None = BUDGET

    def searcher(self) -> Engine:
        """Return the engine by its name. Errors: `BadInput` for a name that is none, `Missing` for an absent extra."""
        if self.engine not in ENGINES:
            raise BadInput(f"no engine is called {self.engine!r}; there is: {', '.join(ENGINES)}")
        return ENGINES[self.engine](self.grid)

    def oracle(self) -> Tensor:
        """Return the tensor the world is made of. Errors: `BadInput` where there is none, in any world but a simulated
        one."""
        if self.truth is None:
            raise BadInput("this policy knows the truth and runs in simulation only: configtron replay sessions")
        return self.truth
