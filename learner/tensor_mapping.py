# SPDX-License-Identifier: MIT
"""An emulated tensor in terms of a policy's own configurations and sites: its usable part, and the parts left out.

Question   How can a policy use a tensor over other sites, other values of knobs, or with gaps?
Method     A configuration is its knobs' values: it enters by its features, whether the policy may serve it or
           not; a knob that the tensor lacks stood at its default there. A name that no knob of the policy has (a
           congestion control, a discipline), and a value without a logarithm where one is needed, has no features: such
           configurations are left out, as are conditions without one rate. A site of another name counts as any other
           site. Cells that were not measured show nothing; for covariances and templates alone they are filled in by
           the leading directions of the measured cells.
Stop when  every configuration, site and condition has its place, or is counted as left out.
Reads as   `Mapped`; `left_out`, one line for the user who brought the tensor.
Fails as   `BadInput`, where fewer than two of its configurations can be used, or none of its conditions.
Differs    CT starts from no emulator.
Source     Mazumder, Hastie and Tibshirani 2010 (filling in by leading directions).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.features import features_of
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Value
from configtron.model.tensor import Tensor

# Directions that gaps are filled by, and passes over them; below this share of measured cells nothing is filled.
DIRECTIONS, PASSES, LEAST_MEASURED = 6, 15, 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """tensor: its usable conditions and configurations; features (configurations, f) as the policy's grid has them;
    place (sites,): the policy's site, or the number of its sites for any other; base: the configuration that is nearest
    to the policy's Default; own (configurations,): the policy's configuration, -1 for none; left_out: in words, "" for
    nothing."""

    tensor: Tensor
    features: Floats
    place: Codes
    base: int
    own: Codes
    left_out: str = ""

    def log_ms(self) -> Floats:
        """Return (conditions, configurations, sites) ln(ms); NaN where it was not measured."""
        found: Floats = np.log(self.tensor.median_ms.astype(np.float64))
        return found


def mapped(tensor: Tensor, grid: Grid, sites: tuple[str, ...]) -> Mapped:
    """Return a tensor as these configurations and sites see it. Errors: `BadInput`."""
    rated = tensor.rated()
    features = features_of(grid, rated.grid.profiles)
    usable = np.flatnonzero(~np.isnan(features).any(axis=1) & ~np.isnan(rated.median_ms).all(axis=(0, 2)))
    if len(usable) < 2:
        raise BadInput("warm start: fewer than two of the tensor's configurations can be expressed by these knobs")
    some = rated.median_ms[:, usable]
    here = np.flatnonzero(~np.isnan(some).all(axis=(1, 2)))
    left = rated if len(here) == len(rated.names) else rated.of(here)
    if len(usable) < len(rated.grid):
        # Whether its own default is among them makes no difference: the configuration nearest to ours stands for it.
        left = replace(left, grid=left.grid.only(map(int, usable)), median_ms=left.median_ms[:, usable],
                       repeats_ms=None)  # fmt: skip
    own = {grid_settings(grid, dict(profile.settings)): at for at, profile in enumerate(grid.profiles)}
    names = [grid_settings(grid, dict(profile.settings)) for profile in left.grid.profiles]
    place = np.array([sites.index(site) if site in sites else len(sites) for site in left.sites], dtype=np.int64)
    base = int((features[usable] ** 2).sum(axis=1).argmin())
    known = np.array([own.get(name, -1) for name in names], dtype=np.int64)
    return Mapped(left, features[usable], place, base, known, _left_out(tensor, left, place, len(sites)))


def grid_settings(grid: Grid, settings: dict[str, Value]) -> tuple[tuple[str, Value | None], ...]:
    """Return settings as a grid's profile would have them: its knobs alone, defaults where nothing is set."""
    return tuple(sorted((knob.name, settings.get(knob.name, knob.default)) for knob in grid.knobs))


def _left_out(tensor: Tensor, left: Tensor, place: Codes, sites: int) -> str:
    found = []
    if gone := len(tensor.grid) - len(left.grid):
        found.append(f"{gone} of {len(tensor.grid)} configurations (settings that these knobs do not have)")
    if gone := len(tensor.names) - len(left.names):
        found.append(f"{gone} of {len(tensor.names)} conditions (without one rate, or not measured)")
    if gone := left.missing():
        found.append(f"{gone} of {left.median_ms.size} cells (not measured)")
    if strange := int((place == sites).sum()):
        found.append(f"the names of {strange} of {len(place)} sites (taken for any other)")
    return ", ".join(found)


def filled(log_ms: Floats) -> Floats:
    """Return (cells, configurations) with gaps filled in; as it is, where there are none or too little was measured."""
    gaps = np.isnan(log_ms)
    if not gaps.any() or (~gaps).mean() < LEAST_MEASURED:
        return log_ms
    empty = np.asarray(gaps.all(axis=1))
    level = np.nanmean(np.where(empty[:, None], 0.0, log_ms), axis=1, keepdims=True)
    effect = np.nan_to_num(np.where(gaps, np.nan, log_ms - level).sum(axis=0, where=~gaps) / (~gaps).sum(axis=0))
    rest = np.where(gaps, 0.0, log_ms - level - effect)
    guess = np.zeros(rest.shape)
    for _ in range(PASSES):
        _, vectors = np.linalg.eigh(np.cov(np.where(gaps, guess, rest), rowvar=False, bias=True))
        leading = vectors[:, -DIRECTIONS:]
        guess = np.where(gaps, guess, rest) @ leading @ leading.T
    return np.where(gaps, level + effect + guess, log_ms)
