# SPDX-License-Identifier: MIT
"""A learning policy that can be saved and restored: its recipe, beside its learned state.

`TablePolicy.save` holds all that was learned, observed and drawn; to restore it, the same policy must be made first.
A `Recipe` lists its arguments; both together, and the warm start's tensor, are the policy, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from configtron.learner.chance import seeded
from configtron.learner.classes import Classes
from configtron.learner.clients import BELOW_ROUND_TRIP, Clients
from configtron.learner.damage import DamageBound
from configtron.learner.evolve import Divergence
from configtron.learner.ledger import Account
from configtron.learner.reclassify import Watch
from configtron.learner.registry import policy, row_of
from configtron.learner.screening import Screen
from configtron.learner.setting import BUDGET, Setting
from configtron.learner.state import decode, encode, keep
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.grid import Dead, Grid
from configtron.model.nouns import Knob
from configtron.model.tensor import Tensor

for kind in (Grid, Knob, Dead):
    keep(kind)


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The arguments of a policy, but for the warm start's tensor. engine: a name of `ENGINES`; watched: decide for
    clients by their own outcomes since their network changed (`reclassify.py`); divergence: when a
    class is split, None for never; patience: as in `searches.Stop`; damage: bound on the configurations it may serve
    (`damage.py`), None for all; allowed: rows of the grid that it may choose, None for all; budget: as in `Setting`."""

    policy: str
    grid: Grid
    sites: tuple[str, ...]
    classes: Classes
    seed: int
    update_every: int = 500
    engine: str = "grid"
    watched: bool = False
    divergence: Divergence | None = None
    patience: int = 0
    damage: DamageBound | None = None
    allowed: tuple[tuple[int, ...], ...] | None = None
    budget: float = BUDGET

    def watch(self) -> Watch | None:
        """Return the watch that has seen nothing, over the classes that the policy began with."""
        return Watch(self.classes.nouns()) if self.watched else None

    def make(self, warm: Tensor | None = None) -> TablePolicy:
        """Return the policy that has seen nothing. Errors: `BadInput` for one that only a simulated world can have."""
        if row_of(self.policy).oracle:
            raise BadInput(f"policy {self.policy} knows the truth: in simulation only (configtron replay sessions)")
        if warm is not None and warm.grid.rows != self.grid.rows and all(map(warm.grid.has, self.grid.profiles)):
            warm = warm.over(self.grid)
        rng = seeded(self.seed)
        made = Setting(self.grid, self.sites, self.classes, rng, self.update_every, warm, engine=self.engine)
        how = {"divergence": self.divergence, "patience": self.patience, "damage": self.damage, "budget": self.budget}
        found = policy(self.policy, replace(made, **how))  # type: ignore[arg-type]
        if self.allowed is not None:
            rows = set(self.allowed)
            found.choose_among(np.array([row in rows for row in self.grid.rows]))
        return found

    def text(self) -> str:
        """Return it as JSON; equal recipes give equal texts."""
        return encode({"recipe": self})


def recipe_of(text: str) -> Recipe:
    """Return the recipe that `Recipe.text` wrote. Errors: `BadInput`."""
    found = decode(text).get("recipe")
    if not isinstance(found, Recipe):
        raise BadInput("this is no recipe of a policy; start it anew: configtron learn run --fresh")
    return found


def features_in(text: str) -> tuple[str, ...]:
    """Return the features of that recipe's network classes, by name; none of a class of everyone. Errors:
    `BadInput`."""
    classes = recipe_of(text).classes
    base = () if classes.everyone else ("bandwidth_kbps", "rtt_ms", "loss")
    return tuple(dict.fromkeys((*base, *(name for name, _ in classes.axes))))


def state_of(policy: TablePolicy, watch: Watch | None) -> str:
    """Return policy and watch as one text; without a watch, the policy's own."""
    return policy.save() if watch is None else encode({"policy": policy.save(), "watch": watch.save()})


def restore(text: str, policy: TablePolicy, watch: Watch | None) -> None:
    """Restore policy and watch from a text of `state_of`. Errors: `BadInput` for another policy's text."""
    if watch is None:
        policy.restore(text)
        return
    both = decode(text)
    policy.restore(both["policy"])
    watch.restore(both["watch"])


def classes_in(text: str) -> tuple[int, int]:
    """Return how many network classes the policy of that state has; how many of them were split off. Errors:
    `BadInput`."""
    state = decode(text)
    own = _own(state)
    return len(own["class_ids_"]), own.get("splits_", 0)


def set_aside_in(text: str) -> dict[str, int]:
    """Return how many outcomes, and how many prefixes at present, the policy of that state leaves out of its classes,
    by reason (`clients.py`); {} for a policy without quarantine. Errors: `BadInput`."""
    own = _own(decode(text))
    known = own.get("clients_")
    if not isinstance(known, Clients):
        return {}
    return {name: count for name, count in {BELOW_ROUND_TRIP: own["refused_"], **known.reasons()}.items() if count}


def _own(state: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = decode(state["policy"])["own"] if "watch" in state else state["own"]
    return found


@dataclass(frozen=True, slots=True)
class Safety:
    """The account of a policy with a budget. spent: share of Default's time so far, upper estimate; negative: gained;
    unproven: share of sessions that get unproven configurations, now; dropped: names of configurations that are
    dropped, with the class where that is not everywhere."""

    budget: float
    spent: float
    unproven: float
    dropped: tuple[str, ...]


def safety_in(text: str, recipe: Recipe) -> Safety | None:
    """Return the budget spent and the configurations dropped by the policy of that state; None for one without a
    budget. Errors: `BadInput`."""
    own = _own(decode(text))
    account, screen = own.get("account_"), own.get("screen_")
    if not isinstance(account, Account) or not isinstance(screen, Screen):
        return None
    classes = ("", *recipe.classes.ids)
    dropped = tuple(
        recipe.grid.profiles[k].name + (f" in {classes[group]}" if group else "")
        for group, k in zip(*np.nonzero(screen.dropped), strict=True)
    )
    spent = account.upper_ms() / account.base_ms if account.base_ms > 0 else 0.0
    return Safety(recipe.budget, spent, account.share, dropped)
