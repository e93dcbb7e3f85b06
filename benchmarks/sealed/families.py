# SPDX-License-Identifier: MIT
"""Families of worlds that share nothing with the product's own formula: no code, no constants, no kind of structure.

rounds    TCP round by round (`rounds.py`); buffers and receive windows are hidden from every policy
forest    statistics alone: random trees and a random neural network over knobs, features, site, two hidden features
classes   a knob helps in some regions of networks and hurts elsewhere as much, so that Default is the best static
          configuration; some configurations are ten times slower, everywhere or in one region
null      no configuration makes any difference, but for broken ones: there is nothing to learn

Each is a function of a generator, a grid and names of sites. The product's own formula is among the worlds as
`analytic`, by name, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.sealed.rounds import MTU, Paths, pages, times_ms
from configtron.model.grid import Grid
from configtron.model.tensor import Tensor

Array = npt.NDArray[Any]
Rng = np.random.Generator
SITES = tuple(f"site-{number:02d}" for number in range(1, 13))
LEAST_NETWORKS, MOST_NETWORKS = 200, 400
# Several kinds of access: median Mbit/s, round trip ms, share with loss, how often.
ACCESS = ((0.8, 220, 0.7, 1), (3, 140, 0.5, 2), (12, 60, 0.25, 4), (45, 28, 0.15, 4), (180, 12, 0.1, 2))


def networks(rng: Rng, n: int) -> tuple[Array, Array, Array]:
    """(n,) kbit/s, ms, loss: fast networks are near, as in speed tests."""
    weights = np.array([row[3] for row in ACCESS], dtype=float)
    kind = rng.choice(len(ACCESS), n, p=weights / weights.sum())
    mbit, rtt, lossy, _ = (np.array(column, dtype=float)[kind] for column in zip(*ACCESS, strict=True))
    kbps = 1e3 * mbit * np.exp(0.5 * rng.standard_normal(n))
    rtt_ms = rtt * np.exp(0.45 * rng.standard_normal(n)) + 2.0
    some = np.exp(rng.normal(np.log(0.008), 1.0, n)).clip(1e-4, 0.08)
    loss = np.where(rng.random(n) < lossy, some, 0.0)
    return kbps, rtt_ms, loss


def rounds(rng: Rng, grid: Grid, sites: tuple[str, ...], n: int) -> Tensor:
    """TCP round by round."""
    kbps, rtt_ms, loss = networks(rng, n)
    rate = kbps * 1e3 / 8.0 / (MTU + 66.0)
    share = np.exp(rng.normal(np.log(0.9), 0.9, n)).clip(0.1, 8.0)
    buffer = np.maximum(share * rate * rtt_ms / 1e3, 6.0)
    window = rng.choice([24.0, 45.0, 180.0, 2000.0], n, p=[0.08, 0.12, 0.3, 0.5])
    paths = Paths(rate, rtt_ms / 1e3, loss, buffer, window)
    return _tensor(grid, sites, (kbps, rtt_ms, loss), times_ms(rng, paths, pages(rng, len(sites)), grid), "rounds")


def forest(rng: Rng, grid: Grid, sites: tuple[str, ...], n: int) -> Tensor:
    """Random trees and a random neural network; most effects are zero."""
    numbers = networks(rng, n)
    features = _standard(np.stack([np.log(numbers[0]), np.log(numbers[1]), np.log(numbers[2] + 2e-4)], axis=1))
    features = np.concatenate((features, rng.standard_normal((n, 2))), axis=1)
    effect: Array = np.zeros((n, len(grid), len(sites)))
    for _ in range(70):
        effect += _tree(rng, grid, features, len(sites), int(rng.integers(2, 5)))
    effect += _neurons(rng, grid, features, len(sites))
    # A configuration's mean effect over all cells is small beside its effects in single cells.
    effect -= rng.uniform(0.6, 1.0) * effect.mean(axis=(0, 2), keepdims=True)
    effect -= effect[:, [grid.default]]
    effect *= rng.uniform(0.16, 0.3) / max(float(effect.std()), 1e-9)
    base = _base(rng, numbers, len(sites))
    return _tensor(grid, sites, numbers, base[:, None, :] * np.exp(effect.clip(-1.5, 2.5)), "forest")


def _tree(rng: Rng, grid: Grid, features: Array, sites: int, depth: int) -> Array:
    """One tree's value for every cell: splits on a knob's values, a feature, some sites; Laplace leaves, many zero."""
    leaf: Array = np.zeros((len(features), len(grid), sites), dtype=np.int64)
    for level in range(depth):
        kind = "knob" if level == 0 else rng.choice(["knob", "feature", "site"], p=[0.4, 0.4, 0.2])
        if kind == "knob":
            at = int(rng.integers(len(grid.knobs)))
            high = rng.random(len(grid.knobs[at].values)) < 0.5
            side: Array = high[grid.positions[:, at]][None, :, None]
        elif kind == "feature":
            column = features[:, int(rng.integers(features.shape[1]))]
            side = (column > rng.choice(column))[:, None, None]
        else:
            side = (rng.random(sites) < 0.5)[None, None, :]
        leaf = 2 * leaf + side
    value = rng.laplace(0.0, 1.0, 2**depth) * (rng.random(2**depth) < 0.4)
    found: Array = value[leaf]
    return found


def _neurons(rng: Rng, grid: Grid, features: Array, sites: int) -> Array:
    """One hidden layer of 24 units over features, knob values (embedded) and sites; half of its weights are zero."""
    units = 24
    knobs: Array = np.zeros((len(grid), units))
    for at, knob in enumerate(grid.knobs):
        knobs += (rng.standard_normal((len(knob.values), units)) * (rng.random(units) < 0.5))[grid.positions[:, at]]
    nets = features @ (rng.standard_normal((features.shape[1], units)) * (rng.random((features.shape[1], units)) < 0.5))
    pages_ = rng.standard_normal((sites, units)) * (rng.random((sites, units)) < 0.5)
    out = rng.standard_normal(units)
    found: Array = np.zeros((len(features), len(grid), sites))
    for site in range(sites):
        found[:, :, site] = np.tanh(nets[:, None, :] + knobs[None] + pages_[site]) @ out
    return found


def classes(rng: Rng, grid: Grid, sites: tuple[str, ...], n: int) -> Tensor:
    """Each region of networks has a knob's value that helps there and hurts elsewhere; Default is the best static."""
    numbers = networks(rng, n)
    points = _standard(np.stack([np.log(numbers[0]), np.log(numbers[1]), np.log(numbers[2] + 2e-4)], axis=1))
    region = ((points[:, None] - points[rng.choice(n, 9, replace=False)][None]) ** 2).sum(axis=2).argmin(axis=1)
    effect: Array = np.zeros((n, len(grid), len(sites)))
    for at in range(9):
        mine, arms = region == at, _pair(rng, grid)
        # Some sites are not affected.
        cares = (rng.random(len(sites)) < 0.75)[None, None, :]
        share = float(mine.mean())
        gain = rng.uniform(0.15, 0.4)
        worth = np.where(mine, -gain, 1.5 * gain * share / (1.0 - share) + 0.03)[:, None, None]
        effect += worth * arms[None, :, None] * cares
    base = _base(rng, numbers, len(sites))
    ms = base[:, None, :] * np.exp(effect + 0.02 * rng.standard_normal(effect.shape))
    ms = _broken(rng, grid, ms, region)
    # Default is the best static configuration: whatever is faster on the mean is made slower by what it gains.
    ms[:, grid.default] = base
    mean = ms.mean(axis=(0, 2))
    ms *= (
        np.maximum(1.0, 1.005 * mean[grid.default] / mean)[None, :, None]
        ** (np.arange(len(grid)) != grid.default)[None, :, None]
    )
    return _tensor(grid, sites, numbers, ms, "classes")


