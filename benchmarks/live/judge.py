# SPDX-License-Identifier: MIT
"""Who judges the live experiment: by the world's own loads of both arms, never by what the learner keeps.

Intervals are of a bootstrap by client (Field and Welsh 2007): a client that is held back is held back for ever, so all
its loads are one draw. A continent's arms are compared by quantiles of page load time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.sequential.always_valid import width
from configtron.learner.sequential.differences import MEDIAN, P95, ArmLoads, difference
from tests.support.live_world import Loads

RESAMPLES = 1_000
# First number of the seeds of the bootstrap.
DRAWING = 71


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """(n,) loads: client, continent, ms, whether the client is held back, epoch."""

    client: Codes
    continent: Codes
    plt_ms: Floats
    held: Codes
    epoch: Codes

    def __getitem__(self, rows: Codes) -> Judged:
        names = self.__dataclass_fields__
        return Judged(*(getattr(self, name)[rows] for name in names))

    def __len__(self) -> int:
        return len(self.client)


def judged_of(loads: Sequence[Loads], continent: Codes, times: Sequence[Floats] | None = None) -> Judged:
    """Return loads of epochs as columns. continent: (clients,); times: other load times of the same loads."""
    ms = [one.plt_ms for one in loads] if times is None else list(times)
    client = np.concatenate([one.client for one in loads])
    epoch = np.concatenate([np.full(len(one.client), one.epoch) for one in loads])
    held = np.concatenate([one.held for one in loads])
    return Judged(client, continent[client], np.concatenate(ms), held, epoch)


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of both arms, ms, and how much lower the tuned one is, as a share, with its 95 % interval."""

    share: float
    held_ms: float
    tuned_ms: float
    gain: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """In a table: ms of both arms, gain and interval in per cent."""
        return (f"{self.held_ms:7.0f} {self.tuned_ms:7.0f} {100 * self.gain:+6.1f} "
                f"[{100 * self.low:+6.1f}, {100 * self.high:+6.1f}]")  # fmt: skip


def compared(loads: Judged, share: float, seed: int = 1, level: float = 0.95) -> Quantile:
    """Return how the arms differ in a quantile, share 0 to 1; level: of the interval."""
    rng = np.random.default_rng((DRAWING, seed))
    arms = [loads[np.flatnonzero(loads.held == held)] for held in (1, 0)]
    found = [_quantiles(arm, share, rng) for arm in arms]
    held, tuned = (one[0] for one in found)
    gains = 1.0 - found[1][1:] / found[0][1:]
    low, high = np.quantile(gains, ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return Quantile(share, float(held), float(tuned), float(1.0 - tuned / held), float(low), float(high))


def _quantiles(arm: Judged, share: float, rng: np.random.Generator) -> Floats:
    """(1 + RESAMPLES,) the quantile of the loads, and of resampled clients' loads."""
    order = np.argsort(arm.plt_ms, kind="stable")
    ms, client = arm.plt_ms[order], np.unique(arm.client[order], return_inverse=True)[1]
    clients, found = int(client.max()) + 1, [_weighted(ms, np.ones(len(ms)), share)]
    for _ in range(RESAMPLES):
        times = np.bincount(rng.integers(clients, size=clients), minlength=clients)
        found.append(_weighted(ms, times[client].astype(np.float64), share))
    return np.array(found)


def _weighted(ms: Floats, weight: Floats, share: float) -> float:
    upto = np.cumsum(weight)
    return float(ms[min(int(np.searchsorted(upto, share * upto[-1])), len(ms) - 1)])


def claimed(loads: Judged, prefix: Codes, error: float = 0.05, tuned_at: float = 400.0) -> bool:
    """Return whether the product's own test, read after each epoch, ever claims that the arms differ in median or p95:
    confidence sequences, their error shared. prefix: (clients,) whose prefix each client is of."""
    epochs = np.unique(loads.epoch)
    for epoch in epochs:
        now = loads[np.flatnonzero(loads.epoch <= epoch)]
        arms = ArmLoads(now.held == 0, np.log(now.plt_ms), now.client, prefix[now.client], np.zeros(0))
        for goal in (MEDIAN, P95):
            found = difference(arms, goal)
            half = width(found.error**2, found.effective_units, error / 2.0, tuned_at)
            if not found.reason and abs(found.estimate) > half:
                return True
    return False


def mean_interval(values: Floats, client: Codes, seed: int = 1, level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of these values (n,) and its interval, of a bootstrap by client (n,)."""
    code = np.unique(client, return_inverse=True)[1]
    count = np.bincount(code).astype(np.float64)
    total, rng = np.bincount(code, weights=values), np.random.default_rng((DRAWING, seed))
    times = rng.multinomial(len(count), np.full(len(count), 1.0 / len(count)), size=RESAMPLES)
    means = (times @ total) / (times @ count)
    low, high = np.quantile(means, ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return float(values.mean()), float(low), float(high)
