# SPDX-License-Identifier: MIT
"""Configurations against each other: who is best where, who is near, who beats whom, who is beaten.

Reads as   shares of conditions, per site. "Best" is the smallest median, ties count for each of them; "near" is within
           `NEAR` of it; "beaten" means that another configuration's 95 % interval lies wholly below. Where nothing has
           loaded none is best. With many others luck beats too: of 97 equal ones with six loads each, one is beaten
           in a twentieth of conditions (tests/studies/test_hotcloud.py); so no claim rests on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from configtron.model.errors import BadInput
from configtron.model.nouns import Value
from configtron.studies.tensors.improvement import Codes, Flags, Floats, MeasuredCells

# Users do not notice a page that is a twentieth slower; the papers' gains begin at a tenth.
NEAR = 0.05
# As many as HotCloud's table of wins holds.
TOP = 4
CC = "tcp_congestion_control"


class Rank(NamedTuple):
    """One configuration at one site: shares of conditions in which it is best, near the best, beaten."""

    configuration: int
    best: float
    near: float
    beaten: float


def ranking(cells: MeasuredCells, site: int) -> list[Rank]:
    """All configurations at a site, the one that is best most often first."""
    ms = cells.ms[:, :, site]
    least = ms.min(axis=1, keepdims=True)
    there = np.isfinite(least)
    best, near = _share(there & (ms == least)), _share(there & (ms <= least * (1 + NEAR)))
    beaten = _share(beaten_at(cells, site))
    every = [Rank(at, float(best[at]), float(near[at]), float(beaten[at])) for at in range(len(cells.grid))]
    return sorted(every, key=lambda one: (-one.best, -one.near, one.configuration))


def beaten_at(cells: MeasuredCells, site: int) -> Flags:
    """(conditions, configurations): another one's interval lies wholly below."""
    found: Flags = cells.low_ms[:, :, site] > cells.high_ms[:, :, site].min(axis=1, keepdims=True)
    return found


def _share(flags: Flags) -> Floats:
    found: Floats = flags.mean(axis=0)
    return found


def wins(cells: MeasuredCells, site: int, some: list[int]) -> Floats:
    """(some, some): the share of conditions in which the row's configuration is faster than the column's."""
    ms = cells.ms[:, some, site]
    found: Floats = (ms[:, :, None] < ms[:, None, :]).mean(axis=0)
    return found


def per_value(cells: MeasuredCells, knob: str) -> tuple[tuple[Value, ...], Floats]:
    """A knob's values and (values, conditions, sites): page load times of the best configuration with each."""
    if knob not in (one.name for one in cells.grid.knobs):
        raise BadInput(f"the tensor has no knob {knob}")
    values = next(one.values for one in cells.grid.knobs if one.name == knob)
    column = cells.grid.column(knob)
    used = [at for at in range(len(values)) if (column == at).any()]
    return tuple(values[at] for at in used), np.stack([cells.ms[:, column == at].min(axis=1) for at in used])


def clearly_best(cells: MeasuredCells, knob: str) -> tuple[tuple[Value, ...], Codes]:
    """A knob's values and (conditions, sites): the one whose best interval lies below all the others', -1 for none."""
    values, _ = per_value(cells, knob)
    column = cells.grid.column(knob)
    codes = [next(o.values for o in cells.grid.knobs if o.name == knob).index(value) for value in values]
    low = np.stack([cells.low_ms[:, column == code].min(axis=1) for code in codes])
    high = np.stack([cells.high_ms[:, column == code].min(axis=1) for code in codes])
    found = np.full(low.shape[1:], -1, dtype=np.int64)
    for at in range(len(values)):
        others = np.delete(low, at, axis=0).min(axis=0) if len(values) > 1 else np.full(low.shape[1:], np.inf)
        found[high[at] < others] = at
    return values, found


def at_settings(cells: MeasuredCells, **wanted: Value) -> list[int]:
    """Configurations with these settings."""
    return [
        at
        for at, profile in enumerate(cells.grid.profiles)
        if all(dict(profile.settings).get(knob) == value for knob, value in wanted.items())
    ]


def near_default(cells: MeasuredCells) -> Mapping[str, Value]:
    """For each knob the value that stands for its default: the default, or the nearest that the whole grid has.

    HotCloud's windows are 3 to 18 without 10; 10 is measured in the default configuration alone, which has no others
    beside it to compare with.
    """
    found: dict[str, Value] = {}
    for knob in cells.grid.knobs:
        counts = np.bincount(cells.grid.column(knob.name), minlength=len(knob.values))
        full = [value for value, count in zip(knob.values, counts, strict=True) if count == counts.max()]
        if knob.default in full:
            found[knob.name] = knob.default
        else:
            numbers = [value for value in full if isinstance(value, int) and isinstance(knob.default, int)]
            found[knob.name] = min(numbers, key=lambda v: abs(v - int(str(knob.default)))) if numbers else full[0]
    return found
