# SPDX-License-Identifier: MIT
"""What makes a manager's maps: rows in, maps out. The manager numbers, signs, stores and publishes them.

A maker has no clock, no file and no socket, so that the same maker runs in the manager, in `learn serve --local` and in
a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from configtron.learner.closed_loop import Moved
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile

# Why a profile may not be used by the fleet, in one line; "": it may. From all operators' bounds, the guard, and what
# the agents' drivers reach.
Barred = Callable[[Profile], str]


class MapMaker(Protocol):
    """One way to make maps from outcomes.

    The manager calls `observe` with each row once, in order of arrival, also after `kill -9`: it keeps `save`'s text
    with the number of the last row that was observed, and observes the later ones again after `restore`.
    """

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Take in rows that have just been stored."""

    def make(self, now_ns: int, barred: Barred) -> FleetMap | None:
        """Return the map that is to be in force from now on, or None: the current one stays.

        now_ns  wall clock, ns since 1970: `not_after_ns` counts from it
        barred  asked about each profile before anything is learned of it: a barred one is no choice

        Term and version of the result are ignored: the manager gives it the next ones. A map whose validity is more
        than half over is published again by the manager without a call of `make`.
        """

    def save(self) -> str:
        """Return all that was learned, as text."""

    def restore(self, text: str) -> None:
        """Take over what `save` wrote. Errors: `BadInput` for another maker's text."""


class LearningMaker(MapMaker, Protocol):
    """A maker that learns. moved: prefixes whose class is another one in the latest map, since it was last emptied."""

    moved: list[Moved]

    def note(self, published: FleetMap, fresh: bool) -> None:
        """Learn by the map as it was published. fresh: in place of the one that was made last."""

    def learned(self) -> str:
        """Return what was learned so far, in words."""


class FixedMapMaker:
    """Make one map, given in advance, without the profiles that are barred: for trials and tests.

    `rows` counts what was observed.
    """

    def __init__(self, fixed: FleetMap, valid_s: float = 3600.0) -> None:
        self._fixed, self._valid_s = fixed, valid_s
        self._made: FleetMap | None = None
        self.rows = 0

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Count rows."""
        self.rows += len(rows)

    def change(self, fixed: FleetMap) -> None:
        """Make another map from now on."""
        self._fixed = fixed

    def make(self, now_ns: int, barred: Barred) -> FleetMap | None:
        """Return the map where it is not the one that was made last."""
        found = without_barred(self._fixed, barred)
        if found == self._made:
            return None
        self._made = found
        return replace(found, not_after_ns=now_ns + round(self._valid_s * 1e9))

    def save(self) -> str:
        """Return how many rows were observed."""
        return str(self.rows)

    def restore(self, text: str) -> None:
        """Take over a number of rows."""
        self.rows = int(text or "0")


def without_barred(found: FleetMap, barred: Barred) -> FleetMap:
    """Return a map whose mixes lack the barred profiles; their weight goes to the first arm that stays.

    A class all of whose arms are barred is dropped with its prefixes and bands.
    """
    out = {name for name, profile in found.profiles.items() if barred(profile)}
    if not out:
        return found
    mixes = {}
    for name, mix in found.mixes.items():
        stays = [(profile, weight) for profile, weight in mix if profile not in out]
        if stays:
            rest = sum(weight for profile, weight in mix if profile in out)
            mixes[name] = ((stays[0][0], stays[0][1] + rest), *stays[1:])
    return replace(
        found,
        profiles={name: profile for name, profile in found.profiles.items() if name not in out},
        mixes=mixes,
        prefixes={prefix: name for prefix, name in found.prefixes.items() if name in mixes},
        bands=tuple(band for band in found.bands if band.class_name in mixes),
    )
