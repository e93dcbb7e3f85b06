# SPDX-License-Identifier: MIT
"""Which configurations `configtron tune` takes here: by the driver's reach, the guard and the operator's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from configtron.model.errors import ConfigtronError

if TYPE_CHECKING:
    from configtron.learner.damage import DamageBound
    from configtron.learner.driver_support import Mask
    from configtron.model.grid import Grid
    from configtron.model.nouns import Value
    from configtron.model.tuning import Reach
    from configtron.tune.guard import Limits

# How far a driver must reach to give one prefix another value than the next.
BY_PREFIX = ("connection", "prefix")


class Held(NamedTuple):
    """A driver, knob -> how far it reaches by prefix; present: whether it can act here."""

    driver: str
    knobs: Mapping[str, Reach]
    present: bool

    def takes(self, knob: str, value: Value) -> bool:
        """Whether a knob can be given a value; one named by the kernel (a congestion control) if it has a word for
        it."""
        reach = self.knobs.get(knob)
        if reach is None or reach.why_not(value):
            return False
        return reach.takes(value) or isinstance(value, str) and not reach.values

    @property
    def name(self) -> str:
        """In words."""
        return self.driver if self.present else f"{self.driver}, which is not here"


class Allowed(NamedTuple):
    """allowed: (configurations,) those that the guard lets pass; why: of the others, each rule that they break."""

    allowed: Mask
    why: tuple[str, ...]


def allowed(grid: Grid, limits: Limits, damage: DamageBound | None = None) -> Allowed:
    """Return the configurations within the operator's bounds and fair to others; Default always is. Knobs count only
    where they are off their default: what is not set cannot be refused. Where damage to neighbours was measured, a
    configuration that kept within the bound in some condition is fair here: the bound judges it class by class."""
    from dataclasses import replace

    import numpy as np

    from configtron.model.nouns import Profile
    from configtron.tune.guard import why_not

    defaults = dict(grid.profiles[grid.default].settings)
    fair = np.zeros(len(grid), dtype=np.bool_) if damage is None else damage.harmless_somewhere()
    wrong = []
    for profile, measured in zip(grid.profiles, fair, strict=True):
        off = tuple(one for one in profile.settings if one[1] != defaults[one[0]])
        mine = replace(limits, allow_unfair=limits.allow_unfair or bool(measured))
        wrong.append([why.partition(" ")[2] for why in why_not(Profile("profile", off), mine)])
    found = np.array([not one for one in wrong])
    found[grid.default] = True
    return Allowed(found, tuple(dict.fromkeys(why for one in wrong for why in one)))


def by_prefix(grid: Grid) -> Held:
    """One driver sets a whole profile: of those present the one that reaches most of the grid's knobs, the best first;
    where none is, the one that would."""
    from configtron.model.tuning import Place
    from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load, tables

    by_driver = tables()
    present: list[Held] = []
    absent: list[Held] = []
    for name in DRIVERS:
        if name == FOR_TRIALS:
            continue
        driver = load(name, Place())
        try:
            here = not driver.missing()
            reaches = driver.settable() if here else by_driver[name].reaches
        except ConfigtronError:
            here, reaches = False, by_driver[name].reaches
        knobs = {knob.name: reaches[knob.name] for knob in grid.knobs if knob.name in reaches}
        knobs = {knob: reach for knob, reach in knobs.items() if reach.per in BY_PREFIX}
        if knobs:
            (present if here else absent).append(Held(name, knobs, here))
    return max(present or absent or [Held("no driver", {}, False)], key=lambda held: len(held.knobs))
