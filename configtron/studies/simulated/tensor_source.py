# SPDX-License-Identifier: MIT
"""What the worlds of a study stand on: analytic tensors by shape and seed, or one tensor that was brought.

A measured tensor has no shapes and no emulator beside it: every label of a study becomes one, `measured`, its seeds
differ in sessions and chance alone, and what needs an emulator's tensor is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic
from configtron.studies.sim.conditions import Conditions, draw
from configtron.studies.sim.world import ANALYTIC, CONDITIONS, TENSOR, chance, tensor_of, warm_of

MEASURED = "measured"


@dataclass(frozen=True, slots=True, eq=False)
class TensorSource:
    """variant: which analytic tensor; brought: one instead of all of them; conditions: of an analytic one."""

    variant: str = "analytic"
    brought: Tensor | None = None
    conditions: int = CONDITIONS

    def labels(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the labels that a study compares: `MEASURED` instead of several where a tensor was brought."""
        return labels if self.brought is None or len(labels) == 1 else (MEASURED,)

    def tensor(self, source: str, seed: int) -> Tensor:
        """A world's tensor."""
        return tensor_of(source, seed, self.variant, self.conditions) if self.brought is None else self.brought

    def warm(self, tensor: Tensor, source: str, seed: int) -> Tensor | None:
        """An emulator's tensor of that world, if there is one."""
        return warm_of(tensor, source, seed, self.conditions) if self.brought is None else None

    def parted(self, sources: tuple[str, ...], each: int, seed: int) -> tuple[Tensor, list[Codes]]:
        """A tensor whose conditions belong to as many PoPs as there are sources, and each one's conditions: of its own
        shape, or, of a tensor that was brought, those nearest to one another by bandwidth."""
        if self.brought is not None:
            return self.brought, np.array_split(np.argsort(self.brought.bandwidth_kbps, kind="stable"), len(sources))
        rng = chance(seed, TENSOR)
        drawn = [draw(source, each, rng) for source in sources]
        names = Conditions.__dataclass_fields__
        joined = Conditions(*(np.concatenate([getattr(one, name) for one in drawn]) for name in names))
        tensor = analytic(rng, conditions=joined, own_ln=ANALYTIC[self.variant])
        return tensor, np.array_split(np.arange(len(joined)), len(sources))
