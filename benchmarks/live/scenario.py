# SPDX-License-Identifier: MIT
"""The world of the live experiment: six continents on conditions that the lab measured, and what is planted.

Page loads are repeats that the lab measured (`fixtures/tensor/live.npz`: nginx, a real client, six loads a cell), over
HTTP/2. A continent is a mixture of conditions, each prefix on one of them, off by some per cent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes
from configtron.model.grid import Grid
from configtron.model.nouns import Profile
from configtron.model.tensor import Tensor, read
from configtron.service.learning.reach import allowed
from configtron.tune.guard import MOST_PACED_WINDOW, Limits
from tests.support import ROOT
from tests.support.live_world import LiveWorld, clients_of

MEASURED = ROOT / "fixtures" / "tensor" / "live.npz"
# What is set by a kernel, connection by connection; HTTP's version is its server's.
KERNEL, VERSION = ("tcp_congestion_control", "initcwnd", "pacing"), ("http_version", "h2")
# Continent -> condition -> weight.
CONTINENTS: dict[str, dict[str, float]] = {
    "africa": {"access:3g,spread=6": 3, "hotcloud:1/150/2.5": 2, "policer:2/100/8000,spread=6": 2,
               "link:3/150/1,loss=2": 2, "link:5/150/1,window=32768,spread=6": 1},
    "asia": {"link:20/100/1,spread=6": 3, "policer:5/50/16000,spread=6": 3, "link:10/80/1,loss=3": 1,
             "link:10/40/0.25,neighbours=1": 1},
    "europe": {"link:100/5/1,spread=6": 3, "link:20/60/1,spread=6": 3, "link:20/40/1,acks=20,spread=6": 2},
    "north america": {"link:20/60/1,spread=6": 3, "link:100/5/1,spread=6": 2, "link:10/40/0.25,neighbours=1": 2},
    "oceania": {"link:5/150/1,spread=6": 3, "link:20/100/1,spread=6": 2, "link:5/150/1,window=32768,spread=6": 2},
    "south america": {"link:10/80/1,loss=1,runs=8": 3, "policer:5/50/16000,spread=6": 2, "link:5/150/1,spread=6": 2},
}  # fmt: skip
# Where the continent whose network changes is from then on.
CHANGED, AFTER = "europe", ("link:5/150/1,spread=6", "link:10/80/1,loss=1,runs=8")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sizes, and the epochs in which something is planted; 0: never.

    change    the network of a continent's prefixes
    harmful   the most used profile becomes `slower` times as slow everywhere
    lost      one of the servers, and what it had not reported; back after `lost_for` epochs
    restart   the manager is killed in mid-epoch and started again
    """

    seed: int = 1
    epochs: int = 42
    prefixes: int = 16
    clients: int = 100
    loads: int = 2_500
    holdback: float = 0.5
    change: int = 18
    harmful: int = 24
    slower: float = 3.0
    lost: int = 30
    lost_for: int = 4
    restart: int = 36

    def quiet(self) -> Scenario:
        """Return the same without anything planted."""
        return replace(self, change=0, harmful=0, lost=0, restart=0)


def measured() -> Tensor:
    """Return what the lab measured over HTTP/2, as a grid of what a kernel sets, Default among it."""
    with MEASURED.open("rb") as file:
        tensor = read(file, MEASURED.name)
    grid = tensor.grid
    place = [at for at, profile in enumerate(grid.profiles) if VERSION in profile.settings]
    columns = [at for at, knob in enumerate(grid.knobs) if knob.name in KERNEL]
    rows = tuple(tuple(grid.rows[at][column] for column in columns) for at in place)
    narrow = Grid(tuple(grid.knobs[column] for column in columns), rows)
    repeats = None if tensor.repeats_ms is None else tensor.repeats_ms[:, place]
    return replace(tensor, grid=narrow, median_ms=tensor.median_ms[:, place], repeats_ms=repeats, damage=None,
                   damage_high=None)  # fmt: skip


def guarded(tensor: Tensor, windows: int = MOST_PACED_WINDOW) -> Grid:
    """Return the configurations that the guard of `tune` permits where damage to neighbours is not known.

    windows: segments of the largest initial window"""
    grid = tensor.grid.only(map(int, np.flatnonzero(allowed(tensor.grid, Limits({})).allowed)))
    return grid.only(at for at, one in enumerate(grid.profiles) if initial_window(one) <= windows)


def initial_window(profile: Profile) -> int:
    """Return a profile's initial window, segments; the kernel's own, 10, where it sets none."""
    return int(str(dict(profile.settings).get("initcwnd", 10)))


def indifferent(tensor: Tensor) -> Tensor:
    """Return a world in which no configuration matters: all have Default's loads."""
    same = [tensor.grid.default] * len(tensor.grid)
    repeats = None if tensor.repeats_ms is None else tensor.repeats_ms[:, same]
    return replace(tensor, median_ms=tensor.median_ms[:, same], repeats_ms=repeats)


def world_of(tensor: Tensor, scenario: Scenario) -> LiveWorld:
    """Return the clients and servers of a scenario."""
    rng = np.random.default_rng((scenario.seed, 0))
    code = {name: at for at, name in enumerate(tensor.names)}
    mixtures = {
        continent: {code[name]: weight for name, weight in mixture.items()} for continent, mixture in CONTINENTS.items()
    }
    clients = clients_of(mixtures, scenario.prefixes, scenario.clients, rng)
    return LiveWorld(tensor, clients, scenario.seed, loads=scenario.loads)


def change_network(world: LiveWorld) -> Codes:
    """Move the prefixes of one continent to other conditions; return them."""
    clients = world.clients
    prefixes = np.flatnonzero(clients.continent == clients.continents.index(CHANGED))
    there = np.array([world.tensor.names.index(name) for name in AFTER])
    world.clients = clients.moved(prefixes, there[np.arange(len(prefixes)) % len(there)])
    return prefixes


def settings_at(grid: Grid, at: int) -> str:
    """Return a configuration in words: congestion control, window, pacing."""
    given = dict(grid.profiles[at].settings)
    paced = "/fq" if given["pacing"] == "fq" else ""
    return f"{given['tcp_congestion_control']}/{given['initcwnd']}{paced}"
