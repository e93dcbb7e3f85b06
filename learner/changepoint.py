# SPDX-License-Identifier: MIT
"""Bayesian online change-point detection, on the logarithm of a client's round trips or rates.

Question   Has this client's network changed, and since which sample?
Method     Adams and MacKay's recursion over run lengths, each with a normal-inverse-gamma model of ln(value) since the
           run began. A median of 3 goes before it, so that one spike is no change; runs are cut at 300 samples. A
           change is reported when the most probable run has become short and old runs hold little: then its start is
           the change.
Stop when  the samples end; every sample costs the same.
Reads as   `Change(at, since)`: noticed with sample `at`, begun with sample `since`. at - since is the delay of
           detection: the detector's part of re-classification latency.
Fails as   no change, for a drift slower than a run, and for two changes within `least_run` samples.
Differs    from the plain Gaussian model CT takes: without the median, most of its reports are spikes.
Source     Adams and MacKay 2007; CT section 6; Murphy 2007 for the normal-inverse-gamma updates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.state import keep

# Longer runs are all alike: their model no longer moves.
LONGEST_RUN = 300


@dataclass(frozen=True, slots=True)
class Change:
    """A change. at: sample that showed it; since: first sample after it; both count from 0."""

    at: int
    since: int

    @property
    def latency(self) -> int:
        """Samples from the change to its report."""
        return self.at - self.since


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Run lengths 0 .. n: log probability, mean and squared deviations of each; the samples so far."""

    log_probability: Floats
    mean: Floats
    square: Floats
    last: Floats
    samples: int
    since: int


def no_runs() -> Runs:
    """Nothing seen."""
    return Runs(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(0), 0, 0)


# The least sample (ms, kbit/s): a clock that ticks too slowly reports 0 for a value above it.
LEAST = 1e-6


@dataclass(frozen=True)
class Detector:
    """Hyper-parameters; `step` takes runs and a sample, and gives runs and, perhaps, a change.

    hazard      probability that a sample begins a new run: one in 250, some minutes of a busy client's samples
    sigma_ln    expected spread of ln(value) within a run; its weight is `alpha` samples, `kappa` that of the first mean
    least_run   samples a new run needs before it is believed
    sure        probability that the change has happened, of all runs
    median_of   last samples whose median is taken for one: a single spike is no change
    """

    hazard: float = 1.0 / 250.0
    sigma_ln: float = 0.1
    alpha: float = 2.0
    kappa: float = 0.02
    least_run: int = 3
    sure: float = 0.8
    median_of: int = 3

    def step(self, runs: Runs, value: float) -> tuple[Runs, Change | None]:
        """One sample, positive, in any unit; of 0 the least there is. The first one only begins."""
        last = np.append(runs.last, math.log(max(value, LEAST)))[-self.median_of :]
        x = float(np.median(last))
        if runs.samples == 0:
            return Runs(np.zeros(1), np.array([x]), np.zeros(1), last, 1, 0), None
        probability = self._advance(runs, x)
        mean, square = self._models(runs, x)
        after = Runs(probability, mean, square, last, runs.samples + 1, runs.since)
        return self._judged(after)

    def _advance(self, runs: Runs, x: float) -> Floats:
        n = np.arange(len(runs.mean)) + 1.0
        kappa, alpha = self.kappa + n, self.alpha + n / 2.0
        beta = self.alpha * self.sigma_ln**2 + runs.square / 2.0
        fits = log_densities(x, runs.mean, beta * (kappa + 1.0) / (alpha * kappa), 2.0 * self.alpha)
        # A new run may begin anywhere: three e-folds around the present level are as wide as networks differ.
        level = float(np.sum(np.exp(runs.log_probability) * runs.mean))
        anew = -0.5 * ((x - level) / 1.5) ** 2 - math.log(1.5 * math.sqrt(2.0 * math.pi))
        grown = runs.log_probability + fits + math.log1p(-self.hazard)
        joint = np.concatenate(([anew + math.log(self.hazard)], grown))[:LONGEST_RUN]
        top = joint.max()
        found: Floats = joint - (top + math.log(np.exp(joint - top).sum()))
        return found

    def _models(self, runs: Runs, x: float) -> tuple[Floats, Floats]:
        n = np.arange(len(runs.mean)) + 1.0
        mean = runs.mean + (x - runs.mean) / (n + 1.0)
        square = runs.square + (x - runs.mean) * (x - mean)
        return np.concatenate(([x], mean))[:LONGEST_RUN], np.concatenate(([0.0], square))[:LONGEST_RUN]

    def _judged(self, runs: Runs) -> tuple[Runs, Change | None]:
        at, probability = runs.samples - 1, np.exp(runs.log_probability)
        length = int(probability.argmax()) + 1
        old = runs.samples - runs.since
        # Runs that began after the last change, and not with it: the present run is new.
        young = float(probability[: max(min(old, LONGEST_RUN) - self.least_run, 0)].sum())
        since = runs.samples - length
        if length < self.least_run or since - runs.since < self.least_run or young < self.sure or length >= LONGEST_RUN:
            return runs, None
        begun = Runs(runs.log_probability, runs.mean, runs.square, runs.last, runs.samples, since)
        return begun, Change(at, since)


def changes(values: Floats, detector: Detector | None = None) -> list[Change]:
    """Return all changes in a client's samples, (n,) positive."""
    with_, runs, found = detector or Detector(), no_runs(), []
    for value in values:
        runs, change = with_.step(runs, float(value))
        found += [change] if change else []
    return found


@lru_cache(maxsize=8)
def _gammas(first: float) -> Floats:
    """Return ln(gamma((v + 1) / 2) / gamma(v / 2)) for v = first + 1, first + 2, ... up to the longest run."""
    freedom = [first + n for n in range(1, LONGEST_RUN + 1)]
    return np.array([math.lgamma((v + 1.0) / 2.0) - math.lgamma(v / 2.0) for v in freedom])


def log_densities(x: float, mean: Floats, square: Floats, first: float) -> Floats:
    """Return log densities of Student's t: location, squared scale (n,), degrees of freedom first + 1 .. first + n."""
    freedom = first + 1.0 + np.arange(len(mean))
    half = _gammas(first)[: len(mean)]
    body = -(freedom + 1.0) / 2.0 * np.log1p((x - mean) ** 2 / (square * freedom))
    found: Floats = half - 0.5 * np.log(math.pi * freedom * square) + body
    return found
