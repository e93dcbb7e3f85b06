# SPDX-License-Identifier: MIT
"""Calibrating an emulator: of all five-number links, the one over which the schemes do as they do over a path.

Question   Which bottleneck rate, delay, queue, loss and kind stand for a path that is known by its flows only?
Method     The replication error (`replication.py`) is searched for its least by Bayesian optimisation: first what the
           measurements suggest and a Latin hypercube, then whatever promises the largest expected improvement over the
           best so far. One Gaussian process stands for the logarithm of each scheme's throughput and of each one's
           delay; what they expect of an emulator, drawn often enough, is what is expected of its error. Several are
           asked for at once: each next one as if the ones before had found what is expected (the believer's way),
           because one boot measures many.
Stop when  the budget is spent.
Reads as   the emulator whose error, by the processes' mean, is the least of those that were tried. One noisy look that
           came out well by chance is not the best for it.
Fails as   ValueError for figures of other schemes than the path's.
Differs    from Pantheon: it models the error, one number; here its parts are modelled, since a bowl made of slopes is
           found sooner by its slopes (Astudillo and Frazier).
Source     Yan and others, Pantheon, USENIX ATC 2018, 5; Jones and others, Efficient global optimization, 1998;
           Ginsbourger and others 2010; Astudillo and Frazier, Bayesian optimization of composite functions, ICML 2019
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Floats
from configtron.studies.emulation.emulators import Emulator, Space, space_of, starts_of
from configtron.studies.emulation.gaussian import Process
from configtron.studies.emulation.replication import Seen, replication_error

# The hypercube's points, after those that the measurements suggest.
SPREAD = 4
# Of the improvement's expectation: errors drawn for each candidate, and candidates, over all and around the best.
DRAWS, ANYWHERE, NEARBY = 64, 600, 300
# How far around, in the unit cube: a step and a nudge.
AROUND = (0.15, 0.05, 0.015)
# A candidate near one of the best may be of the other kind.
OTHER_KIND = 0.1
# So many of the tried are started from when looking nearby.
BEST = 3
# After the first fit the processes' lengths change little: so many steps suffice.
AGAIN_STEPS = 20
COORDINATES = 5


class Tried(NamedTuple):
    """An emulator and what the schemes got over it."""

    emulator: Emulator
    seen: Seen


class Search:
    """Ask and observe, by Bayesian optimisation. The same seed and the same figures ask for the same emulators."""

    def __init__(self, path: Seen, *, seed: int, starts: Sequence[Emulator] | None = None) -> None:
        self.path, self.space = path, space_of(path)
        self.tried: list[Tried] = []
        self._chance = np.random.default_rng([seed, 1])
        suggested = list(starts_of(path) if starts is None else starts)
        self._waiting = [*suggested, *spread(self.space, SPREAD, self._chance)]
        self._logs: list[Floats] = []

    def ask(self, count: int) -> list[Emulator]:
        """What to measure next."""
        given, self._waiting = self._waiting[:count], self._waiting[count:]
        if len(given) < count and self.tried:
            given += self._promising(count - len(given))
        return given or spread(self.space, count, self._chance)

    def observe(self, tried: Iterable[Tried]) -> None:
        """What came of it. Errors: ValueError for other schemes than the path's."""
        for one in tried:
            replication_error(self.path, one.seen)
            self.tried.append(one)

    def best(self) -> Emulator:
        """What to take. Errors: ValueError before anything was observed."""
        if not self.tried:
            raise ValueError("nothing was tried yet")
        expected = self._expected(self._fitted(), np.array([self._at(one.emulator) for one in self.tried]))
        return self.tried[int(expected.argmin())].emulator

    def _at(self, emulator: Emulator) -> Floats:
        return self.space.coordinates(emulator)

    def _fitted(self) -> list[Process]:
        """A process for each column of figures."""
        points = np.array([self._at(one.emulator) for one in self.tried])
        values = np.array([_logarithms(one.seen) for one in self.tried])
        if self._logs:
            pairs = zip(values.T, self._logs, strict=True)
            fitted = [Process(points, column, logs, AGAIN_STEPS) for column, logs in pairs]
        else:
            fitted = [Process(points, column) for column in values.T]
        self._logs = [process.logs for process in fitted]
        return fitted

    def _errors(self, processes: Sequence[Process], points: Floats, normal: Floats) -> Floats:
        """Errors at points (m, d) drawn by `normal` (draws, columns): an array (draws, m)."""
        off = np.zeros((len(normal), len(points)))
        for column, (process, target) in enumerate(zip(processes, _logarithms(self.path), strict=True)):
            mean, deviation = process.at(points)
            # a figure twenty times the path's is as bad as any
            drawn = np.minimum(mean + normal[:, column, None] * deviation - target, 3.0)
            off += np.abs(np.exp(drawn) - 1)
        return off / len(processes)

    def _expected(self, processes: Sequence[Process], points: Floats) -> Floats:
        found: Floats = self._errors(processes, points, np.zeros((1, len(processes))))[0]
        return found

    def _promising(self, count: int) -> list[Emulator]:
        processes, found = self._fitted(), list[Emulator]()
        known = {one.emulator for one in self.tried}
        tried = np.array([self._at(one.emulator) for one in self.tried])
        expected = self._expected(processes, tried)
        best = float(expected.min())
        nearest = [self.tried[at].emulator for at in np.argsort(expected, kind="stable")[:BEST]]
        for _ in range(count):
            normal = self._chance.standard_normal((DRAWS, len(processes)))
            candidates = [one for one in self._candidates(nearest) if one not in known]
            at = np.array([self._at(one) for one in candidates])
            gain = np.maximum(best - self._errors(processes, at, normal), 0.0).mean(axis=0)
            chosen = int(gain.argmax())
            found.append(candidates[chosen])
            known.add(candidates[chosen])
            processes = [process.believing(at[chosen]) for process in processes]
        return found

    def _candidates(self, nearest: Sequence[Emulator]) -> list[Emulator]:
        points = [self._chance.random((ANYWHERE, COORDINATES))]
        for emulator in nearest:
            for width in AROUND:
                shape = (NEARBY // len(AROUND), COORDINATES)
                # some coordinates stay: what is right already need not be found again
                moved = self._chance.normal(0, width, shape) * (self._chance.random(shape) < 0.6)
                near = np.clip(self.space.unit(emulator) + moved, 0.0, 1.0)
                turned = self._chance.random(len(near)) < OTHER_KIND
                own = self.space.unit(emulator)[4]
                near[:, 4] = np.where(turned, 1 - own, own)
                points.append(near)
        return list(dict.fromkeys(self.space.emulator(unit) for unit in np.vstack(points)))


@dataclass
class Chance:
    """Ask and observe, by chance alone: what the search must beat with the same budget, in the same space."""

    path: Seen
    seed: int
    tried: list[Tried] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = space_of(self.path)
        self._chance = np.random.default_rng([self.seed, 2])

    def ask(self, count: int) -> list[Emulator]:
        """What to measure next."""
        return [self.space.emulator(unit) for unit in self._chance.random((count, COORDINATES))]

    def observe(self, tried: Iterable[Tried]) -> None:
        """What came of it."""
        self.tried.extend(tried)

    def best(self) -> Emulator:
        """That of the least error seen. Errors: ValueError."""
        return min(self.tried, key=lambda one: replication_error(self.path, one.seen)).emulator


def spread(space: Space, count: int, chance: np.random.Generator) -> list[Emulator]:
    """A Latin hypercube: each coordinate's range in `count` parts, one point in each."""
    columns = [(chance.permutation(count) + chance.random(count)) / count for _ in range(COORDINATES)]
    return [space.emulator(unit) for unit in np.array(columns).T]


def _logarithms(seen: Seen) -> list[float]:
    return [float(np.log(max(value, 1e-6))) for scheme in sorted(seen) for value in seen[scheme]]
