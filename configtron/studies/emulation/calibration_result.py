# SPDX-License-Identifier: MIT
"""What a calibration found, as tables, plots and facts. Pure: its figures are arguments.

Question   Is the mean replication error at most 17 % on paths whose parameters the search does not know?
Method     The error is over runs of the path that the search did not see, against runs of the emulator that it did
           not see. Beside it stands the path's own error from the runs shown to those not shown: what no emulator can
           be asked to be below. Means over paths stand for hidden paths and for foreign ones apart, with 95 % intervals
           by Student's t over paths.
Reads as   `Evaluated`.
Fails as   without a path, facts are not-measured.
Source     Pantheon 5.2: within 17 % on average over six paths, 14.4 % on one
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from configtron.studies.emulation.emulators import Emulator
from configtron.studies.emulation.paths import FOREIGN, HIDDEN, EmulatedPath
from configtron.studies.emulation.replication import Seen, replication_error
from configtron.studies.emulation.search import Tried
from configtron.studies.flows import spread
from configtron.studies.output.results import (
    ABSENT,
    HOLDS,
    PARTLY,
    UNKNOWN,
    Cell,
    Cloud,
    Curve,
    Curves,
    Evaluated,
    Fact,
    Scatter,
    Table,
)

# Pantheon's own: mean over its six paths, and its one path in full.
MEAN_GOAL, ONE_PATH = 0.17, 0.144
ROLES = ("search", "chance", "suggested")


class CalibrationPlan(NamedTuple):
    """runs of a path that a search sees, as many unseen; seconds of a flow; emulators by path and boot."""

    schemes: tuple[str, ...]
    runs: int
    seconds: float
    budget: int
    batch: int
    hidden: int


class Calibrated(NamedTuple):
    """One path.

    shown, held  the mean of its runs that the search saw, and of the others
    taken        emulators by the search, by chance, and the best suggested by the measurements; found: their fresh runs
    tried        by the search and by chance, in order
    """

    path: EmulatedPath
    shown: Seen
    held: Seen
    taken: tuple[Emulator, Emulator, Emulator]
    found: tuple[Seen, ...]
    tried: tuple[Sequence[Tried], Sequence[Tried]]

    def error(self, role: str = "search") -> float:
        """Return the error of what was taken, over runs that no search saw."""
        return replication_error(self.held, self.found[ROLES.index(role)])

    @property
    def floor(self) -> float:
        """The path against itself."""
        return replication_error(self.held, self.shown)


def progress(shown: Seen, tried: Sequence[Tried]) -> list[float]:
    """The least error seen, after each look."""
    errors = [replication_error(shown, one.seen) for one in tried]
    return [min(errors[: number + 1]) for number in range(len(errors))]


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval; NaN where there are too few. A mean of errors is not below 0."""
    middle, half = spread.mean(values), spread.margin(values)
    if middle is None:
        return math.nan, math.nan, math.nan
    return (middle, math.nan, math.nan) if half is None else (middle, max(0.0, middle - half), middle + half)


def evaluated(found: Sequence[Calibrated], plan: CalibrationPlan, seed: int, missing: str = "") -> Evaluated:
    """The study's answer."""
    schemes = ", ".join(plan.schemes)
    method = (
        f"{plan.budget} emulators a path, {plan.batch} a round, each with one flow of {plan.seconds:g} s of {schemes}; "
        f"a path's figures are the mean of {plan.runs} runs. The error is over {plan.runs} other runs of the path and "
        f"{plan.runs} other runs of the emulator."
    )
    return Evaluated(
        "calibration",
        "Emulators calibrated on paths known by their flows only",
        "Pantheon (USENIX ATC 2018), 5.2",
        method,
        (_errors(found), _parameters(found), _figures(found)),
        _plots(found),
        _facts(found),
        "Pantheon modelled the error itself, over more schemes and longer flows, on six paths of the internet; here "
        "each scheme's figures are modelled, and the paths are this bed's: drawn emulators, and links that are none.",
        (("seed", str(seed)), ("schemes", schemes), ("seconds", f"{plan.seconds:g}"), ("paths", str(len(found)))),
        missing,
    )


def _errors(found: Sequence[Calibrated]) -> Table:
    rows: list[list[Cell]] = [
        [one.path.name, one.path.kind, *(_percent(one.error(role)) for role in ROLES), _percent(one.floor),
         one.taken[0].name, one.path.words]
        for one in found
    ]  # fmt: skip
    for kind in (HIDDEN, FOREIGN):
        some = [one for one in found if one.path.kind == kind]
        if some:
            means = [_percent(mean_interval([one.error(role) for one in some])[0]) for role in ROLES]
            floor = _percent(mean_interval([one.floor for one in some])[0])
            rows.append([f"mean of {len(some)}", kind, *means, floor, None, None])
    return Table(
        "errors",
        "Replication error by path, in %",
        ("path", "kind", "search", "random search", "suggested", "path itself", "emulator", "what it is"),
        rows,
        "The emulator's name is a condition: `configtron learn measure --condition` takes it. Suggested: the best of "
        "what the measurements themselves suggest. Path itself: its other runs held against those told.",
    )


def _percent(part: float) -> float | None:
    return None if math.isnan(part) else round(100 * part, 1)


# Column, and how it is read from an emulator.
_NUMBERS: tuple[tuple[str, Callable[[Emulator], float]], ...] = (
    ("Mbit/s", lambda one: one.rate_mbit), ("ms", lambda one: one.delay_ms), ("packets", lambda one: one.queue),
    ("% lost", lambda one: round(100 * one.loss, 3)),
)  # fmt: skip


