# SPDX-License-Identifier: MIT
"""How much faster than the default the best configuration is, and how much of that is luck.

Question   Of 97 noisy medians the smallest is chosen: how much of its lead is the network's, how much is noise?
Method     Twice over. As the papers do: the smallest median over the default's. And by halves: a cell's loads are
           parted by their order (odd, even), the configuration is chosen by one half and its gain read from the other,
           where it has no luck left; then the other way round, and the mean. Load i meets the same losses under every
           configuration, so a half is a fair draw of losses for all of them.
Reads as   Gains are fractions of the default's page load time. The truth lies between both: the papers' is too high by
           luck, that of the halves too low, since half the loads choose worse than all.
Fails as   NaN where the default did not load at all; without repeats there are no halves.
Source     Efron and Tibshirani, An Introduction to the Bootstrap, 13: intervals are percentiles over conditions drawn
           with replacement, since conditions are the sample; sites of one condition are drawn together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.repeats import StoppingRule, ranks
from configtron.model.tensor import Tensor

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

# Draws of conditions; the ends of a 95 % interval then lie in the 50 outermost, which is smooth enough.
DRAWS = 2000


class Figure(NamedTuple):
    """A number and its 95 % interval over conditions."""

    value: float
    low: float
    high: float

    def text(self, factor: float = 100.0, unit: str = " %") -> str:
        """As printed."""
        if not np.isfinite(self.value):
            return "-"
        return f"{factor * self.value:.1f}{unit} [{factor * self.low:.1f}, {factor * self.high:.1f}]"


@dataclass(frozen=True, eq=False)
class MeasuredCells:
    """A tensor's cells as floats: inf is a cell whose loads failed. (conditions, configurations, sites) each.

    low_ms, high_ms   95 % interval of the median; -inf and inf where there is none
    halves_ms         medians of the odd and of the even loads, or None: (2, ...)
    """

    tensor: Tensor
    ms: Floats
    low_ms: Floats
    high_ms: Floats
    halves_ms: Floats | None

    @property
    def grid(self) -> Grid:
        """Its configurations."""
        return self.tensor.grid

    @property
    def default(self) -> int:
        """The untouched stack. Errors: `BadInput` where it was not measured."""
        return self.grid.default


class Gain(NamedTuple):
    """Of the best configuration of some, over the default: (conditions, sites), fractions; None without halves."""

    papers: Floats
    halves: Floats | None


def measured(tensor: Tensor) -> tuple[MeasuredCells, tuple[str, ...]]:
    """The cells of the conditions that were measured, and the names of those that were not. Errors: `BadInput`."""
    has: Flags = np.asarray(~np.isnan(tensor.median_ms).all(axis=(1, 2)))
    if not has.any():
        raise BadInput("no condition is measured yet; wait, or go on: configtron learn measure --resume -1")
    missing = tuple(name for name, there in zip(tensor.names, has, strict=True) if not there)
    ms = np.where(np.isnan(tensor.median_ms), np.inf, tensor.median_ms).astype(np.float64)[has]
    repeats = None if tensor.repeats_ms is None else tensor.repeats_ms[has].astype(np.float64)
    names = tuple(name for name, there in zip(tensor.names, has, strict=True) if there)
    columns = (tensor.bandwidth_kbps[has], tensor.rtt_ms[has], tensor.loss[has], tensor.median_ms[has])
    kept = Tensor(tensor.grid, tensor.sites, names, *columns, tensor.source, tensor.provenance)
    if repeats is None:
        endless = np.full(ms.shape, np.inf)
        return MeasuredCells(kept, ms, -endless, endless, None), missing
    low, high, halves = _judged(repeats, _rule(tensor))
    return MeasuredCells(kept, ms, low, high, halves), missing


def _rule(tensor: Tensor) -> StoppingRule:
    looks = dict(tensor.provenance).get("looks", "")
    try:
        return StoppingRule(tuple(int(look) for look in looks.split(","))) if looks else StoppingRule()
    except ValueError as error:
        raise BadInput(f"the tensor's provenance says looks {looks!r}, which are no numbers of loads") from error


def _judged(repeats: Floats, rule: StoppingRule) -> tuple[Floats, Floats, Floats | None]:
    """Intervals and halves of cells. A load that failed is slower than all; loads end at a look."""
    flat = repeats.reshape(-1, repeats.shape[-1])
    low, high = np.full(len(flat), -np.inf), np.full(len(flat), np.inf)
    halves = np.full((2, len(flat)), np.inf)
    counts = _counts(flat, rule.looks)
    for count in np.unique(counts[counts > 0]):
        rows = counts == count
        loads = np.where(np.isnan(flat[rows, :count]), np.inf, flat[rows, :count])
        for half in (0, 1) if count > 1 else ():
            halves[half, rows] = np.median(loads[:, half::2], axis=1)
        passed = [rank for look, rank in zip(rule.looks, ranks(rule.looks, rule.error), strict=True) if look <= count]
        if passed and passed[-1]:
            ordered = np.sort(loads, axis=1)
            low[rows], high[rows] = ordered[:, passed[-1] - 1], ordered[:, count - passed[-1]]
    shape = repeats.shape[:3]
    found = halves.reshape(2, *shape) if repeats.shape[-1] > 1 else None
    return low.reshape(shape), high.reshape(shape), found


def _counts(flat: Floats, looks: tuple[int, ...]) -> Codes:
    """(cells,): loads of each, the failed ones with them."""
    there = ~np.isnan(flat)
    last = np.where(there.any(axis=1), flat.shape[1] - np.argmax(there[:, ::-1], axis=1), 0)
    found: Codes = last.astype(np.int64)
    for look in sorted(looks, reverse=True):
        found = np.where((last > 0) & (last <= look), min(look, flat.shape[1]), found)
    return found


def gain(cells: MeasuredCells, mask: Flags | None = None, over: int | None = None) -> Gain:
    """What the best of these configurations gains over the default, or over that one, per condition and site."""
    some = np.arange(len(cells.grid)) if mask is None else np.flatnonzero(mask)
    default = cells.default if over is None else over
    with np.errstate(invalid="ignore"):
        papers = 1 - cells.ms[:, some].min(axis=1) / _finite(cells.ms[:, default])
        if cells.halves_ms is None:
            return Gain(papers, None)
        ratios = []
        for half in (0, 1):
            chosen = some[cells.halves_ms[half][:, some].argmin(axis=1)]
            other = cells.halves_ms[1 - half]
            read = np.take_along_axis(other, chosen[:, None, :], axis=1)[:, 0]
            ratios.append(read / _finite(other[:, default]))
    return Gain(papers, 1 - (ratios[0] + ratios[1]) / 2)


def _finite(ms: Floats) -> Floats:
    return np.where(np.isfinite(ms), ms, np.nan)


def over_conditions(values: Floats, statistic: Callable[[Floats], Floats], rng: np.random.Generator) -> Figure:
    """A statistic of (conditions, ...) values; it takes (draws, n) and gives (draws,), and sees no NaN but its own."""
    rows = values.reshape(len(values), -1)
    whole = float(statistic(rows.reshape(1, -1))[0])
    drawn = rows[rng.integers(len(rows), size=(DRAWS, len(rows)))].reshape(DRAWS, -1)
    low, high = np.nanpercentile(statistic(drawn), (2.5, 97.5))
    return Figure(whole, float(low), float(high))


def percentile(share: float) -> Callable[[Floats], Floats]:
    """The statistic that so many per cent of values do not exceed."""

    def of(values: Floats) -> Floats:
        # numpy's way around NaN is a hundred times slower, and most tensors have none
        read = np.nanpercentile if np.isnan(values).any() else np.percentile
        found: Floats = np.asarray(read(values, share, axis=1))
        return found

    return of


def mean(values: Floats) -> Floats:
    """The statistic: the mean."""
    found: Floats = np.nanmean(values, axis=1)
    return found
