# SPDX-License-Identifier: MIT
"""Run a policy on a world: the same sessions, outcomes and updates for every policy, and the figures of the result.

Every policy sees the same contexts and the same distortions of outcomes, and updates after the same number of them
(`interval`). Figures are computed from the world's medians, not from single loads, nor from distorted reports.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.model.tensor import Tensor
from configtron.studies.sim.loop import loads
from configtron.studies.sim.metrics import mean
from configtron.studies.sim.sessions import Sessions

FIRST, WORSE, BROKEN = 1000, 1.2, 5.0
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class DrawnWorld:
    """A world with all its random numbers drawn.

    scale      (n,) noise factor of each load, with the time of day
    instead    (n,) ms that is reported in place of the load's own; NaN: the load's own is reported
    warm       an emulator's tensor, for policies that take a warm start
    interval   outcomes between updates
    """

    name: str
    tensor: Tensor
    sessions: Sessions
    classes: Classes
    scale: Floats
    instead: Floats
    warm: Tensor | None
    interval: int
    seed: int


class Chooser(Protocol):
    """A policy as the suite runs it. step: contexts that it decides at once."""

    step: int

    def choose(self, seen: Contexts) -> Codes: ...

    def observe(self, seen: Contexts, picks: Codes, ms: Floats) -> None: ...


def play(chooser: Chooser, world: DrawnWorld) -> dict[str, Any]:
    """Run it over all sessions; the figures of `judged`, and CPU seconds."""
    n, sessions, tensor = len(world.sessions), world.sessions, world.tensor
    ms, picks = np.empty(n), np.zeros(n, dtype=np.int64)
    before = time.process_time()
    step = min(chooser.step, world.interval)
    for at in range(0, n, step):
        rows = slice(at, min(n, at + step))
        seen = sessions.seen[rows]
        picks[rows] = chooser.choose(seen)
        ms[rows] = loads(sessions, tensor, picks[rows], rows)
        reported = np.where(np.isnan(world.instead[rows]), ms[rows] * world.scale[rows], world.instead[rows])
        chooser.observe(seen, picks[rows], reported)
    return judged(world, ms, picks) | {"cpu_s": round(time.process_time() - before, 2)}


def judged(world: DrawnWorld, ms: Floats, picks: Codes) -> dict[str, Any]:
    """Figures over all sessions, the first thousand and the last half; excess by prefix for paired comparisons."""
    n, sessions, tensor = len(ms), world.sessions, world.tensor
    everything, last = slice(0, n), slice(n // 2, n)
    best = loads(sessions, tensor, tensor.best[sessions.condition, sessions.seen.site], everything)
    default = loads(sessions, tensor, np.full(n, tensor.grid.default), everything)
    excess, far, whose = ms - best, ms / best - 1.0, sessions.seen.prefix
    some, first = mean(excess, whose), mean((ms - default)[:FIRST], whose[:FIRST])
    prefixes = len(sessions.seen.prefixes)
    return {
        "sessions": n,
        "excess_ms": some.value,
        "excess_low": some.low,
        "excess_high": some.high,
        "last_half_ms": float(excess[last].mean()),
        "first_over_default": float(ms[:FIRST].mean() / default[:FIRST].mean() - 1.0),
        "first_low": first.low / float(default[:FIRST].mean()),
        "first_high": first.high / float(default[:FIRST].mean()),
        "first_worse": float((ms[:FIRST] > WORSE * default[:FIRST]).mean()),
        "over_default": float(ms.mean() / default.mean() - 1.0),
        "worse": float((ms > WORSE * default).mean()),
        "median_distance": float(np.median(far[last])),
        "p95_distance": float(np.percentile(far[last], 95)),
        "on_broken": int((ms > BROKEN * default).sum()),
        "mean_ms": float(ms.mean()),
        "best_ms": float(best.mean()),
        "default_ms": float(default.mean()),
        "configurations": int(len(np.unique(picks))),
        "by_prefix": [round(float(one), 3) for one in np.bincount(whose, weights=excess, minlength=prefixes)],
        "of_prefix": np.bincount(whose, minlength=prefixes).tolist(),
    }


def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float, float]:
    """Mean excess of one less the other's, ms, and its 95 % interval over prefixes; the sessions are the same."""
    counts = np.array(one["of_prefix"])
    sums = np.array(one["by_prefix"]) - np.array(other["by_prefix"])
    here = counts > 0
    middle = float(sums.sum() / counts.sum())
    rest = (sums - middle * counts)[here]
    slack = 1.96 * float(np.sqrt(len(rest) / max(len(rest) - 1, 1) * (rest**2).sum())) / float(counts.sum())
    return middle, middle - slack, middle + slack