def null(rng: Rng, grid: Grid, sites: tuple[str, ...], n: int) -> Tensor:
    """Nothing helps; a few configurations are broken."""
    numbers = networks(rng, n)
    base = _base(rng, numbers, len(sites))
    ms = np.repeat(base[:, None, :], len(grid), axis=1)
    return _tensor(grid, sites, numbers, _broken(rng, grid, ms, rng.integers(4, size=n)), "null")


def _pair(rng: Rng, grid: Grid) -> Array:
    """(configurations,) 1 for those with certain values of one or two knobs, else 0; never Default."""
    while True:
        chosen = rng.choice(len(grid.knobs), min(2, len(grid.knobs)), replace=False)
        arms = np.ones(len(grid), dtype=bool)
        for at in chosen:
            arms &= grid.positions[:, at] == rng.integers(len(grid.knobs[at].values))
        if arms.any() and not arms[grid.default]:
            return arms.astype(float)


def _broken(rng: Rng, grid: Grid, ms: Array, region: Array) -> Array:
    """Make up to a tenth of the configurations ten times slower, half of them in one region only."""
    arms = np.flatnonzero(_pair(rng, grid))
    for at in rng.permutation(arms)[: max(1, len(grid) // 10)]:
        where = region == rng.integers(region.max() + 1) if rng.random() < 0.5 else np.ones(len(ms), dtype=bool)
        ms[where, at] *= 10.0
    return ms


def _base(rng: Rng, numbers: tuple[Array, Array, Array], sites: int) -> Array:
    """(conditions, sites) ms under Default: by network and page, with some of each cell's own."""
    kbps, rtt_ms, loss = numbers
    kilobytes = np.exp(rng.normal(np.log(900), 0.9, sites))
    trips = rng.uniform(6, 30, sites)
    ms = trips[None] * rtt_ms[:, None] + 8e3 * kilobytes[None] / kbps[:, None] * (1.0 + 12.0 * loss[:, None])
    found: Array = ms * np.exp(0.1 * rng.standard_normal(ms.shape))
    return found


def _standard(columns: Array) -> Array:
    found: Array = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-9)
    return found


def _tensor(grid: Grid, sites: tuple[str, ...], numbers: tuple[Array, Array, Array], ms: Array, family: str) -> Tensor:
    kbps, rtt_ms, loss = numbers
    names = tuple(f"{family}-{at}" for at in range(len(kbps)))
    return Tensor(grid, sites, names, kbps, rtt_ms, loss, ms.astype(np.float32), f"sealed suite: {family}")


FAMILIES: dict[str, Callable[[Rng, Grid, tuple[str, ...], int], Tensor]] = {
    "rounds": rounds, "forest": forest, "classes": classes, "null": null,
}  # fmt: skip
# The family of the warm start's tensor, drawn anew, for worlds of odd numbers: another family, wrong altogether.
# Worlds of even numbers get their own family's, with other networks and pages: wrong as an emulator is.
OTHER = {"rounds": "forest", "forest": "rounds", "classes": "rounds", "null": "rounds"}
