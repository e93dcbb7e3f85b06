"""What a replay showed: distance from the best, excess, who was worse off than under Default, which arms decided.

Medians of the tensor are judged, not single noisy loads. The best of a session is the fastest configuration of its
starting condition, the changed rest included. Intervals are of the sessions at hand, for one run of one seed: quantiles
by order statistics, means by their standard error; over seeds, `over` takes the runs' values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import ARMS, Codes, Floats
from configtron.learner.sim.loop import Replay, loads

# Two-sided 95 % of a normal distribution, and of Student's for 2 to 10 runs.
Z95 = 1.96
T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
# A session is worse off when it took a fifth longer than under Default.
WORSE = 1.2


@dataclass(frozen=True, slots=True)
class Measured:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Fared:
    """How sessions fared. median, p95: distance from the best, as a share of it; excess_ms: mean over the best;
    worse: share a fifth slower than under Default; gain: median improvement on Default; arms: share by name."""

    sessions: int
    median: Measured
    p95: Measured
    excess_ms: Measured
    worse: Measured
    gain: Measured
    arms: tuple[tuple[str, float], ...]


def fared(replay: Replay, rows: slice = slice(None)) -> Fared:
    """Those sessions, which must have been replayed."""
    here = slice(*rows.indices(replay.at_))
    ms, sessions, tensor = replay.median_ms_[here], replay.sessions, replay.tensor
    site = sessions.seen.site[here]
    best = loads(sessions, tensor, tensor.best[sessions.condition[here], site], here)
    default = loads(sessions, tensor, np.full(len(ms), tensor.grid.default), here)
    away = ms / best - 1.0
    arms = np.bincount(replay.decisions_.arm[here], minlength=len(ARMS)) / len(ms)
    return Fared(
        len(ms),
        quantile(away, 0.5),
        quantile(away, 0.95),
        mean(ms - best),
        mean((ms > WORSE * default).astype(np.float64)),
        quantile(1.0 - ms / default, 0.5),
        tuple((name, float(share)) for name, share in zip(ARMS, arms, strict=True) if share > 0),
    )


def quantile(values: Floats, share: float) -> Measured:
    """A quantile; its interval by the order statistics a binomial count allows."""
    ordered, n = np.sort(values), len(values)
    slack = Z95 * np.sqrt(n * share * (1.0 - share))
    at: Codes = np.clip(np.array([n * share - slack, n * share + slack]).round().astype(np.int64), 0, n - 1)
    return Measured(float(np.quantile(ordered, share)), float(ordered[at[0]]), float(ordered[at[1]]))


def mean(values: Floats) -> Measured:
    """A mean; its interval by its standard error."""
    middle, slack = float(values.mean()), Z95 * float(values.std()) / np.sqrt(len(values))
    return Measured(middle, float(middle - slack), float(middle + slack))


def over(values: list[float]) -> Measured:
    """The mean over seeds, at least two, and Student's interval."""
    n, middle = len(values), float(np.mean(values))
    factor = T95[n - 2] if n - 2 < len(T95) else Z95
    slack = factor * float(np.std(values, ddof=1)) / np.sqrt(n)
    return Measured(middle, float(middle - slack), float(middle + slack))
