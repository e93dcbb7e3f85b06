# SPDX-License-Identifier: MIT
"""A simulated world from a few words: a tensor, sessions over it, classes made offline, a tensor to start from.

Everything is drawn from one seed, each part from a generator of its own, so that more sessions or another policy leave
the rest of the world as it was. A warm start's tensor is another seed's: other networks, strengths a third off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner import Setting, policy
from configtron.learner.classes import Classes, axes_of, fit, points_of
from configtron.learner.columns import Codes
from configtron.learner.driver_support import Mask
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import IDIOSYNCRATIC_LN, OWN_LN, analytic, mis_specified
from configtron.studies.sim.conditions import SHAPES, draw
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.reports import Reports
from configtron.studies.sim.sessions import USUAL, Arrivals, Sessions, drawn, networks_of

# Networks of an analytic world, classes over them, PoPs of local managers: CT's five regions.
CONDITIONS, CLASSES, POPS = 300, 20, 5
# Name of an analytic world -> spread of each cell's own effect, ln.
ANALYTIC = {"analytic": OWN_LN, "idiosyncratic": IDIOSYNCRATIC_LN}
# Where each part's generator begins, so that none is shared.
TENSOR, WARM, SESSIONS, CLASS, POLICY, NOISE = range(6)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The simulated world of a replay. reports: load times that policies get, None: the true ones
    (`distortions.py`)."""

    tensor: Tensor
    sessions: Sessions
    classes: Classes
    warm: Tensor | None
    seed: int
    # How single loads differ from medians.
    spread: Noise = Noise()
    reports: Reports | None = None

    def policy(self, name: str, manager: int = 0, **changed: object) -> TablePolicy:
        """Return a policy for this world, updated by the loop's clock; each manager has chance of its own."""
        rng = chance(self.seed, POLICY, manager)
        tensor = self.tensor
        setting = Setting(tensor.grid, tensor.sites, self.classes, rng, 0, self.warm, tensor)
        return policy(name, replace(setting, **changed))  # type: ignore[arg-type]

    def noise(self) -> np.random.Generator:
        """Return the loads' own chance."""
        return chance(self.seed, NOISE)


def chance(seed: int, part: int, more: int = 0) -> np.random.Generator:
    """Return the generator of one part of a world."""
    return np.random.default_rng((seed, part, more))


def tensor_of(source: str, seed: int, variant: str = "analytic", conditions: int = CONDITIONS) -> Tensor:
    """Return an analytic tensor whose networks have a source's shape. Errors: `BadInput` for another variant or
    shape."""
    if variant not in ANALYTIC:
        raise BadInput(f"no tensor is called {variant!r}; there is: {', '.join(ANALYTIC)}, or a tensor's file")
    rng = chance(seed, TENSOR)
    return analytic(rng, conditions=draw(source, conditions, rng), own_ln=ANALYTIC[variant])


def without_gaps(tensor: Tensor) -> Tensor:
    """Return the tensor without gaps, since sessions ask for every cell: without conditions that have no one rate or
    where Default was not measured; of the rest, without those conditions and configurations that lose the fewest cells
    (`whole`). Errors: `BadInput` where nothing but Default is left."""
    tensor = tensor.rated()
    missing = np.isnan(tensor.median_ms)
    if not missing.any():
        return tensor
    here = np.flatnonzero(~missing[:, tensor.grid.default].any(axis=1))
    holes: Mask = np.asarray(missing[here].any(axis=2))
    rows, kept = whole(holes, tensor.grid.default)
    if not len(rows) or len(kept) < 2:
        raise BadInput(f"{tensor.missing()} cells of the tensor have no median, too many to put sessions on it")
    left = tensor.of(here[rows])
    return left.over(tensor.grid.only(map(int, kept)))


def whole(holes: Mask, default: int) -> tuple[Codes, Codes]:
    """Return the rows and columns of a part without holes, Default's column among them, that has as many cells as of
    three candidates the best has: without the columns that have holes, without the rows that have, or without,
    again and again, the row or column of which the largest share is holes. holes (conditions, configurations)."""
    every = [np.arange(size) for size in holes.shape]
    candidates = [(every[0], np.flatnonzero(~holes.any(axis=0))), (np.flatnonzero(~holes.any(axis=1)), every[1])]
    rows, columns = every
    while (left := holes[np.ix_(rows, columns)]).any():
        by_row, by_column = left.mean(axis=1), np.where(columns == default, -1.0, left.mean(axis=0))
        if by_row.max() >= by_column.max():
            rows = np.delete(rows, by_row.argmax())
        else:
            columns = np.delete(columns, by_column.argmax())
    candidates.append((rows, columns))
    # a part with nothing but Default is no choice
    return max(candidates, key=lambda part: len(part[0]) * len(part[1]) * (len(part[1]) > 1))


def warm_of(tensor: Tensor, source: str, seed: int, conditions: int = CONDITIONS) -> Tensor:
    """Return an emulator's tensor over the same sites, wrong as emulators are. Errors: `BadInput` where the tensor's
    sites or configurations are not the formula's: an emulator of that world must be brought."""
    rng = chance(seed, WARM)
    found = mis_specified(rng, draw(source if source in sources() else "spread", conditions, rng))
    if found.sites != tensor.sites or found.grid.profiles != tensor.grid.profiles:
        raise BadInput("a mis-specified warm start is for analytic tensors; name a tensor's file, or none")
    return found


def seeing(tensor: Tensor, characteristics: Collection[str]) -> Tensor:
    """Return the tensor with those characteristics alone, so that classes and sessions have no others."""
    return replace(
        tensor,
        characteristics={name: column for name, column in tensor.characteristics.items() if name in characteristics},
    )


def world(
    tensor: Tensor,
    n: int,
    seed: int,
    *,
    warm: Tensor | None = None,
    sessions: Sessions | None = None,
    classes: int = CLASSES,
    arrivals: Arrivals = USUAL,
    spread: Noise | None = None,
) -> World:
    """Return a world over a tensor: n drawn sessions, or those given; loads spread as `Noise` does, or as given."""
    found = drawn(tensor, n, chance(seed, SESSIONS), arrivals) if sessions is None else sessions
    return World(tensor, found, classes_of(tensor, classes, seed), warm, seed, spread or Noise())


def classes_of(tensor: Tensor, k: int, seed: int) -> Classes:
    """Return the offline start: k classes over a tensor's conditions."""
    axes = axes_of(tensor)
    return fit(points_of(networks_of(tensor), axes), k, chance(seed, CLASS), axes)


def pops_of(sessions: Sessions, pops: int) -> Codes:
    """Return (prefixes,) which PoP each prefix belongs to: in turn, so that every PoP has frequent and rare ones."""
    return np.arange(max(len(sessions.seen.prefixes), 1)) % pops


def sources() -> tuple[str, ...]:
    """Return shapes of networks, by name."""
    return (*SHAPES, "pantheon")