def _parameters(found: Sequence[Calibrated]) -> Table:
    rows: list[list[Cell]] = []
    for one in found:
        if one.path.truth:
            for who, emulator in (("drawn", one.path.truth), ("found", one.taken[0])):
                rows.append([one.path.name, who, *(read(emulator) for _, read in _NUMBERS), emulator.kind])
    return Table(
        "parameters",
        "What was drawn and what was found",
        ("path", "", *(name for name, _ in _NUMBERS), "kind"),
        rows,
        "Two emulators with different numbers may be the same to all schemes: a queue that never fills has no length.",
    )


def _figures(found: Sequence[Calibrated]) -> Table:
    rows: list[list[Cell]] = [
        [one.path.name, scheme, round(one.held[scheme].mbit, 3), round(one.found[0][scheme].mbit, 3),
         round(one.held[scheme].delay_ms, 1), round(one.found[0][scheme].delay_ms, 1)]
        for one in found for scheme in sorted(one.held)
    ]  # fmt: skip
    return Table(
        "figures",
        "Each scheme over path and emulator",
        ("path", "scheme", "Mbit/s path", "Mbit/s emulator", "p95 ms path", "p95 ms emulator"),
        rows,
    )


def _plots(found: Sequence[Calibrated]) -> list[Curves | Scatter]:
    if not found:
        return []
    lines = [_line(name, [progress(one.shown, one.tried[at]) for one in found]) for at, name in enumerate(ROLES[:2])]
    plots: list[Curves | Scatter] = [
        Curves("Least error seen so far, mean over paths", "emulators tried", "replication error in %", lines,
               words="Over the runs told, one noisy look each. The band is the 95 % interval of the mean over paths.")
    ]  # fmt: skip
    for title, unit, at in (("Throughput", "Mbit/s", 0), ("95th-percentile one-way delay", "ms", 1)):
        clouds = list(_clouds(found, at))
        plots.append(Scatter(f"{title}: path and emulator", f"path, {unit}", f"emulator, {unit}", clouds))
    return plots


def _line(name: str, courses: Sequence[Sequence[float]]) -> Curve:
    points = []
    for at in range(min(map(len, courses))):
        mean, low, high = (100 * value for value in mean_interval([course[at] for course in courses]))
        points.append((float(at + 1), mean, low, high))
    return Curve({"search": "Bayesian optimisation", "chance": "random search"}[name], points)


def _clouds(found: Sequence[Calibrated], at: int) -> Iterator[Cloud]:
    """A scheme each, and the line on which both are equal."""
    for scheme in sorted(found[0].held):
        yield Cloud(scheme, [(one.held[scheme][at], one.found[0][scheme][at]) for one in found])
    most = max(one.held[scheme][at] for one in found for scheme in one.held)
    yield Cloud("equal", [], [(0.0, 0.0), (most, most)])


def _facts(found: Sequence[Calibrated]) -> list[Fact]:
    by_kind = {kind: [one for one in found if one.path.kind == kind] for kind in (HIDDEN, FOREIGN)}
    return [_mean_fact(by_kind), _one_fact(found), _chance_fact(found)]


def _mean_fact(by_kind: dict[str, list[Calibrated]]) -> Fact:
    claim, paper = "the calibrated emulators' mean replication error", "within 17 % over six paths"
    means = {kind: mean_interval([one.error() for one in some]) for kind, some in by_kind.items() if some}
    if not means:
        return Fact(claim, paper, "", UNKNOWN)
    ours = "; ".join(
        f"{_interval_text(mean)} over {len(by_kind[kind])} {kind} (path itself: "
        f"{100 * mean_interval([one.floor for one in by_kind[kind]])[0]:.1f} %)"
        for kind, mean in means.items()
    )
    within = [kind for kind, mean in means.items() if mean[0] <= MEAN_GOAL]
    verdict = HOLDS if len(within) == len(means) else PARTLY if within else ABSENT
    return Fact(claim, paper, ours, verdict, f"at most 17 %: {', '.join(within) or 'neither'}")


def _interval_text(mean: tuple[float, float, float]) -> str:
    interval = "" if math.isnan(mean[1]) else f" ({100 * mean[1]:.1f} to {100 * mean[2]:.1f})"
    return f"{100 * mean[0]:.1f} %{interval}"


def _one_fact(found: Sequence[Calibrated]) -> Fact:
    claim, paper = "one path's replication error", "14.4 % on one path"
    if not found:
        return Fact(claim, paper, "", UNKNOWN)
    ordered = sorted(found, key=Calibrated.error)
    count = sum(one.error() <= ONE_PATH for one in found)
    ours = f"{count} of {len(found)} paths at most 14.4 %"
    words = f"best {ordered[0].path.name} {100 * ordered[0].error():.1f} %, worst {ordered[-1].path.name} "
    verdict = HOLDS if count == len(found) else PARTLY if count else ABSENT
    return Fact(claim, paper, ours, verdict, words + f"{100 * ordered[-1].error():.1f} %")


def _chance_fact(found: Sequence[Calibrated]) -> Fact:
    claim, paper = "Bayesian optimisation beats random search with the same budget", "not told"
    if not found:
        return Fact(claim, paper, "", UNKNOWN)
    wins = sum(one.error() < one.error("chance") for one in found)
    means = [mean_interval([one.error(role) for one in found]) for role in ROLES]
    ours = f"on {wins} of {len(found)} paths; mean {_interval_text(means[0])} against {_interval_text(means[1])}"
    verdict = HOLDS if wins == len(found) else PARTLY if 2 * wins > len(found) else ABSENT
    return Fact(claim, paper, ours, verdict, f"the best of what the measurements suggest: {_interval_text(means[2])}")
