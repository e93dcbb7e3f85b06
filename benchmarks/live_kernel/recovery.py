# SPDX-License-Identifier: MIT
"""How long planted faults made tuned clients slower; what a competing flow got beside the pages of each profile.

Question   How much faster do tuned clients' pages load in each epoch, how long does the recovery from a planted fault
           take, and what does the gain cost a competing flow on the same link?
Method     Arms are compared within a network, a page and a version of HTTP, so that the mixture of loads, which differs
           by chance, cancels: the mean of the strata's differences of ln page load time, each weighted as in a
           regression with fixed effects; intervals by a bootstrap over clients. The neighbour's bytes are those of the
           receiver from a load's start to `AFTER_S` after its end, or to the next load, beside its rate when no page
           loads.
Fails as   fewer than `LEAST` loads: no line.
Source     Angrist and Pischke 2009, 3.3.1 (weights of a saturated regression); configtron/lab/testbed/neighbours.py
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.live.scenario import initial_window
from benchmarks.live_kernel.bulk_flow import BIN_S
from benchmarks.live_kernel.draw_checks import RecordedRun, ServedLoad
from benchmarks.live_kernel.scenario import CHANGED, SLOW_PACING, pages
from configtron.learner.columns import Codes, Floats
from configtron.learner.live_rows import WORST_MS

# Event of a scenario -> its name in tables.
FAULTS = {"change": "network changes", "squeeze": "queues become short", "harmful": "pacing becomes slow",
          "lost": "server killed", "back": "server restarted", "restart": "manager restarted"}  # fmt: skip
# Resamples of clients; first number of their seeds.
RESAMPLES, DRAWING = 500, 83
# Loads of a line.
LEAST = 10
# s after a load in which a neighbour still regains what it lost; s around loads that do not count as alone.
AFTER_S, APART_S = 1.5, 1.5


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


def by_phase(run: RecordedRun, loads: Sequence[ServedLoad], first: int) -> list[str]:
    """Return the gain of each phase of a run (from one planted fault to the next), and of each continent."""
    ends = sorted(
        {first, *(at for at, name in run.raw["events"] if name in HARMFUL_FAULTS and at > first), run.scenario.epochs}
    )
    lines = ["the same by phase, and by continent over all phases"]
    for begin, end in zip(ends, ends[1:], strict=False):
        lines.append(_line(f"epochs {begin} to {end - 1}", [one for one in loads if begin <= one.epoch < end]))
    drawn = [one for one in loads if first <= one.epoch < run.scenario.epochs]
    lines.append(_line("all", drawn))
    lines += [_line(f"  {name}", [one for one in drawn if one.continent == name]) for name in run.scenario.continents]
    return lines


def _line(name: str, loads: Sequence[ServedLoad]) -> str:
    if len(loads) < LEAST:
        return f"  {name:18s} too few loads"
    gain, low, high = within(loads)
    return f"  {name:18s} {gain:+7.1%} [{low:+7.1%}, {high:+7.1%}]  {len(loads)} loads"


# Planted faults that may make tuned clients' loads slower than held-back clients': of networks and of servers.
HARMFUL_FAULTS = ("change", "squeeze", "harmful")


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
        lines.append(f"{_short_queues(run, loads, at['squeeze'])}; {slower['squeeze']}")
    if "harmful" in at:
        lines.append(f"{_harmful(run, loads, at['harmful'])}; {slower['harmful']}")
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


def _harmful(run: RecordedRun, loads: Sequence[ServedLoad], epoch: int) -> str:
    """Return the share of loads with a paced profile, from the epoch before on."""
    shares = []
    for one in range(max(epoch - 1, 0), run.scenario.epochs):
        tuned = [load for load in loads if load.epoch == one and not load.held and load.class_name]
        paced = sum("pacing=fq" in settings_of(run, load.profile) for load in tuned)
        shares.append(f"{paced / max(len(tuned), 1):.0%}")
    return (f"  epoch {epoch}: from now on paced senders send {SLOW_PACING} % of a window in a round trip; share of"
            f" paced among tuned clients' loads from epoch {max(epoch - 1, 0)} on: {', '.join(shares)}")  # fmt: skip


def _short_queues(run: RecordedRun, loads: Sequence[ServedLoad], epoch: int) -> str:
    """Return the share of loads with windows of 30 segments and more, around the epoch."""
    shares = []
    for one in range(max(epoch - 2, 0), run.scenario.epochs):
        tuned = [load for load in loads if load.epoch == one and not load.held and load.class_name]
        wide = sum(window_of(run, load.profile) >= 30 for load in tuned)
        shares.append(f"{wide / max(len(tuned), 1):.0%}")
    return (f"  epoch {epoch}: every queue holds eight frames from now on, so that bursts lose packets, Default's too;"
            f" windows of 30 and more, share of tuned clients' loads from epoch {max(epoch - 2, 0)} on:"
            f" {', '.join(shares)}")  # fmt: skip


def window_of(run: RecordedRun, profile: str) -> int:
    """Return the initial window of a profile by any map that has it; the kernel's own for Default."""
    for one in run.maps.values():
        if profile in one.profiles:
            return initial_window(one.profiles[profile])
    return 10


