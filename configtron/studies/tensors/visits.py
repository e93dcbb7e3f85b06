# SPDX-License-Identifier: MIT
"""Which conclusions about configurations change where a page is visited again, or its server takes time.

Question   Which change: the best static configuration, whether it fits, the faster HTTP version, the deciding knob?
Method     The networks of `realism.VISITED` that a tensor has both as first visits and as visits of another kind: the
           figures of `heterogeneity.py` for each kind, over the same networks, sites and configurations.
Reads as   a row for each kind of visit and set; `changes` names each conclusion that is another than for first visits.
           Conclusions: the best static configuration (another, if that of first visits loses more than `NEAR` in the
           mean here); whether it is within 5 % of the best for three quarters of the weight; the knob whose one value
           costs most; in how many networks the faster version of HTTP changes, by more than `NEAR`.
Fails as   None for a tensor that has no network in two kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from configtron.lab.testbed import realism
from configtron.model.tensor import Tensor
from configtron.studies.output.results import Cell, Table
from configtron.studies.tensors.improvement import Floats
from configtron.studies.tensors.published import (
    GRID,
    GUARDED,
    H1,
    H2,
    SITES,
    WITH_BBR,
    PublishedCells,
    at_sites,
    stack_of,
)
from configtron.studies.tensors.regrets import Regrets, excess, scores, static

# A configuration fits where it is slower than the best by at most this; it fits nearly everywhere from this share on.
FITS, MOST = 0.05, 0.75
# Smaller differences are within the error of two loads a cell.
NEAR = 0.02


class Conclusions(NamedTuple):
    """Conclusions from one kind of visit.

    regret      (conditions, configurations), inf outside the set; static: the best one configuration
    deciding    the knob whose one value in all conditions costs most, and what it costs
    gap         (conditions,) how much longer the best of h2 takes than that of HTTP/1.1
    """

    regret: Floats
    static: Regrets
    deciding: tuple[str, float]
    gap: Floats


def visits(tensor: Tensor) -> Table | None:
    """Return a row for each kind of visit and set; None where the tensor has first visits alone."""
    some = [site for site in SITES if site in tensor.sites]
    names = [name for name in realism.VISITED if all(f"{name}{option}" in tensor.names for option in realism.VISITS)]
    if not names or not some:
        return None
    kinds = {option: _cells(at_sites(tensor, some), names, option) for option in realism.VISITS}
    rows: list[tuple[Cell, ...]] = []
    for name in (WITH_BBR, GRID):
        first = conclude(kinds[""], name)
        for option, cells in kinds.items():
            rows.append(_row(option, name, cells, conclude(cells, name), first))
    columns = ("visit", "set", "conditions", "static configuration", "within 5 % of best, %", "mean regret, %",
               "first visits' static, %", "deciding knob", "its one value costs, %", "h2 over h1, least, %",
               "h2 over h1, most, %", "changes")  # fmt: skip
    words = "Kinds: think, ms before each answer; resumed, TLS sessions; warm, s of idle time on the connections."
    return Table("visits", "First visits, visits again, and servers that take time", columns, rows, words)


def _cells(tensor: Tensor, names: list[str], option: str) -> PublishedCells:
    at = np.array([tensor.names.index(f"{name}{option}") for name in names], dtype=np.int64)
    stacks = tuple(stack_of(profile) for profile in tensor.grid.profiles)
    return PublishedCells(tensor.of(at), scores(tensor.median_ms.astype(np.float64))[at], stacks, ())


def conclude(cells: PublishedCells, name: str) -> Conclusions:
    """Return the conclusions over a set of configurations."""
    allowed = cells.allowed(name)
    regret = excess(cells.score, allowed)
    lost = cost_of_one_value(cells, name)
    deciding = max(lost, key=lambda knob: lost[knob], default="")
    return Conclusions(
        regret, static(regret, cells.tensor.share), (deciding, lost.get(deciding, np.nan)), versions(cells, name)
    )


def _row(option: str, name: str, cells: PublishedCells, here: Conclusions, first: Conclusions) -> tuple[Cell, ...]:
    old = here.regret[:, first.static.pick]
    theirs = float((old * cells.tensor.share).sum())
    return (
        option.lstrip(",") or "first", name, len(cells.score), cells.stacks[here.static.pick].name,
        _percent(here.static.within(FITS)), _percent(here.static.mean), _percent(theirs), here.deciding[0],
        _percent(here.deciding[1]), _percent(float(np.nanmin(here.gap))), _percent(float(np.nanmax(here.gap))),
        "; ".join(_changes(cells, here, first, theirs)) or "-",
    )  # fmt: skip


def _changes(cells: PublishedCells, here: Conclusions, first: Conclusions, theirs: float) -> Iterator[str]:
    if not theirs - here.static.mean <= NEAR:
        yield f"static {cells.stacks[first.static.pick].name} to {cells.stacks[here.static.pick].name}"
    fits = [one.static.within(FITS) >= MOST for one in (first, here)]
    if fits[0] != fits[1]:
        yield "one size fits" if fits[1] else "one size does not fit"
    if first.deciding[0] != here.deciding[0]:
        yield f"{first.deciding[0]} to {here.deciding[0]}"
    flipped = (np.sign(first.gap) != np.sign(here.gap)) & (np.minimum(abs(first.gap), abs(here.gap)) > NEAR)
    if flipped.any():
        yield f"the faster version of HTTP in {int(flipped.sum())}"


def cost_of_one_value(cells: PublishedCells, name: str) -> dict[str, float]:
    """Return the mean regret over a set when one knob stays, everywhere, at its best value."""
    regret, share = excess(cells.score, cells.allowed(name)), cells.tensor.share
    found = {}
    for knob, values in _values(cells).items():
        means = []
        for value in set(values):
            fixed = regret[:, [one == value for one in values]].min(axis=1)
            if np.isfinite(fixed).all():
                means.append(float((fixed * share).sum()))
        if len(set(values)) > 1 and means:
            found[knob] = min(means)
    return found


def _values(cells: PublishedCells) -> dict[str, list[object]]:
    """Return by knob its value in each configuration."""
    return {
        "http_version": [one.version for one in cells.stacks],
        "pacing": [one.paced for one in cells.stacks],
        "initcwnd": [one.window for one in cells.stacks],
        "tcp_congestion_control": [one.control for one in cells.stacks],
    }


def versions(cells: PublishedCells, name: str = GUARDED) -> Floats:
    """Return (conditions,) how much longer a set's best of h2 takes than that of HTTP/1.1; NaN: one is missing."""
    mine = np.where(cells.allowed(name), cells.score, np.inf)
    h1, h2 = (np.array([one.version == version for one in cells.stacks]) for version in (H1, H2))
    with np.errstate(invalid="ignore"):
        found: Floats = mine[:, h2].min(axis=1, initial=np.inf) / mine[:, h1].min(axis=1, initial=np.inf) - 1
    return np.where(np.isfinite(found), found, np.nan)


def _percent(share: float) -> Cell:
    return round(100 * share, 1) if np.isfinite(share) else None
