# SPDX-License-Identifier: MIT
"""Which knobs a stack can be given by client prefix: by the driver that `configtron tune` would take here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from configtron.errors import ConfigtronError

if TYPE_CHECKING:
    from configtron.grid import Grid
    from configtron.nouns import Value
    from configtron.tuning import Reach

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
        return reach is not None and (reach.takes(value) or isinstance(value, str) and not reach.values)

    @property
    def name(self) -> str:
        """In words."""
        return self.driver if self.present else f"{self.driver}, which is not here"


def by_prefix(grid: Grid) -> Held:
    """One driver sets a whole profile: of those present the one that reaches most of the grid's knobs, the best first;
    where none is, the one that would."""
    from configtron.tune.drivers import DRIVERS, FOR_TRIALS, load, tables
    from configtron.tuning import Place

    told = tables()
    present: list[Held] = []
    absent: list[Held] = []
    for name in DRIVERS:
        if name == FOR_TRIALS:
            continue
        driver = load(name, Place())
        try:
            here = not driver.missing()
            reaches = driver.settable() if here else told[name].reaches
        except ConfigtronError:
            here, reaches = False, told[name].reaches
        knobs = {knob.name: reaches[knob.name] for knob in grid.knobs if knob.name in reaches}
        knobs = {knob: reach for knob, reach in knobs.items() if reach.per in BY_PREFIX}
        if knobs:
            (present if here else absent).append(Held(name, knobs, here))
    return max(present or absent or [Held("no driver", {}, False)], key=lambda held: len(held.knobs))
