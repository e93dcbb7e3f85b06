# SPDX-License-Identifier: MIT
"""Tables of a run: gain by continent, shares of profiles over time, and every difference from the draw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.live.judge import compared
from benchmarks.live_kernel.draw_checks import Checks, RecordedRun, ServedLoad, load_columns, served_loads
from benchmarks.live_kernel.recovery import FAULTS, recovery_times
from configtron.learner.live_rows import WORST_MS


class Differences(NamedTuple):
    """Lines of the differences from the draw; bad: whether there are any."""

    lines: list[str]
    bad: bool


def first_drawn(run: RecordedRun) -> int:
    """Return the first epoch whose plan has mixes, from 0; the number of epochs where none has."""
    drawn = [epoch for (_, _, epoch), plan in run.plans.items() if plan.mixes]
    return max(min(drawn) - run.raw["first"], 0) if drawn else run.scenario.epochs


def claims(run: RecordedRun, loads: Sequence[ServedLoad], found: Checks) -> str:
    """Return whether the claims hold, by 95 % intervals: p95 of all loads is better, no continent's median is worse, no
    client has two arms within an epoch."""
    scenario, first = run.scenario, first_drawn(run)
    every = [one for one in loads if first <= one.epoch < scenario.epochs]
    whole = load_columns(every, scenario.continents, WORST_MS)
    both = 0 < whole.held.sum() < len(whole)
    missed = [] if both and compared(whole, 0.95).low > 0.0 else ["p95 of all is not better beyond its interval"]
    for at, name in enumerate(scenario.continents):
        here = whole[np.flatnonzero(whole.continent == at)]
        if 0 < here.held.sum() < len(here) and compared(here, 0.5).high < 0.0:
            missed.append(f"the median of {name} is worse")
    still = [one for one in recovery_times(run, loads) if one.span_s is None]
    missed += [f"tuned clients are still slower after '{FAULTS[one.name]}' of epoch {one.epoch}" for one in still]
    if mixed := found.clients_mixed + found.banded_mixed:
        missed.append(f"{mixed} of {found.units} clients had two arms within an epoch")
    return "claims: " + ("MISSED: " + "; ".join(missed) if missed else "hold")


def gains(run: RecordedRun) -> list[str]:
    """Return p50 and p95 of both arms, of all loads, by continent and by version of HTTP; 95 % intervals by client."""
    scenario, first = run.scenario, first_drawn(run)
    every = [one for one in served_loads(run) if first <= one.epoch < scenario.epochs]
    failed = sum(one.visited.plt_ms is None for one in every)
    lines = [f"{scenario.driver}, seed {scenario.seed}: {scenario.epochs} epochs of {scenario.epoch_s} s,"
             f" {scenario.hosts} servers, {len(scenario.access_networks())} networks with {scenario.clients} clients,"
             f" {scenario.holdback:.0%} held back, initial windows up to {scenario.windows};"
             f" {len(run.loads)} page loads, {len(run.rows)} rows, {run.raw['learned']} learned",
             f"epochs {first} to {scenario.epochs - 1}: {len(every)} loads, {failed} failed, which count as"
             f" {WORST_MS / 1000:.0f} s; 95 % intervals of a bootstrap by client",
             f"{'':20s}  loads  held ms   tuned  p50 gain, %              held ms   tuned  p95 gain, %"]  # fmt: skip
    if not every:
        return lines
    whole = load_columns(every, scenario.continents, WORST_MS)
    rows = {"all": np.arange(len(every))}
    rows |= {f"  {name}": np.flatnonzero(whole.continent == at) for at, name in enumerate(scenario.continents)}
    versions = np.array([one.visited.http for one in every])
    rows |= {f"  {name}": np.flatnonzero(versions == name) for name in sorted(set(versions))}
    for name, some in rows.items():
        here = whole[some]
        if len(here) and 0 < here.held.sum() < len(here):
            lines.append(f"{name:20s} {len(here):6d}  {compared(here, 0.5).words}   {compared(here, 0.95).words}")
    return lines


def profile_shares(run: RecordedRun, arms: int = 5) -> list[str]:
    """Return the shares of profiles among tuned clients' loads, by epoch."""
    by_epoch: dict[int, list[ServedLoad]] = defaultdict(list)
    for one in served_loads(run):
        by_epoch[one.epoch].append(one)
    lines = ["shares of arms among tuned clients' loads, by epoch"]
    for epoch in range(run.scenario.epochs):
        tuned = Counter(one.profile or "Default" for one in by_epoch[epoch] if not one.held)
        shares = ", ".join(f"{name} {count / tuned.total():.0%}" for name, count in tuned.most_common(arms))
        lines.append(f"  {epoch:3d}  {len(by_epoch[epoch]):4d} loads  {shares}")
    return lines


def difference_lines(run: RecordedRun, found: Checks) -> Differences:
    """Return the result of the comparison with the draw in user space."""
    lines = [
        f"{found.connections} connections to the pages' port, {found.drawn} of them drawn, {found.units} clients in an"
        f" epoch: {found.wrong['connection']} differ from the draw in user space; {found.unmatched} without a page"
        f" load, {run.raw['lost_records']} records lost",
        f"{found.rows} rows: {found.wrong['row']} differ from the draw, {found.wrong['propensity']} of their"
        f" propensities do, {found.wrong['twice']} are stored twice",
        f"clients with two arms within an epoch: {found.clients_mixed} of listed prefixes, {found.banded_mixed} of"
        f" others, whose round trip is close to the limit of two bands; page loads with two arms: {found.loads_mixed}",
        *([f"in an epoch in which a version was rolled back at once, {found.recalled} clients had two arms"]
          if found.recalled else []),
        *found.examples,
    ]  # fmt: skip
    bad = bool(found.wrong) or bool(found.clients_mixed + found.banded_mixed) or not found.drawn
    return Differences(lines, bad)
