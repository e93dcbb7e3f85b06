# SPDX-License-Identifier: MIT
"""The metrics of a replay: distance from the best, excess, sessions worse off than under Default, deciding arms.

Question   How far from the best were these sessions, and how well does one replay show that?
Method     Medians of the tensor are judged, not single noisy loads. The best of a session is the fastest configuration
           of its starting condition, the changed rest included. Sessions of one prefix share its network, so intervals
           take prefixes as the sampling unit: a mean's by the spread of the prefixes' sums, a quantile's by that of
           their shares below it (Woodruff). Over worlds, `over` takes the runs' values themselves.
Reads as   `Measured`: a number and its 95 % interval. It covers other clients of the same networks, but no
           other world and no other course of learning: studies draw those.
Fails as   an infinite interval, where there is one prefix.
Source     Woodruff 1952 (quantiles of samples in clusters); Student 1908
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import ARMS, Codes, Floats
from configtron.model.student import student
from configtron.studies.sim.loop import Replay, loads

# A session is worse off when it took a fifth longer than under Default.
WORSE = 1.2


@dataclass(frozen=True, slots=True)
class Measured:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReplayMetrics:
    """How sessions fared. median, p95: distance from the best, as a share of it; excess_ms: mean over the best;
    worse: share a fifth slower than under Default; gain: median improvement on Default; arms: share by name."""

    sessions: int
    median: Measured
    p95: Measured
    excess_ms: Measured
    worse: Measured
    gain: Measured
    arms: tuple[tuple[str, float], ...]


def measure(replay: Replay, rows: slice = slice(None)) -> ReplayMetrics:
    """Return the metrics of those sessions, which must have been replayed; only clients' sessions count
    (`Reports.client`)."""
    here = slice(*rows.indices(replay.at_))
    client = clients(replay, here)
    ms, whose = replay.median_ms_[here][client], replay.sessions.seen.prefix[here][client]
    best, default = best_ms(replay, here)[client], default_ms(replay, here)[client]
    far = ms / best - 1.0
    arms = np.bincount(replay.decisions_.arm[here][client], minlength=len(ARMS)) / len(ms)
    return ReplayMetrics(
        len(ms),
        quantile(far, 0.5, whose),
        quantile(far, 0.95, whose),
        mean(ms - best, whose),
        mean((ms > WORSE * default).astype(np.float64), whose),
        quantile(1.0 - ms / default, 0.5, whose),
        tuple((name, float(share)) for name, share in zip(ARMS, arms, strict=True) if share > 0),
    )


def clients(replay: Replay, rows: slice = slice(None)) -> npt.NDArray[np.bool_]:
    """Return (n,) whether each of those sessions is a client's."""
    here = slice(*rows.indices(replay.at_))
    if replay.reports is None:
        return np.ones(here.stop - here.start, dtype=np.bool_)
    return replay.reports.client[here]


def best_ms(replay: Replay, rows: slice = slice(None)) -> Floats:
    """Return (n,) the load time of the fastest configuration for each session's network and site, ms."""
    here = slice(*rows.indices(replay.at_))
    sessions, tensor = replay.sessions, replay.tensor
    return loads(sessions, tensor, tensor.best[sessions.condition[here], sessions.seen.site[here]], here)


def default_ms(replay: Replay, rows: slice = slice(None)) -> Floats:
    """Return (n,) the load time of the untouched stack, ms."""
    here = slice(*rows.indices(replay.at_))
    n = here.stop - here.start
    return loads(replay.sessions, replay.tensor, np.full(n, replay.tensor.grid.default), here)


def distance(replay: Replay, rows: slice = slice(None)) -> Floats:
    """Return (n,) distance from the best, as a share of the best's page load time."""
    found: Floats = replay.median_ms_[slice(*rows.indices(replay.at_))] / best_ms(replay, rows) - 1.0
    return found


def quantile(values: Floats, share: float, whose: Codes) -> Measured:
    """Return a quantile; whose: (n,) the prefix of each."""
    ordered, n = np.sort(values), len(values)
    found = float(np.quantile(ordered, share))
    slack = _half_interval((values <= found).astype(np.float64) - share, whose)
    if not np.isfinite(slack):
        return Measured(found, -np.inf, np.inf)
    at = np.clip(np.array([share - slack, share + slack]) * n, 0, n - 1).round().astype(np.int64)
    return Measured(found, min(float(ordered[at[0]]), found), max(float(ordered[at[1]]), found))


def mean(values: Floats, whose: Codes) -> Measured:
    """Return a mean; whose: (n,) the prefix of each."""
    middle = float(values.mean())
    slack = _half_interval(values - middle, whose)
    return Measured(middle, middle - slack, middle + slack)


def _half_interval(rest: Floats, whose: Codes) -> float:
    """Return half the 95 % interval of the mean, from sums by cluster. rest: deviations, whose mean is 0."""
    sums = np.bincount(whose, weights=rest)[np.unique(whose)]
    clusters = len(sums)
    if clusters < 2:
        return float("inf")
    return student(clusters - 1) * float(np.sqrt(clusters / (clusters - 1) * (sums**2).sum())) / len(rest)


def over(values: list[float]) -> Measured:
    """Return the mean over seeds, at least two, and Student's interval."""
    n, middle = len(values), float(np.mean(values))
    slack = student(n - 1) * float(np.std(values, ddof=1)) / np.sqrt(n)
    return Measured(middle, float(middle - slack), float(middle + slack))
