# SPDX-License-Identifier: MIT
"""Tables of a run: gain by continent, epoch and phase, how long planted faults were felt, differences from the draw.

Question   How much faster do tuned clients' pages load in each epoch, and how long does the recovery from a planted
           fault take?
Method     Arms are compared within a network, a page and a version of HTTP, so that the mixture of loads, which differs
           by chance, cancels: the mean of the strata's differences of ln page load time, each weighted as in a
           regression with fixed effects; intervals by a bootstrap over clients.
Fails as   fewer than `LEAST` loads: no line.
Source     Angrist and Pischke 2009, 3.3.1 (weights of a saturated regression)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.live.judge import compared
from benchmarks.live_kernel.draw_checks import Checks, RecordedRun, ServedLoad, load_columns, served_loads
from benchmarks.live_kernel.scenario import CHANGED
from configtron.learner.columns import Codes, Floats
from configtron.learner.live_rows import WORST_MS

# Event of a scenario -> its name in tables.
FAULTS = {"change": "network changes", "squeeze": "queues become short", "lost": "server killed",
          "back": "server restarted", "restart": "manager restarted"}  # fmt: skip
# Resamples of clients; first number of their seeds.
RESAMPLES, DRAWING = 500, 83
# Loads of a line.
LEAST = 10


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
        *found.examples,
    ]  # fmt: skip
    bad = bool(found.wrong) or bool(found.clients_mixed + found.banded_mixed) or not found.drawn
    return Differences(lines, bad)


def within(loads: Sequence[ServedLoad], seed: int = 1) -> tuple[float, float, float]:
    """Return the gain of tuned over held-back clients, as a share, and its 95 % interval; NaN without both in any
    stratum."""
    stratum = codes([(one.visited.network, one.visited.page, one.visited.http) for one in loads])
    client = codes([one.client for one in loads])
    held = np.array([one.held for one in loads], dtype=np.bool_)
    ln = np.log([WORST_MS if one.visited.plt_ms is None else one.visited.plt_ms for one in loads])
    rng, clients = np.random.default_rng((DRAWING, seed)), int(client.max(initial=-1)) + 1
    found = [difference(stratum, held, ln, np.ones(len(ln)))]
    for _ in range(RESAMPLES):
        times = np.bincount(rng.integers(clients, size=clients), minlength=clients) if clients else np.zeros(0)
        found.append(difference(stratum, held, ln, times[client].astype(np.float64)))
    gain = 1.0 - np.exp(np.array(found))
    low, high = np.nanquantile(gain[1:], (0.025, 0.975)) if not np.isnan(gain).all() else (np.nan, np.nan)
    return float(gain[0]), float(low), float(high)


def codes(values: Sequence[object]) -> Codes:
    """Return the number of each value, in order of first appearance."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(one, len(known)) for one in values], dtype=np.int64)


def difference(stratum: Codes, held: npt.NDArray[np.bool_], ln: Floats, weight: Floats) -> float:
    """Return the mean difference of ln page load time, tuned less held, over strata."""
    size = int(stratum.max(initial=-1)) + 1
    sums = []
    for arm in (~held, held):
        count = np.bincount(stratum, weights=weight * arm, minlength=size)
        sums.append((count, np.bincount(stratum, weights=weight * arm * ln, minlength=size)))
    (n, tuned), (m, kept) = sums
    both = (n > 0) & (m > 0)
    if not both.any():
        return float("nan")
    share = n[both] * m[both] / (n[both] + m[both])
    return float(np.average(tuned[both] / n[both] - kept[both] / m[both], weights=share))


def by_epoch(run: RecordedRun, loads: Sequence[ServedLoad]) -> list[str]:
    """Return the gain of each epoch."""
    lines = ["gain of tuned clients within network, page and version of HTTP, by epoch; 95 % interval by client"]
    for epoch in range(run.scenario.epochs):
        if len(some := [one for one in loads if one.epoch == epoch]) >= LEAST:
            gain, low, high = within(some)
            events = ", ".join(FAULTS.get(name, name) for at, name in run.raw["events"] if at == epoch)
            lines.append(f"  {epoch:3d}  {gain:+7.1%} [{low:+7.1%}, {high:+7.1%}]  {events}".rstrip())
    return lines


# Planted faults that may make tuned clients' loads slower than held-back clients': of networks and of servers.
HARMFUL_FAULTS = ("change", "squeeze")


class RecoveryTime(NamedTuple):
    """How long a planted fault made tuned clients' loads slower than held-back clients', by an epoch's interval.

    span_s   0: they never were; None: they still were when the next of `HARMFUL_FAULTS` came, or the run ended
    """

    name: str
    epoch: int
    span_s: int | None

    @property
    def words(self) -> str:
        """In a sentence."""
        if self.span_s == 0:
            return "tuned clients are slower than held-back ones in no epoch after it"
        if self.span_s is None:
            return "tuned clients are slower than held-back ones until the end of this stretch"
        return f"tuned clients are slower than held-back ones until {self.span_s} s after it"


