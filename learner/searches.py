# SPDX-License-Identifier: MIT
"""Policies that search every row on its own: the configurations tried, the next one, the end of the search.

A row is a cell (class and website) or, in the baselines without classes, a client's prefix. A search is a list of first
samples, then an engine's suggestions until its expected gain falls below a share of the best page load time and enough
was tried. While it lasts the row serves the configuration under test; an interval without sessions changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep
from configtron.learner.tally import Tally
from configtron.model.grid import Grid

# The phase of a row: first samples, search, or done.
FIRST, SEARCH, DONE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The configuration to try next. gain: expected improvement on the best so far, as a share of its page load
    time."""

    configuration: int
    gain: float


class Engine(Protocol):
    """One way to pick the next configuration."""

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        """tried (n,) configurations, each once, with page load times ms (n,); pending (m,) ones under way.

        Never suggests a tried or pending configuration, unless nothing else is left. Errors: `BadInput` for n = 0.
        """


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Searches:
    """Per row: phase (R,), configuration under test (R,), first samples (R, s) with -1 for none, last gain (R,); loads
    that the row had when that configuration was chosen (R,)."""

    phase: Codes
    testing: Codes
    first: Codes
    gain: Floats
    since: Codes


@dataclass(frozen=True, slots=True)
class Stop:
    """When a search is over. least_tested: configurations; gain: expected improvement as a share of the best's time;
    patience: loads that a row may see without one of the configuration under test, after which the program will not try
    it and the search ends with the loads so far. 0: wait for it, as a policy does that decides itself."""

    least_tested: int = 7
    gain: float = 0.05
    patience: int = 0


def latin(grid: Grid, samples: int, rng: np.random.Generator) -> Codes:
    """Return (samples,) different configurations: in each knob every stratum once, then the nearest one not yet taken.

    A grid that is no full product has not every combination, hence "nearest". Source: McKay, Beckman and Conover 1979;
    CT section 4 takes 4 samples.
    """
    places = []
    for knob in grid.knobs:
        strata = (rng.permutation(samples) + rng.random(samples)) / samples
        places.append(np.minimum((strata * len(knob.values)).astype(np.int64), len(knob.values) - 1))
    wanted = np.stack(places, axis=1)
    taken: list[int] = []
    # Where a combination is not in the grid, the knob with the fewest values gives way.
    weights = 1.0 + 0.01 * np.array([len(knob.values) for knob in grid.knobs])
    for row in wanted:
        away = (grid.positions != row) @ weights
        away[taken] = np.inf
        taken.append(int(away.argmin()))
    return np.array(taken, dtype=np.int64)


def started(rows: int, grid: Grid, samples: int, rng: np.random.Generator) -> Searches:
    """Return searches that have not begun: each row with a Latin hypercube of its own."""
    first = np.stack([latin(grid, samples, rng) for _ in range(rows)])
    none = np.zeros(rows, dtype=np.int64)
    return Searches(np.full(rows, FIRST), first[:, 0].copy(), first, np.full(rows, np.nan), none)


def joined_searches(one: Searches, more: Searches) -> Searches:
    """Return searches with these rows appended."""
    names = Searches.__dataclass_fields__
    return Searches(*(np.concatenate((getattr(one, name), getattr(more, name))) for name in names))


def advance(state: Searches, tally: Tally, rows: Codes, engine: Engine, stop: Stop) -> Searches:
    """Return the searches after outcomes in these rows."""
    phase, testing, gain, since = state.phase.copy(), state.testing.copy(), state.gain.copy(), state.since.copy()
    for row in rows[phase[rows] != DONE]:
        count = tally.count[row]
        loads = int(count.sum())
        if count[testing[row]] == 0:
            if stop.patience and loads - since[row] >= stop.patience:
                phase[row] = DONE
            continue
        since[row] = loads
        left = [int(at) for at in state.first[row] if at >= 0 and count[at] == 0]
        if left:
            testing[row] = left[0]
            continue
        tried = np.flatnonzero(count)
        if len(tried) == len(count):
            phase[row] = DONE
            continue
        found = engine.suggest(tried, np.exp(tally.total[row, tried] / count[tried]), np.zeros(0, dtype=np.int64))
        gain[row], testing[row] = found.gain, found.configuration
        over = len(tried) >= stop.least_tested and found.gain < stop.gain
        phase[row] = DONE if over else SEARCH
    return Searches(phase, testing, state.first, gain, since)


def observed_best(tally: Tally, default: int) -> Codes:
    """Return (R,) the configuration with the lowest observed mean; Default where nothing was seen."""
    mean = np.where(tally.count > 0, tally.mean(), np.inf)
    return np.where(tally.count.any(axis=1), mean.argmin(axis=1), default)


def shrunk_best(tally: Tally, default: int, prior_loads: float = 3.0) -> Codes:
    """Return (R,) the lowest mean after each mean is shrunk to its row's, with the weight of `prior_loads` loads: luck
    counts for less."""
    loads = tally.count.sum(axis=1, keepdims=True)
    level = tally.total.sum(axis=1, keepdims=True) / np.maximum(loads, 1.0)
    shrunk = (tally.total + prior_loads * level) / (tally.count + prior_loads)
    best = np.where(tally.count > 0, shrunk, np.inf).argmin(axis=1)
    return np.where(loads[:, 0] > 0, best, default)