def _lost(run: RecordedRun, loads: Sequence[ServedLoad], epoch: int, back: int) -> str:
    here = [one for one in loads if epoch <= one.epoch < back]
    failed = [one for one in here if one.visited.plt_ms is None]
    moved = sum(one.visited.server != one.visited.client % run.scenario.hosts for one in here)
    return (f"  epoch {epoch}: a server and its agent are killed, back in epoch {back}: {len(failed)} loads failed;"
            f" {moved} of {len(here)} were served by the next server under the same map; back, it has a map"
            f" {_map_after(run, 'back', server='web1')}")  # fmt: skip


def likeliest_profiles(run: RecordedRun) -> list[str]:
    """Return the most probable profile of each network's class by the last map."""
    last = run.maps[run.applied["web0"][-1][1]]
    lines = ["most probable profile by the last map: class, settings that differ from Default, share"]
    for network in run.scenario.access_networks():
        name = last.prefixes.get(network.prefix, "")
        mix = last.mixes.get(name, ())
        likely, parts = max(mix, key=lambda arm: arm[1]) if mix else ("", 0)
        settings = " ".join(f"{key}={value}" for key, value in last.profiles[likely].settings) if likely else ""
        words = f"{name} {settings or 'Default'} {parts / 65_536:.0%}" if mix else "not listed: by its band"
        lines.append(f"  {network.continent:14s} {network.condition:38s} {words}")
    return lines


def neighbours(run: RecordedRun, loads: Sequence[ServedLoad]) -> list[str]:
    """Return what the bulk flow got while pages loaded, by profile."""
    lines: list[str] = []
    sizes = {name: page.size for name, page in pages().items()}
    for number, bins in run.raw["flows"].items():
        mine = sorted((one for one in loads if one.visited.network == int(number) and one.visited.plt_ms is not None),
                      key=lambda one: one.visited.end_s)  # fmt: skip
        network = run.scenario.access_networks()[int(number)]
        starts = [one.visited.end_s - (one.visited.plt_ms or 0.0) / 1e3 for one in mine]
        count = np.zeros(int(bins[-1][0]) + 1)
        for at, got in bins:
            count[at] = got
        alone = _alone(count, starts, [one.visited.end_s for one in mine])
        squeezed = next((epoch for epoch, name in run.raw["events"] if name == "squeeze"), run.scenario.epochs)
        found: dict[tuple[bool, str], list[tuple[float, float]]] = defaultdict(list)
        for place, one in enumerate(mine):
            begin, end = starts[place], one.visited.end_s + AFTER_S
            end = min([end, *starts[place + 1 : place + 2]])
            got = count[int(begin / BIN_S) : int(end / BIN_S)].sum()
            span_s = max(int(end / BIN_S) - int(begin / BIN_S), 1) * BIN_S
            lost = (alone * span_s - got) / sizes[one.visited.page]
            name = "Default, held back" if one.held else settings_of(run, one.profile)
            found[one.epoch >= squeezed, name].append((got * 8e-6 / span_s, lost))
        where = f"{network.prefix} ({network.condition})"
        lines.append(f"a cubic flow of another host on the link of {where}: {alone * 8e-6:.2f} Mbit/s alone; its rate"
                     " while pages load, and the bytes that it lost for each byte of a page")  # fmt: skip
        rest = sorted((late, -len(rows), name) for (late, name), rows in found.items())
        lines += [_beside(late, name, np.array(found[late, name])) for late, n, name in rest if -n >= LEAST]
    return lines


def settings_of(run: RecordedRun, profile: str) -> str:
    """Return a profile's settings off Default, in words, by any map that has it."""
    known = (one.profiles[profile] for one in run.maps.values() if profile in one.profiles)
    settings = next((one.settings for one in known), ())
    short = " ".join(f"{key.removeprefix('tcp_congestion_')}={value}" for key, value in settings)
    return short or "Default"


def _alone(count: Floats, starts: Sequence[float], ends: Sequence[float]) -> float:
    """Return the flow's bytes/s where no page of its link loads."""
    free = np.ones(len(count), dtype=np.bool_)
    free[: int(20 / BIN_S)] = False
    for begin, end in zip(starts, ends, strict=True):
        free[int(max(begin - BIN_S, 0.0) / BIN_S) : int((end + APART_S) / BIN_S) + 1] = False
    return float(count[free].mean() / BIN_S) if free.any() else float("nan")


def _beside(late: bool, name: str, rows: Floats) -> str:
    name = f"{name}, short queues" if late else name
    half = 1.96 * rows.std(axis=0, ddof=1) / len(rows) ** 0.5
    return (f"  {name:48s} {len(rows):4d} loads  {rows[:, 0].mean():5.2f} Mbit/s +- {half[0]:.2f}"
            f"   {rows[:, 1].mean():+5.2f} bytes +- {half[1]:.2f}")  # fmt: skip
