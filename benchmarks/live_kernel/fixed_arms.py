# SPDX-License-Identifier: MIT
"""Makers of maps that learn nothing: rivals with one configuration, runs that try every one, runs without a difference.

Question   What would the same clients have had under one configuration, under the best one of each condition, and under
           arms that do not differ?
Method     `FixedArms` makes one map an epoch, as early as `LoopMapMaker` does: every access network is a class of its
           own, whose mix is one configuration, or all of them with equal shares: a mix has eight arms, so that Default
           and one half of the others are drawn in even epochs, and Default and the other half in odd ones. `AlikeArms`
           takes all settings out of another maker's map: the learner believes that it draws, and no arm differs.
Reads as   `MapMaker` (service/fleet/map_maker.py)
Fails as   `BadInput` for settings that no configuration of the grid has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchmarks.live.scenario import settings_at
from benchmarks.live_kernel.scenario import EVERY, UNIFORM, KernelScenario
from configtron.learner.closed_loop import Moved
from configtron.learner.loop_maker import LEAD_S, LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.learner.rulebook import learned_profile
from configtron.model.draw import PARTS, Mix
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.nouns import Profile

# Arms of a mix beside Default.
BESIDE = 7


class FixedArms:
    """A maker for the policies FIXED and UNIFORM. first: the number of the run's first epoch; moved: always
    empty, since no network changes its class."""

    def __init__(self, scenario: KernelScenario, grid: Grid, maps: MapOptions, first: int) -> None:
        self.scenario, self.grid, self.maps, self.first = scenario, grid, maps, first
        self.moved: list[Moved] = []
        self.rows, self._epoch = 0, -1

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Count rows."""
        self.rows += len(rows)

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        """Return the map of the epoch that begins within `LEAD_S`, or has begun, once."""
        epoch = int((now_ns / 1e9 + min(LEAD_S, self.maps.epoch_s / 4)) // self.maps.epoch_s)
        if epoch <= self._epoch:
            return None
        self._epoch = epoch
        profiles: dict[str, Profile] = {}
        mixes, prefixes = {}, {}
        for network in self.scenario.networks_in(epoch - self.first):
            made = [learned_profile(self.grid, at) for at in self.arms(network.condition, epoch - self.first)]
            profiles |= {one.name: one for one in made}
            mix = Mix.of([(one.name, 1.0) for one in made])
            mixes[f"n{network.number}"] = tuple(zip(mix.profiles, mix.weights, strict=True))
            prefixes[network.prefix] = f"n{network.number}"
        maps = self.maps
        not_after_ns, holdback = now_ns + round(maps.valid_s * 1e9), round(maps.holdback * PARTS)
        return FleetMap(0, 0, profiles, mixes, prefixes, self.scenario.key, not_after_ns, (), holdback, maps.epoch_s,
                        maps.ports, maps.lease_s)  # fmt: skip

    def arms(self, condition: str, epoch: int) -> list[int]:
        """Return the configurations of a condition's networks in an epoch, from 0."""
        if self.scenario.policy == UNIFORM:
            others = [at for at in range(len(self.grid)) if at != self.grid.default]
            half = (epoch % 2) * BESIDE
            return [self.grid.default, *others[half : half + BESIDE]]
        fits = [words for name, since, words in self.scenario.arms if name in (condition, EVERY) and since <= epoch]
        return [place_of_settings(self.grid, fits[-1])] if fits else [self.grid.default]

    def note(self, published: FleetMap, fresh: bool) -> None:
        """Take note of a map as it was published, which changes nothing."""

    def classes(self) -> Mapping[str, str]:
        """Return no classes: every network is listed."""
        return {}

    def save(self) -> str:
        """Return the epoch of the latest map, and how many rows were observed."""
        return f"{self._epoch} {self.rows}"

    def restore(self, text: str) -> None:
        """Take over what `save` wrote."""
        self._epoch, self.rows = map(int, text.split())


class AlikeArms(LoopMapMaker):
    """A learner whose profiles are published without their settings."""

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        """Return the learner's map, all of whose profiles are Default's."""
        made = super().make(now_ns, barred)
        return None if made is None else replace(made, profiles={name: Profile(name, ()) for name in made.profiles})


def place_of_settings(grid: Grid, words: str) -> int:
    """Return which configuration has these settings, as `settings_at` writes them. Errors: `BadInput`."""
    found = [at for at in range(len(grid)) if settings_at(grid, at) == words]
    if not found:
        raise BadInput(f"no configuration has the settings {words}")
    return found[0]
