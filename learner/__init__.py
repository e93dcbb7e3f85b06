# SPDX-License-Identifier: MIT
"""POLICIES: every way to choose a configuration. To add one.

A class in a file of its own (`learner/baselines/` for what a learner is held against), a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from configtron.learner.baselines.brute import BruteClass, BrutePrefix
from configtron.learner.baselines.default import Default, Static
from configtron.learner.baselines.mab import Bandit
from configtron.learner.baselines.offline import Offline
from configtron.learner.baselines.optimal import CellOptimum, Optimal
from configtron.learner.baselines.references import LinUcb, SquareCb
from configtron.learner.baselines.reuse import Reuse
from configtron.learner.baselines.search import CherryPick, ClassSearch, PrefixSearch
from configtron.learner.cells import Stop
from configtron.learner.classes import Classes
from configtron.learner.columns import Floats
from configtron.learner.damage import DamageBound
from configtron.learner.engines.grid import Engine, GridEngine
from configtron.learner.ensemble import Ensemble, UnboundedEnsemble
from configtron.learner.evolve import Divergence
from configtron.learner.imported import imported, is_imported, make_imported
from configtron.learner.linearpolicy import LinearPolicy
from configtron.learner.mapped import mapped
from configtron.learner.policy import TablePolicy
from configtron.learner.templates import templates_of
from configtron.learner.thompson import BUDGET, Thompson
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.tensor import Tensor

__all__ = ["ENGINES", "GRID", "POLICIES", "PREFERRED", "Row", "Setting", "TablePolicy", "policy", "row_of", "untaken"]


def _gpy_grid(grid: Grid) -> Engine:
    from configtron.learner.engines.gpyopt import GpyGrid

    return GpyGrid(grid)


def _gpy_classic(grid: Grid) -> Engine:
    from configtron.learner.engines.gpyopt import GpyClassic

    return GpyClassic(grid)


# The engine that searches cells unless another is named.
GRID = "grid"
# What searches a cell, by name. The two of GPyOpt are an extra and are imported when made.
ENGINES: dict[str, Callable[[Grid], Engine]] = {GRID: GridEngine, "gpyopt": _gpy_grid, "gpyopt-classic": _gpy_classic}


@dataclass(frozen=True, slots=True)
class Setting:
    """What policies are made from. `truth` and `weight` (how often each condition occurs) are for oracles alone.

    warm is an emulated tensor to start from, where a policy can; update_every as in `TablePolicy`; engine, a name of
    ENGINES, searches cells where a policy does that; divergence: when policies with classes split one, None for never;
    patience: of searches whose decisions are another's, as in `cells.Stop`; bounded: as in `LinearPolicy`;
    damage: what may be served (`damage.py`), None for everything; oracles are not bound by it;
    budget: by what share mean page load time may exceed Default's while a policy explores, where one keeps that;
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
        """The engine by its name. Errors: `BadInput` for a name that is none, `Missing` for an extra that is absent."""
        if self.engine not in ENGINES:
            raise BadInput(f"no engine is called {self.engine!r}; there is: {', '.join(ENGINES)}")
        return ENGINES[self.engine](self.grid)

    def oracle(self) -> Tensor:
        """The tensor the world is made of. Errors: `BadInput` where there is none, in any world but a simulated one."""
        if self.truth is None:
            raise BadInput("this policy knows the truth and runs in simulation only: configtron replay sessions")
        return self.truth


@dataclass(frozen=True, slots=True)
class Row:
    """A policy: how to make it, and what it is, in a few words. oracle: it needs the truth; takes: which of `warm`,
    `engine`, `evolve`, `by-device` and `budget` make a difference to it."""

    name: str
    make: Callable[[Setting], TablePolicy]
    help: str
    oracle: bool = False
    takes: tuple[str, ...] = ()


def _best_static(s: Setting) -> TablePolicy:
    truth = s.oracle()
    mean = np.average(truth.median_ms.mean(axis=2, dtype=np.float64), axis=0, weights=s.weight)
    return Static(truth.grid, s.rng, int(np.argmin(mean)))


# CherryPick's own numbers (NSDI'17): it stops earlier than CT.
CHERRYPICK = Stop(least_tested=6, gain=0.10)
CHERRYPICK_FIRST = 3
# Configurations an operator keeps ready; 32 leave 0.2 % to the best of all on the tensors tried.
TEMPLATES = 32


def _linear(kind: type[LinearPolicy], s: Setting) -> TablePolicy:
    few = None if s.warm is None else templates_of(mapped(s.warm, s.grid, s.sites), s.grid, TEMPLATES)
    more: dict[str, Any] = {"candidates": few, "warm": s.warm, "divergence": s.divergence, "bounded": s.bounded}
    if kind is Thompson:
        more["budget"] = s.budget
    return kind(s.grid, s.sites, s.rng, s.classes, update_every=s.update_every, **more)