def recovery_times(run: RecordedRun, loads: Sequence[ServedLoad]) -> list[RecoveryTime]:
    """Return how long each of `HARMFUL_FAULTS` made tuned clients slower."""
    events = sorted((epoch, name) for epoch, name in run.raw["events"] if name in HARMFUL_FAULTS)
    ends = [*(epoch for epoch, _ in events), run.scenario.epochs][1:]
    found = []
    for (epoch, name), end in zip(events, ends, strict=True):
        of = {at: [one for one in loads if one.epoch == at] for at in range(epoch, end)}
        slower = [at for at, some in of.items() if len(some) >= LEAST and within(some)[2] < 0.0]
        over = slower[-1] + 1 if slower else epoch
        found.append(
            RecoveryTime(name, epoch, None if over >= end and slower else (over - epoch) * run.scenario.epoch_s)
        )
    return found


def fault_lines(run: RecordedRun, loads: Sequence[ServedLoad]) -> list[str]:
    """Return a line or two for each planted fault."""
    at = {name: epoch for epoch, name in run.raw["events"]}
    slower = {one.name: one.words for one in recovery_times(run, loads)}
    lines = ["planted faults, and how long they made tuned clients slower"]
    if "change" in at:
        lines.append(f"{_changed(run, at['change'])}; {slower['change']}")
    if "squeeze" in at:
        lines.append(f"  epoch {at['squeeze']}: every queue holds eight frames from now on, so that bursts lose"
                     f" packets, Default's too; {slower['squeeze']}")  # fmt: skip
    if "lost" in at:
        lines.append(_lost(run, loads, at["lost"], at.get("back", run.scenario.epochs)))
    for term, before, after in run.raw["restarts"]:
        lines.append(f"  epoch {at['restart']}: the manager is killed in mid-epoch: started anew, in term {term},"
                     f" it knows the {before} outcomes it had learned, and {after - before} that were stored by then;"
                     f" every server has its map {_map_after(run, 'restart', term)}")  # fmt: skip
    return lines


def _map_after(run: RecordedRun, name: str, term: int = 0, server: str = "") -> str:
    """Return when every server, or one, had taken a map after an event, of a term where one is given."""
    since_s = run.raw["event_s"].get(name, 0.0)
    came = [min((when_s for when_s, place in row if when_s > since_s and term in (0, place[0])), default=None)
            for agent, row in sorted(run.applied.items()) if server in ("", agent)]  # fmt: skip
    late = [when_s - since_s for when_s in came if when_s is not None]
    return f"{max(late):.1f} s later" if late and len(late) == len(came) else "at no time in this run"


def _changed(run: RecordedRun, epoch: int) -> str:
    """Return how soon the first server drew for the prefixes of the changed continent from another class."""
    prefixes = [one.prefix for one in run.scenario.access_networks() if one.continent == CHANGED]
    classes = [_prefixes_in(run, at) for at in range(run.scenario.epochs)]
    before, spans = classes[epoch], []
    for prefix in prefixes:
        moved = (at for at in range(epoch + 1, run.scenario.epochs)
                 if classes[at].get(prefix) not in (None, before.get(prefix)))  # fmt: skip
        if prefix in before and (at := next(moved, None)) is not None:
            spans.append((at - epoch) * run.scenario.epoch_s)
    listed = sum(prefix in before for prefix in prefixes)
    words = f"{median(spans):.0f} s after it at the median, {max(spans):.0f} s at most" if spans else "never"
    return (f"  epoch {epoch}: the {len(prefixes)} networks of {CHANGED} change, {listed} of them listed:"
            f" {len(spans)} came to another class, {words}")  # fmt: skip


def _prefixes_in(run: RecordedRun, epoch: int) -> Mapping[str, str]:
    """Return prefix -> class of the plan that the first server began an epoch with."""
    number = run.raw["first"] + epoch
    places = run.in_force.get(("web0", number), [])
    return run.maps[places[0]].prefixes if places else {}


def _lost(run: RecordedRun, loads: Sequence[ServedLoad], epoch: int, back: int) -> str:
    here = [one for one in loads if epoch <= one.epoch < back]
    failed = [one for one in here if one.visited.plt_ms is None]
    moved = sum(one.visited.server != one.visited.client % run.scenario.hosts for one in here)
    return (f"  epoch {epoch}: a server and its agent are killed, back in epoch {back}: {len(failed)} loads failed;"
            f" {moved} of {len(here)} were served by the next server under the same map; back, it has a map"
            f" {_map_after(run, 'back', server='web1')}")  # fmt: skip
