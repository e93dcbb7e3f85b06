# SPDX-License-Identifier: MIT
"""What a study is: worlds of several seeds, what is read from each, the paper's figures beside ours.

A study is a function of (label, seed, sessions, source) that gives points; labels are what it compares apart (traces).
Each point is one number of one world; over worlds they become a mean with Student's interval. Points with an x are a
curve's, the others a table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.table_policy import TablePolicy
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import Measured, over
from configtron.studies.sim.world import World, pops_of
from configtron.studies.simulated.tensor_source import TensorSource

# Seconds between updates unless a study sweeps them: 500 sessions.
EVERY_S = 50.0
# Where the generator of the bootstrap of an importance's interval begins.
RESAMPLING = 17


class Point(NamedTuple):
    """One number of one world: which row, which column, perhaps at which x; own: its interval within that world."""

    row: str
    column: str
    y: float
    x: float | None = None
    own: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A curve's column as a plot: axes in words; x on a logarithmic axis or not; least: y is cut off below it."""

    column: str
    x: str
    y: str
    log_x: bool = False
    least: float | None = None


@dataclass(frozen=True, slots=True)
class SessionsStudy:
    """A row of the checklist.

    paper      where in the paper; claim: what it says there
    part       (label, seed, sessions, source) -> points
    sessions   of a world, at most
    figures    the paper's own, by (row, column)
    differs    what keeps ours from being the paper's, in words
    tensor_alone  seeds make no difference to a tensor that was brought: it is one world
    duration   how long it takes on analytic tensors, roughly, in words
    """

    name: str
    title: str
    paper: str
    claim: str
    part: Callable[[str, int, int, TensorSource], list[Point]]
    differs: str
    labels: tuple[str, ...] = ("",)
    sessions: int = 60_000
    tensor_alone: bool = False
    figures: Mapping[tuple[str, str], str] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()
    duration: str = "minutes"
    # What it needs: the learner's simulator (`registry/kinds.py`).
    needs: ClassVar[str] = "sessions"

    @property
    def about(self) -> str:
        """What it reproduces, one line."""
        return self.title

    def points(self, label: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
        """Return one world's points that have a finite number: no other can be averaged, or stored as JSON."""
        found = self.part(label, seed, sessions, source)
        return [one for one in found if np.isfinite(one.y) and (one.x is None or np.isfinite(one.x))]


class Summary(NamedTuple):
    """A number over worlds, as it stands in the table or the curve; worlds: those that have the number at all;
    paper: its figure, "" for none."""

    row: str
    column: str
    x: float | None
    measured: Measured
    worlds: int
    paper: str


class StudyNumbers(NamedTuple):
    """A study's numbers over the worlds of one tensor; analytic: that tensor is a formula's."""

    study: SessionsStudy
    tensor: str
    analytic: bool
    found: list[Summary]


def summed(study: SessionsStudy, worlds: Iterable[Iterable[Point]]) -> list[Summary]:
    """Every number over the worlds that have it, in the order first met; the paper's rows that no world has, at the
    end, are left out. A number of one world alone has its own interval, if any."""
    values: dict[tuple[str, str, float | None], list[Point]] = {}
    for points in worlds:
        for point in points:
            values.setdefault((point.row, point.column, point.x), []).append(point)
    known = {key: [point for point in points if not np.isnan(point.y)] for key, points in values.items()}
    return [
        Summary(row, column, x, _measured(found), len(found), study.figures.get((row, column), "") if x is None else "")
        for (row, column, x), found in known.items()
    ]


def _measured(known: list[Point]) -> Measured:
    if not known:
        return Measured(float("nan"), float("nan"), float("nan"))
    if len(known) > 1:
        return over([point.y for point in known])
    return Measured(known[0].y, *(known[0].own or (float("nan"), float("nan"))))


def lived(world: World, managers: list[TablePolicy], interval_s: float = EVERY_S) -> Replay:
    """A whole replay of a world under these managers."""
    pop = pops_of(world.sessions, len(managers))
    replay = Replay(world.sessions, world.tensor, managers, world.noise(), pop=pop, interval_s=interval_s)
    replay.run()
    return replay


def last_half(replay: Replay) -> slice:
    """Sessions after learning: the second half."""
    return slice(replay.at_ // 2, replay.at_)


def quantiles(values: Floats) -> tuple[float, float]:
    """(median, 95th percentile)."""
    median, p95 = np.percentile(values, (50, 95))
    return float(median), float(p95)


def tail_ms(replay: Replay) -> float:
    """Return the 95th percentile of page load times, ms, in the last half."""
    return float(np.percentile(replay.median_ms_[last_half(replay)], 95))
