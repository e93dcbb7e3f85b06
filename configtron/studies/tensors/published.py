# SPDX-License-Identifier: MIT
"""The published networks, sites and configurations of a measured tensor, for `heterogeneity.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from configtron.lab.testbed import realism
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tensor import Tensor
from configtron.studies.tensors.improvement import Flags, Floats
from configtron.studies.tensors.regrets import scores

KNOBS = ("tcp_congestion_control", "initcwnd", "pacing", "http_version")
H1, H2 = "h1", "h2"
VERSIONS = {"http/1.1": H1, "h2": H2}
# Largest unpaced window that the guard of `tune` permits; largest value of the knob itself.
MOST_BURST, MOST_WINDOW = 30, 30
# Sites of the published page load times.
SITES = ("search", "reference", "shop")
# At these sites published damage was measured, in this order.
DAMAGE_SITES = ("reference", "shop")


class NamedStack(NamedTuple):
    """A configuration as published figures name it: cubic/30/fq/h2; without fq it is unpaced."""

    control: str
    window: int
    paced: bool
    version: str

    @property
    def name(self) -> str:
        pacing = ("fq",) if self.paced else ()
        return "/".join((self.control, str(self.window), *pacing, self.version))


SETS: Mapping[str, Callable[[NamedStack], bool]] = {
    "grid+bbr": lambda one: one.window <= MOST_WINDOW,
    "all": lambda one: True,
    "grid": lambda one: one.control != "bbr" and one.window <= MOST_WINDOW,
    "guarded": lambda one: one.control != "bbr" and (one.paced or one.window <= MOST_BURST),
}
GRID, WITH_BBR, GUARDED, ALL = "grid", "grid+bbr", "guarded", "all"


class PublishedCells(NamedTuple):
    """The conditions of the tensor that have published figures, in their order.

    score    (conditions, configurations) geometric mean over sites, ms; inf where loads failed
    stacks   a configuration each
    at       rows of `realism.ROWS`
    """

    tensor: Tensor
    score: Floats
    stacks: tuple[NamedStack, ...]
    at: tuple[realism.LabRow, ...]

    def allowed(self, name: str) -> Flags:
        """(conditions, configurations) the set of that name."""
        mine = np.array([SETS[name](one) for one in self.stacks])
        return np.tile(mine, (len(self.score), 1))

    def place(self, name: str) -> int | None:
        """Which configuration has a published name; None where it was not measured."""
        names = [one.name for one in self.stacks]
        return names.index(name) if name in names else None


def measured(tensor: Tensor, source: str) -> tuple[PublishedCells, str]:
    """Return the tensor's published conditions at published sites, and what it lacks of both. Errors: `BadInput`."""
    knobs = {knob.name for knob in tensor.grid.knobs}
    if absent := [knob for knob in KNOBS if knob not in knobs]:
        raise BadInput(f"{source}: does not vary {', '.join(absent)}; configtron learn measure --study realism does")
    some, no_site = [site for site in SITES if site in tensor.sites], [one for one in SITES if one not in tensor.sites]
    tensor = at_sites(tensor, some) if some else tensor
    score = scores(tensor.median_ms.astype(np.float64))
    rows = {name: at for at, name in enumerate(tensor.names)}
    known = [one for one in realism.ROWS if one.condition in rows and np.isfinite(score[rows[one.condition]]).any()]
    known = known if some else []
    at = np.array([rows[row.condition] for row in known], dtype=np.int64)
    stacks = tuple(stack_of(profile) for profile in tensor.grid.profiles)
    lacking = len(realism.ROWS) - len(known)
    conditions = [f"{lacking} of {len(realism.ROWS)} conditions"] if lacking else []
    absent = [*conditions, *(f"site {one}" for one in no_site)]
    words = f"not in the tensor: {', '.join(absent)}" if absent else ""
    if not known:
        return PublishedCells(tensor, score[:0], stacks, ()), words
    return PublishedCells(tensor.of(at), score[at], stacks, tuple(known)), words


def at_sites(tensor: Tensor, sites: Sequence[str]) -> Tensor:
    """Return the tensor with these of its sites alone, in this order."""
    at = [tensor.sites.index(site) for site in sites]
    cells = {
        name: None if (column := getattr(tensor, name)) is None else column[:, :, at]
        for name in ("median_ms", "repeats_ms", "damage", "damage_high")
    }
    return replace(tensor, sites=tuple(sites), **cells)  # type: ignore[arg-type]


def stack_of(profile: Profile) -> NamedStack:
    """Return a configuration by its published name's parts."""
    settings = dict(profile.settings)
    version = str(settings["http_version"])
    window = int(str(settings["initcwnd"]))
    paced = settings["pacing"] == "fq"
    return NamedStack(str(settings["tcp_congestion_control"]), window, paced, VERSIONS.get(version, version))


class PublishedPrice(NamedTuple):
    """Bytes neighbours lost for each byte of page: condition, site, configuration, published, ours, upper end."""

    condition: str
    site: str
    configuration: str
    published: float
    bytes_lost: float | None
    high: float | None


def prices(cells: PublishedCells) -> list[PublishedPrice]:
    """Return published and measured damage, cell by cell."""
    tensor, found = cells.tensor, []
    for c, name in enumerate(tensor.names):
        for published, configuration in zip(realism.DAMAGE.get(name, ()), realism.DAMAGED, strict=False):
            at = cells.place(configuration)
            for site, lost in zip(DAMAGE_SITES, published, strict=True):
                here = (c, at, tensor.sites.index(site)) if at is not None and site in tensor.sites else None
                ours = [_at(column, here) for column in (tensor.damage, tensor.damage_high)]
                found.append(PublishedPrice(name, site, configuration, lost, *ours))
    return found


def _at(column: np.ndarray | None, place: tuple[int, int, int] | None) -> float | None:
    value = float("nan") if column is None or place is None else float(column[place])
    return round(value, 2) if np.isfinite(value) else None
