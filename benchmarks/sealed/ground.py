# SPDX-License-Identifier: MIT
"""The worlds of a run, made from its seed, from a measured file, or from the user's files.

A tensor is made once and stored in the run's folder as a world's file (docs/studies.md), so that a reader can inspect
it and run other policies on it: `configtron replay sessions --world FILE`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.sealed import distort
from benchmarks.sealed.distort import PLAIN
from benchmarks.sealed.families import FAMILIES, LEAST_NETWORKS, MOST_NETWORKS, OTHER, SITES
from benchmarks.sealed.play import DrawnWorld
from configtron.learner.classes import fit
from configtron.model.grid import Grid, live_grid
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.sessions import Sessions, networks_of
from configtron.studies.sim.world import tensor_of, warm_of
from configtron.studies.sim.worldfile import Brought, first, read, write
from tests.support import ROOT

MEASURED = ROOT / "fixtures" / "tensor" / "versions.npz"
CLASSES, UPDATE_EVERY, UPDATE_EVERY_LAB = 20, 500, 50
ANALYTIC, LAB, FILE = "analytic", "measured", "file"


@dataclass(frozen=True, slots=True)
class Spec:
    """A world of a run. family: a name of FAMILIES, ANALYTIC, LAB or FILE; number: which of that family; interval:
    outcomes between updates; networks: how many, 0 for a random number."""

    name: str
    family: str
    sessions: int
    number: int = 0
    kind: str = PLAIN
    interval: int = UPDATE_EVERY
    path: str = ""
    networks: int = 0


def _spec(family: str, number: int, sessions: int) -> Spec:
    return Spec(f"{family} {number}, {sessions // 1000} k", family, sessions, number)


def standard(brought: tuple[str, ...] = ()) -> tuple[Spec, ...]:
    """The whole suite: half an hour on two idle cores."""
    names = (("rounds", 3), ("forest", 3), ("classes", 3), ("null", 1), (ANALYTIC, 2))
    short = [_spec(family, number, 20_000) for family, many in names for number in range(1, many + 1)]
    long = [_spec(family, 4, 60_000) for family in ("rounds", "forest", "classes", ANALYTIC)]
    bent = [Spec(f"rounds 1, {kind}", "rounds", 20_000, 1, kind) for kind in distort.DISTORTIONS]
    lab = [Spec("measured, 6 k by 50", LAB, 6000, interval=UPDATE_EVERY_LAB)]
    return (*short, *lab, *bent, *long, *files(brought, 20_000))


def quick(brought: tuple[str, ...] = ()) -> tuple[Spec, ...]:
    """Each kind of world once, small: whether everything works, not who is ahead."""
    plain = [Spec(f"{family} 1, quick", family, 1000, 1, networks=24) for family in FAMILIES]
    bent = [Spec(f"forest 1, {kind}, quick", "forest", 1000, 1, kind, networks=24) for kind in distort.DISTORTIONS[:2]]
    return (*plain, *bent, Spec("measured, quick", LAB, 600, interval=UPDATE_EVERY_LAB), *files(brought, 1000))


def files(paths: tuple[str, ...], sessions: int) -> tuple[Spec, ...]:
    """The user's own worlds."""
    return tuple(Spec(Path(path).name, FILE, sessions, path=path) for path in paths)


def rng_of(seed: int, *words: object) -> np.random.Generator:
    """The generator of one part of a run."""
    return np.random.default_rng((seed, *(crc32(str(word).encode()) for word in words)))


def tensor(family: str, seed: int, number: int, grid: Grid, sites: tuple[str, ...], networks: int) -> Tensor:
    """A family's tensor; number 0 is the warm start's."""
    rng = rng_of(seed, family, number)
    many = networks or int(rng.integers(LEAST_NETWORKS, MOST_NETWORKS + 1))
    return FAMILIES[family](rng, grid, sites, many)


def kept(
    folder: Path, family: str, seed: int, number: int, grid: Grid, sites: tuple[str, ...], networks: int
) -> Tensor:
    """The same, from the run's folder if it is there already."""
    file = folder / "worlds" / f"{family}-{number}-{len(grid)}x{len(sites)}.npz"
    if not file.exists():
        found = tensor(family, seed, number, grid, sites, networks)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.stem}.{np.random.default_rng().integers(2**32)}.part")
        with part.open("wb") as out:
            write(Brought(found, None, distort.ARRIVALS, Noise()), out)
        part.replace(file)
    return _read(file).tensor


def _read(file: Path) -> Brought:
    with file.open("rb") as opened:
        return read(opened, str(file))


@lru_cache(maxsize=2)
def made(spec: Spec, seed: int, folder: Path) -> DrawnWorld:
    """Make a world. Errors: `BadInput` for a file that is no world."""
    brought = _read(Path(spec.path) if spec.family == FILE else MEASURED) if spec.family in (FILE, LAB) else None
    if brought is not None:
        whole, warm = brought.tensor, None
        if spec.family == LAB:
            warm = kept(folder, "rounds", seed, 0, whole.grid, whole.sites, spec.networks or 120)
    elif spec.family == ANALYTIC:
        whole = tensor_of("spread", int(rng_of(seed, ANALYTIC, spec.number).integers(2**31)))
        warm = warm_of(whole, "spread", int(rng_of(seed, ANALYTIC, 0).integers(2**31)))
    else:
        grid, sites = live_grid(), SITES
        whole = kept(folder, spec.family, seed, spec.number, grid, sites, spec.networks)
        emulator = OTHER[spec.family] if spec.number % 2 else spec.family
        warm = kept(folder, emulator, seed, 0, grid, sites, spec.networks or LEAST_NETWORKS)
    rng = rng_of(seed, spec.family, spec.number, spec.sessions, spec.kind)
    whole, sessions, scale, instead = distort.world(spec.kind, whole, spec.sessions, rng)
    if brought is not None and spec.family == FILE:
        sessions, scale = _own(brought, sessions, spec.sessions, rng)
        instead = np.full(len(sessions), np.nan)
    classes = fit(networks_of(whole).points(), CLASSES, rng_of(seed, spec.name, "classes"))
    number = int(rng.integers(2**31))
    return DrawnWorld(spec.name, whole, sessions, classes, scale, instead, warm, spec.interval, number)


def _own(brought: Brought, sessions: Sessions, most: int, rng: np.random.Generator) -> tuple[Sessions, np.ndarray]:
    """The sessions of a user's world, if it has some, and its noise factors, (sessions,)."""
    if brought.sessions is not None:
        sessions = first(brought.sessions, most)
        # Policies and tables here are by prefix.
        if not len(sessions.seen.prefix):
            none = np.zeros(len(sessions), dtype=np.int64)
            sessions = replace(sessions, seen=replace(sessions.seen, prefix=none, prefixes=("all",)))
    return sessions, brought.noise.factors(len(sessions), rng)
