# SPDX-License-Identifier: MIT
"""Which knobs and which features matter, with intervals, and which knobs are dead.

Question   How much time is lost without this knob, without this feature? Does this knob do anything at all?
Method     A knob: everything else chosen best, the knob held at its default; the excess over choosing it too. A
           feature: clients' values of it are exchanged among them and the policy decides on; the excess over its real
           decisions. Both as medians and 95th percentiles over clients, with bootstrap intervals over conditions or
           clients. A dead knob: pairs of configurations that differ in it alone, within one cell; their differences
           squared, in units of their noise, average 1 if there is no effect.
Stop when  all were looked at once.
Reads as   `Importance` rows, largest first; `DeadKnob` rows with the largest effect that could have stayed unseen.
Fails as   a knob of which no pair was seen is neither alive nor dead, and is not reported.
Differs    from CT's Fig. 9, which has no intervals and counts dead knobs as explored.
Source     CT Figs 8 and 9; Breiman 2001 (permutation importance); Efron 1979 (bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.table_policy import TablePolicy
from configtron.learner.tally import Tally
from configtron.model.grid import Dead, Grid
from configtron.model.tensor import Tensor

# Resamples of a bootstrap interval: its ends move by less than a tenth of its width beyond that.
RESAMPLES = 200
# Standard deviations of the averaged square that a knob without effect stays below, and that one with an effect passes.
DEAD_SIGMAS = 3.0
# The reason to call a knob dead.
REASON = "no difference beyond noise"
# A knob is called dead where an effect of this share of page load time would have been seen; less would not be missed.
SMALL = 0.05
# Pairs of configurations grow with the square of a knob's values, and loads of each pair shrink with it: of more values
# than this (a window logged segment by segment) no number of loads at hand shows anything.
MOST_VALUES = 32
# Cells and pairs that are compared at a time: bounds memory at some hundred megabytes.
CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Importance:
    """Excess without it, as a share of page load time: median and p95 over clients, each with a 95 % interval."""

    name: str
    median: float
    median_low: float
    median_high: float
    p95: float
    p95_low: float
    p95_high: float


@dataclass(frozen=True, slots=True)
class DeadKnob:
    """A knob without effect, perhaps only where `where` has `value`. unseen: effect that may have been overlooked."""

    dead: Dead
    pairs: int
    unseen: float


def knob_importance(tensor: Tensor, rng: np.random.Generator) -> list[Importance]:
    """Return each knob's importance over a tensor's conditions and sites; conditions are resampled whole."""
    found = []
    for at, knob in enumerate(tensor.grid.knobs):
        held = tensor.grid.positions[:, at] == tensor.grid.positions[tensor.grid.default, at]
        without = np.nanmin(tensor.median_ms[:, held, :], axis=1)
        excess = (without / tensor.best_ms - 1.0).astype(np.float64)
        found.append(_with_intervals(knob.name, excess, rng))
    return sorted(found, key=lambda row: (-row.median, -row.p95))


def feature_importance(
    policy: TablePolicy,
    contexts: Contexts,
    ms: Callable[[Codes], Floats],
    rng: np.random.Generator,
) -> list[Importance]:
    """Return each feature's importance to a policy as it stands. ms(configurations) -> (n,) page load times of these
    clients."""
    likely = policy.served_.probabilities(len(policy.grid)).argmax(axis=1)

    def took(seen: Contexts) -> Floats:
        row, _ = policy.where(seen)
        return ms(np.where(row < 0, policy.grid.default, likely[row]))

    real, found = took(contexts), []
    for name in ("bandwidth_kbps", "rtt_ms", "loss", "site"):
        exchanged = {name: getattr(contexts, name)[rng.permutation(len(contexts))]}
        excess = took(replace(contexts, **exchanged)) / real - 1.0
        found.append(_with_intervals(name, excess[:, None], rng))
    return sorted(found, key=lambda row: (-row.median, -row.p95))


def _with_intervals(name: str, excess: Floats, rng: np.random.Generator) -> Importance:
    """Return the importance from (units, each) excesses, with intervals by resampling units."""
    picks = rng.integers(len(excess), size=(RESAMPLES, len(excess)))
    resampled = np.array([np.nanpercentile(excess[pick], (50, 95)) for pick in picks])
    median, p95 = (float(x) for x in np.nanpercentile(excess, (50, 95)))
    (low, low95), (high, high95) = np.percentile(resampled, (2.5, 97.5), axis=0)
    return Importance(name, median, float(low), float(high), p95, float(low95), float(high95))


def dead_knobs(
    grid: Grid, tally: Tally, noise_ln: float, most_values: int = MOST_VALUES, at_once: int = CELLS_AT_ONCE
) -> list[DeadKnob]:
    """Return the knobs whose values make no difference in the log; a knob dead everywhere is not also listed by parts.

    noise_ln: standard deviation of ln(ms) of a single load. Knobs of more than `most_values` values are left out;
    `at_once` is how many cells of pairs are compared in one step.
    """
    found = []
    for at, knob in enumerate(grid.knobs):
        if len(knob.values) > most_values:
            continue
        pairs = _pairs(grid, at)
        whole = _judged(pairs, tally, noise_ln, Dead(knob.name, REASON), at_once)
        if whole is not None:
            found.append(whole)
            continue
        for other, knob2 in enumerate(grid.knobs):
            parts = knob2.values if other != at and len(knob2.values) <= most_values else ()
            for position, setting in enumerate(parts):
                part = pairs[grid.positions[pairs[:, 0], other] == position]
                reason = f"{REASON} where {knob2.name} is {setting}"
                named = Dead(knob.name, reason, knob2.name, setting)
                dead = _judged(part, tally, noise_ln, named, at_once)
                found += [dead] if dead is not None else []
    return found


def _pairs(grid: Grid, knob: int) -> Codes:
    """Return (pairs, 2) configurations that differ in one knob alone."""
    rest = np.delete(grid.positions, knob, axis=1)
    _, group = np.unique(rest, axis=0, return_inverse=True)
    group = group.reshape(-1)
    found = []
    for g in range(int(group.max()) + 1):
        members = np.flatnonzero(group == g)
        found += [(int(a), int(b)) for i, a in enumerate(members) for b in members[i + 1 :]]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _judged(pairs: Codes, tally: Tally, noise_ln: float, dead: Dead, at_once: int) -> DeadKnob | None:
    few = max(at_once // max(len(tally.count), 1), 1)
    parts = [_compared(pairs[at : at + few], tally, noise_ln) for at in range(0, len(pairs), few)]
    n, squares, variances = (sum(column) for column in zip(*parts, strict=True)) if parts else (0, 0.0, 0.0)
    if not n:
        return None
    square = squares / n
    # The average of n squared normal deviates has standard deviation sqrt(2 / n) around 1; differences that share a
    # configuration are not independent, so half as many are counted.
    slack = DEAD_SIGMAS * float(np.sqrt(4.0 / n))
    if square > 1.0 + slack:
        return None
    unseen = float(np.sqrt(max(square - 1.0, 0.0) + slack) * np.sqrt(variances / n))
    return DeadKnob(dead, n, float(np.expm1(unseen)))


def _compared(pairs: Codes, tally: Tally, noise_ln: float) -> tuple[int, float, float]:
    """Return how many pairs were seen in one cell; sums of their squared differences, in units of noise, and of the
    noise."""
    one, two = tally.count[:, pairs[:, 0]], tally.count[:, pairs[:, 1]]
    both = (one > 0) & (two > 0)
    mean = tally.mean()
    away = (mean[:, pairs[:, 0]] - mean[:, pairs[:, 1]])[both]
    variance = noise_ln**2 * (1.0 / one[both] + 1.0 / two[both])
    return int(both.sum()), float((away**2 / variance).sum()), float(variance.sum())


def proven(found: Sequence[DeadKnob]) -> tuple[Dead, ...]:
    """Return the knobs that are proven dead: the log would have shown an effect of SMALL."""
    return tuple(one.dead for one in found if one.unseen <= SMALL)


def tensor_tally(tensor: Tensor) -> Tally:
    """Return a tensor's repeats (or medians, as one load each) as sums per (condition, site) and configuration."""
    ms = tensor.median_ms[..., None] if tensor.repeats_ms is None else tensor.repeats_ms
    logs = np.log(ms.astype(np.float64)).transpose(0, 2, 1, 3).reshape(-1, len(tensor.grid), ms.shape[3])
    seen = ~np.isnan(logs)
    filled = np.where(seen, logs, 0.0)
    return Tally(seen.sum(axis=2).astype(np.float64), filled.sum(axis=2), (filled**2).sum(axis=2))
