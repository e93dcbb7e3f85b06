# SPDX-License-Identifier: MIT
"""The configurations a learner may choose from: rows of value positions over `configtron/model/knobs.py`.

The values of CT's Table 1 multiply to 768 configurations. Not all of them differ: the knobs in `DEAD` have no effect on
a page load that opens its connections anew, so 168 remain. A learner explores these 168, and `learn knobs` shows all
768. This file assumes no other dead knob; `learner/importance.py` finds those from measurements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS, TUNABLE
from configtron.model.nouns import Knob, Profile, Value

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dead:
    """A knob without effect: everywhere, or where another knob has a value (`where`, `value`)."""

    knob: str
    reason: str
    where: str = ""
    value: Value = ""


# Knobs that cannot change a page load, and why. A dead knob stays at its default.
DEAD: tuple[Dead, ...] = (
    Dead("tcp_slow_start_after_idle", "a page load opens its connections anew and leaves none idle (CT section 6)"),
    Dead("tcp_low_latency", "without effect since Linux 4.14 (ip-sysctl.rst)"),
    Dead("pacing", "bbr paces itself since Linux 4.13", "tcp_congestion_control", "bbr"),
)


# Names of congestion controls, queueing disciplines and protocol versions; no such name is longer.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,63}")
# A knob that is on or off.
SWITCH = (0, 1)
# The only unit whose values may be fractions, as in `tuning_json.py`.
TIME = "s"
# The kernel's widest number.
MOST = 2**63 - 1


def setting(name: str, value: object) -> Value:
    """Return a knob's value from a log or a table in the knob's own type: text becomes a number, a whole one an int.

    Errors: `BadInput` for an unknown knob, and for a value that the knob cannot take: `learner/features.py` takes
    logarithms of values.
    """
    knob = KNOBS.get(name)
    if knob is None:
        raise BadInput(f"no knob is called {name[:40]!r}; `configtron tune doctor` lists them")
    if any(isinstance(one, str) for one in (*knob.values, knob.default)):
        if not isinstance(value, str) or not NAME.fullmatch(value):
            raise BadInput(f"{name}: {repr(value)[:40]} is no setting; it takes a name")
        return value
    number = _number(value)
    if knob.values == SWITCH and number not in SWITCH:
        raise BadInput(f"{name}: {repr(value)[:40]} is no setting; it takes 0 or 1")
    least = 1 if knob.values and all(isinstance(one, int) and one > 0 for one in knob.values) else 0
    if number is None or not least <= number <= MOST:
        raise BadInput(f"{name}: {repr(value)[:40]} is no setting; it takes a number from {least}")
    if number != int(number) and knob.unit != TIME:
        raise BadInput(f"{name}: {repr(value)[:40]} is no setting; it takes a whole number"
                       f"{f' of {knob.unit}' if knob.unit else ''}")  # fmt: skip
    return int(number) if number == int(number) else number


def _number(value: object) -> int | float | None:
    """Return a value as a finite number; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    for kind in (int, float) if isinstance(value, str) else ():
        try:
            value = kind(value)
            break
        except ValueError:
            continue
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else None


@dataclass(frozen=True)
class Grid:
    """Configurations. knobs: the knobs that they set; rows: per configuration, the position of each knob's value;
    dead: knobs without effect here; `index` reads every value of these as the default."""

    knobs: tuple[Knob, ...]
    rows: tuple[tuple[int, ...], ...]
    dead: tuple[Dead, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def positions(self) -> Positions:
        """Return positions of values, (configurations, knobs)."""
        return np.array(self.rows, dtype=np.int64).reshape(len(self.rows), len(self.knobs))

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """Return every configuration as a profile; the joined values of its settings are its name."""
        return tuple(self._profile(row) for row in self.rows)

    def _profile(self, row: tuple[int, ...]) -> Profile:
        values = [knob.values[at] for knob, at in zip(self.knobs, row, strict=True)]
        settings = tuple((knob.name, value) for knob, value in zip(self.knobs, values, strict=True))
        return Profile("/".join(str(value).replace("/", "") for value in values), settings)

    @cached_property
    def _by_settings(self) -> dict[tuple[tuple[str, Value | None], ...], int]:
        return {profile.settings: at for at, profile in enumerate(self.profiles)}

    def index(self, profile: Profile) -> int:
        """Return the configuration with a profile's settings; a knob that the profile omits has its default.

        Errors: `BadInput` for settings that no configuration of this grid has.
        """
        given = dict(profile.settings)
        settings = {knob.name: given.pop(knob.name, knob.default) for knob in self.knobs}
        for words in (self._acting(settings, self.dead), settings):
            found = self._by_settings.get(tuple(sorted(words.items())))
            if found is not None and not given:
                return found
        raise BadInput(f"profile {profile.name!r} is none of the grid's {len(self)} configurations")

    def has(self, profile: Profile) -> bool:
        """Return whether a configuration has exactly a profile's settings; `index` accepts equivalent settings too."""
        given = dict(profile.settings)
        settings = tuple(sorted((knob.name, given.pop(knob.name, knob.default)) for knob in self.knobs))
        return not given and settings in self._by_settings

    @cached_property
    def default(self) -> int:
        """Return the configuration of an untouched stack."""
        return self.index(Profile("default"))

    def only(self, configurations: Iterable[int]) -> Grid:
        """Return a grid of these configurations alone, in the given order."""
        return Grid(self.knobs, tuple(self.rows[at] for at in configurations))

    def column(self, knob: str) -> Positions:
        """Return positions of one knob's value, (configurations,)."""
        return self.positions[:, [k.name for k in self.knobs].index(knob)]

    def canonical(self, dead: Sequence[Dead] = DEAD) -> Positions:
        """Return for each configuration the equivalent one with every dead knob at its default, (configurations,).

        It is the configuration itself where the grid lacks the equivalent one.
        """
        found = []
        for at, row in enumerate(self.rows):
            settings = self._acting(dict(self._profile(row).settings), dead)
            found.append(self._by_settings.get(tuple(sorted(settings.items())), at))
        return np.array(found, dtype=np.int64)

    def without(self, dead: Sequence[Dead]) -> Grid:
        """Return a grid with one of each set of equivalent configurations; `index` maps other profiles to these."""
        alive = self.only(map(int, np.unique(self.canonical(dead))))
        return Grid(alive.knobs, alive.rows, (*self.dead, *dead))

    def _acting(self, settings: Mapping[str, Value | None], dead: Sequence[Dead]) -> dict[str, Value | None]:
        """Return equivalent settings with every dead knob at its default."""
        found = dict(settings)
        for knob in self.knobs:
            if any(d.knob == knob.name and (not d.where or found.get(d.where) == d.value) for d in dead):
                found[knob.name] = knob.default if knob.default is not None else knob.values[0]
        return found


def paper_grid(knobs: tuple[Knob, ...] = TUNABLE) -> Grid:
    """Return the full product of Table 1: 768 configurations."""
    return Grid(knobs, tuple(product(*(range(len(knob.values)) for knob in knobs))))


def live_grid() -> Grid:
    """Return one of each set of equivalent configurations: 168, over the five knobs that have an effect."""
    everywhere = {dead.knob for dead in DEAD if not dead.where}
    grid = paper_grid(tuple(knob for knob in TUNABLE if knob.name not in everywhere))
    return grid.only(int(at) for at in np.unique(grid.canonical()))