def _cells(kind: Callable[..., TablePolicy], s: Setting, **more: object) -> TablePolicy:
    more["divergence"] = s.divergence
    return kind(s.grid, s.sites, s.rng, s.classes, update_every=s.update_every, **more)


def _prefixes(kind: Callable[..., TablePolicy], s: Setting, **more: object) -> TablePolicy:
    return kind(s.grid, s.sites, s.rng, update_every=s.update_every, **more)


def _searched(where: Callable[..., TablePolicy], kind: Callable[..., TablePolicy], s: Setting) -> TablePolicy:
    return where(kind, s, engine=s.searcher(), stop=Stop(patience=s.patience))


def _offline(s: Setting) -> TablePolicy:
    return Offline(s.grid, s.sites, s.rng, s.classes, s.warm)


def _ceiling(s: Setting) -> TablePolicy:
    return CellOptimum(s.oracle(), s.rng, s.classes, s.weight)


def _cherrypick(s: Setting) -> TablePolicy:
    return _cells(CherryPick, s, engine=s.searcher(), first_samples=CHERRYPICK_FIRST,
                  stop=replace(CHERRYPICK, patience=s.patience))  # fmt: skip


# The product's own choice; the table that chose it is in docs/measurements/0027.
PREFERRED = "thompson"

# What a policy can be told of, beside the world.
WARM, ENGINE, DEVICE, CLASSES = ("warm",), ("engine",), ("by-device",), ("evolve", "by-device")
SPENDS = ("budget",)

POLICIES = {
    row.name: row
    for row in (
        Row("default", lambda s: Default(s.grid, s.rng), "the untouched stack for everybody"),
        Row("static", _best_static, "the best one configuration for everybody, in hindsight", True),
        Row("brute", lambda s: _prefixes(BrutePrefix, s), "every configuration once per prefix, then its best"),
        Row("brute_nc", lambda s: _cells(BruteClass, s), "every configuration once per class and site, then its best",
            takes=CLASSES),
        Row("bo", lambda s: _searched(_prefixes, PrefixSearch, s), "Bayesian optimisation per prefix", takes=ENGINE),
        Row("bo_nc", lambda s: _searched(_cells, ClassSearch, s), "the same per class and site",
            takes=ENGINE + CLASSES),
        Row("cherrypick_nc", _cherrypick, "the same by CherryPick's numbers", takes=ENGINE + CLASSES),
        Row("mab_nc", lambda s: _cells(Bandit, s), "epsilon-greedy per class and site", takes=CLASSES),
        Row("offline", _offline, "the warm tensor's word, for good", takes=WARM + DEVICE),
        Row("reuse", lambda s: _prefixes(Reuse, s), "what a prefix's last connections did well with"),
        Row("configtron", lambda s: _searched(_cells, Ensemble, s),
            "the paper's ensemble, a quarter of a cell's sessions testing while it is searched",
            takes=ENGINE + CLASSES),
        Row("configtron_unbounded", lambda s: _searched(_cells, UnboundedEnsemble, s),
            "the same, all of a cell's sessions testing while it is searched", takes=ENGINE + CLASSES),
        Row(
            "thompson", lambda s: _linear(Thompson, s), "linear Thompson sampling over all cells, within a budget",
            takes=WARM + CLASSES + SPENDS,
        ),
        Row("linucb", lambda s: _linear(LinUcb, s), "LinUCB over the same model", takes=WARM + CLASSES),
        Row("squarecb", lambda s: _linear(SquareCb, s), "SquareCB over the same model", takes=WARM + CLASSES),
        Row("optimal", lambda s: Optimal(s.oracle(), s.rng), "the fastest for the true network and the site", True),
        Row("cell_optimum", _ceiling, "fastest on the mean of each class and site: the ceiling of the classes given",
            True),
    )
}  # fmt: skip


def row_of(name: str) -> Row:
    """A policy of POLICIES, or the class that "package.module:Class" names. Errors: `BadInput`."""
    if is_imported(name):
        imported(name)
        return Row(name, lambda setting: make_imported(name, setting), "a policy of your own", takes=WARM + CLASSES)
    if name not in POLICIES:
        raise BadInput(f"no policy is called {name!r}; there is: {', '.join(POLICIES)}, or package.module:Class")
    return POLICIES[name]


def untaken(names: Iterable[str], what: str) -> str:
    """Why `what`, as in `Row.takes`, would make no difference to any of these policies; "" where it would to one."""
    names = tuple(names)
    if any(what in row_of(name).takes for name in names):
        return ""
    takers = [row.name for row in POLICIES.values() if what in row.takes]
    return f"--{what} makes no difference to {', '.join(names)}; it does to: {', '.join(takers)}"


def policy(name: str, setting: Setting) -> TablePolicy:
    """A policy by name. Errors: `BadInput` for a name that is none."""
    warm = None if setting.warm is None else setting.warm.rated()
    row = row_of(name)
    made = row.make(replace(setting, warm=warm))
    if setting.damage is not None and not row.oracle:
        made.keep_within(setting.damage)
    return made
