# SPDX-License-Identifier: MIT
"""Rank schemes over paths: tables, plots and facts as Pantheon has them. Pure.

Rules for this file: an entry is a scheme on a path with so many flows of it; a figure of an entry is the mean of its
runs. With several flows of one scheme, throughput is their sum, delay and loss their mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from configtron.lab.testbed.families import named
from configtron.studies.flows.flows import FlowOutcome, TrialOutcome
from configtron.studies.flows.spread import agreement, ellipse, jain, margin, mean, ranks
from configtron.studies.flows.stated_pairs import agreement_fact
from configtron.studies.output.results import (
    ABSENT,
    HOLDS,
    PARTLY,
    UNKNOWN,
    Cell,
    Cloud,
    Fact,
    Heat,
    Plot,
    Scatter,
    Table,
)

# Powers (logarithms) nearer than this are equal: flows start anywhere within a tick, which moves them by less than 1 %.
TIE = 0.01
# CT section 6: its schemes, and the shares and factors that it states.
CT_SCHEMES, CT_MOST_BEST, CT_WORSE = ("cubic", "reno", "vegas", "bbr"), 0.25, 3.0
# Rankings of schemes on two paths that agree less than this have little to do with each other: half of the order's
# variance would need 0.71.
RELATED = 0.7
# A flow fills its link after slow start, which takes less than a tenth of the time on the longest path.
FULL = 0.9
# "In many": a quarter of the networks, as CT counts elsewhere.
MANY = 0.25


@dataclass(frozen=True)
class Entry:
    """A scheme on a path, `count` flows of it at once; `runs` in order."""

    path: str
    scheme: str
    count: int
    runs: tuple[TrialOutcome, ...]

    def of(self, figure: Callable[[Sequence[FlowOutcome]], float]) -> list[float]:
        """A figure of each run, where all flows of it are valid."""
        return [figure(run.flows) for run in self.runs if run.flows and not any(flow.reason for flow in run.flows)]

    @property
    def mbit(self) -> list[float]:
        """Of all flows together."""
        return self.of(lambda flows: sum(flow.mbit for flow in flows))

    @property
    def late_ms(self) -> list[float]:
        """The 95th percentile of one-way delay."""
        return self.of(lambda flows: fmean(flow.late_ms for flow in flows))

    @property
    def loss(self) -> list[float]:
        """Fraction of packets."""
        return self.of(lambda flows: fmean(flow.loss for flow in flows))

    @property
    def power(self) -> list[float]:
        """ln(Mbit/s / ms)."""
        return [math.log(rate / late) for rate, late in zip(self.mbit, self.late_ms, strict=True) if rate and late]

    @property
    def jain(self) -> list[float]:
        """Of the flows' throughputs."""
        return self.of(lambda flows: jain([flow.mbit for flow in flows]) or math.nan)

    @property
    def reason(self) -> str:
        """Why there is no figure; "" when there is one."""
        reasons = [run.reason or next((flow.reason for flow in run.flows if flow.reason), "") for run in self.runs]
        return "" if self.mbit else Counter(reasons).most_common(1)[0][0]


def share(entry: Entry) -> float | None:
    """Return throughput as a share of the link's rate."""
    full, got = named(entry.path).down.rate_kbit / 1e3 or None, mean(entry.mbit)
    return got / full if full and got is not None else None


def stretch(entry: Entry) -> float | None:
    """Return delay over the path's own: 1 is an empty queue."""
    late, own = mean(entry.late_ms), named(entry.path).down.delay_ms
    return late / own if late is not None and own else None


def powers(entries: Sequence[Entry], count: int) -> dict[str, dict[str, float]]:
    """Mean power by path and scheme, of so many flows; without what has none."""
    found: dict[str, dict[str, float]] = {}
    for entry in entries:
        if entry.count == count and (power := mean(entry.power)) is not None:
            found.setdefault(entry.path, {})[entry.scheme] = power
    return found


def counts_of(entries: Sequence[Entry]) -> list[int]:
    """Return the numbers of flows, in order."""
    return sorted({entry.count for entry in entries})


def tables(entries: Sequence[Entry]) -> list[Table]:
    """Over all paths, and every path with its intervals."""
    over = [row for count in counts_of(entries) for row in _over_paths(entries, count)]
    columns = ("scheme", "flows", "share of rate", "delay / way", "loss", "power", "mean rank", "best on", "worst on")
    words = "Medians over paths but for loss, power and rank, which are means; rank, best and worst are by power."
    return [Table("schemes", "Over all paths", columns, over, words), _every(entries)]


def _over_paths(entries: Sequence[Entry], count: int) -> list[list[Cell]]:
    by_path = powers(entries, count)
    placed = {path: dict(zip(row, ranks(list(row.values())), strict=True)) for path, row in by_path.items()}
    rows: list[list[Cell]] = []
    for scheme in dict.fromkeys(entry.scheme for entry in entries):
        mine = [entry for entry in entries if (entry.scheme, entry.count) == (scheme, count)]
        has = [row for row in by_path.values() if scheme in row]
        rows.append([
            scheme, count, _middle([share(one) for one in mine]), _middle([stretch(one) for one in mine]),
            mean([loss for one in mine for loss in one.loss]), mean([row[scheme] for row in has]),
            mean([row[scheme] for row in placed.values() if scheme in row]),
            sum(row[scheme] >= max(row.values()) - TIE for row in has),
            sum(row[scheme] <= min(row.values()) + TIE for row in has),
        ])  # fmt: skip
    # the best first
    return sorted(rows, key=lambda row: row[6] if isinstance(row[6], float) else math.inf)


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _every(entries: Sequence[Entry]) -> Table:
    columns = ("path", "flows", "scheme", "Mbit/s", "+- Mbit/s", "delay ms", "+- ms", "loss", "power", "+- power",
               "Jain", "runs", "why")  # fmt: skip
    rows = [
        [one.path, one.count, one.scheme, mean(one.mbit), margin(one.mbit), mean(one.late_ms), margin(one.late_ms),
         mean(one.loss), mean(one.power), margin(one.power), mean(one.jain) if one.count > 1 else None,
         len(one.mbit), one.reason]
        for one in entries
    ]  # fmt: skip
    words = "+- is half of Student's 95 % interval of the mean over the runs; delay is one way's 95th percentile."
    return Table("paths", "Every path", columns, rows, words)


def plots(entries: Sequence[Entry]) -> list[Plot]:
    """Heat maps scheme by path; scatters: of schemes over all paths, of runs on each; by number of flows."""
    found: list[Plot] = []
    for count in counts_of(entries):
        what = "one flow" if count == 1 else f"{count} flows"
        found.append(_heat(f"Power behind the path's best, {what}", entries, count, _behind(entries, count), "ln"))
        found.append(_heat(f"Share of the link's rate, {what}", entries, count, share))
        if count > 1:
            found.append(_heat(f"Jain's index of {what} of one scheme", entries, count, lambda one: mean(one.jain)))
    found += [_overview(entries, count) for count in counts_of(entries)]
    for count in counts_of(entries):
        for path in dict.fromkeys(one.path for one in entries):
            mine = [one for one in entries if (one.path, one.count) == (path, count)]
            found.append(_scatter(path, count, mine))
    return found


def _behind(entries: Sequence[Entry], count: int) -> Callable[[Entry], float | None]:
    """How far an entry's power lies below that of the best scheme there: paths differ by more than schemes do."""
    by_path = powers(entries, count)

    def behind(one: Entry) -> float | None:
        own = by_path.get(one.path, {}).get(one.scheme)
        return None if own is None else own - max(by_path[one.path].values())

    return behind


def _heat(
    title: str, entries: Sequence[Entry], count: int, figure: Callable[[Entry], float | None], unit: str = ""
) -> Heat:
    rows, columns = (list(dict.fromkeys(getattr(one, name) for one in entries)) for name in ("scheme", "path"))
    found = {(one.scheme, one.path): figure(one) for one in entries if one.count == count}
    return Heat(title, rows, columns, [[found.get((row, column)) for column in columns] for row in rows], unit)


def _overview(entries: Sequence[Entry], count: int) -> Scatter:
    clouds = []
    for scheme in dict.fromkeys(one.scheme for one in entries):
        mine = [one for one in entries if (one.scheme, one.count) == (scheme, count)]
        late, part = _middle([stretch(one) for one in mine]), _middle([share(one) for one in mine])
        clouds += [Cloud(scheme, [(late, part)])] if late is not None and part is not None else []
    return Scatter(
        f"Over all paths, {_words(count)}", "95th percentile of one-way delay / the way's own", "share of the rate",
        clouds, flip_x=True, words="A point a scheme: medians over paths; better is up and to the right.",
    )  # fmt: skip


def _words(count: int) -> str:
    return "one flow" if count == 1 else f"{count} flows together"


def _scatter(path: str, count: int, entries: Sequence[Entry]) -> Scatter:
    clouds = []
    for one in entries:
        points = list(zip(one.late_ms, one.mbit, strict=True))
        clouds += [Cloud(one.scheme, points, ellipse(points))] if points else []
    return Scatter(
        f"{path}, {_words(count)}", "95th percentile of one-way delay, ms", "throughput, Mbit/s", clouds, flip_x=True,
        words="A point a run, an ellipse of one standard deviation of the runs; better is up and to the right.",
    )  # fmt: skip


def facts(entries: Sequence[Entry]) -> list[Fact]:
    """Compare the papers' statements with the powers of single flows."""
    by_path = {path: row for path, row in powers(entries, 1).items() if len(row) > 1}
    if len(by_path) < 2:
        return [Fact("no scheme is best on every path", "Pantheon: in words", "-", UNKNOWN, "too few paths measured")]
    stated = agreement_fact(delays(entries, 1))
    return [_nowhere_best(by_path), _varies(by_path), _share_of_best(by_path), _bbr(entries), _full(entries), stated]


def delays(entries: Sequence[Entry], count: int) -> dict[str, dict[str, float]]:
    """Mean of the 95th percentiles of one-way delay by path and scheme, ms, of so many flows."""
    found: dict[str, dict[str, float]] = {}
    for entry in entries:
        if entry.count == count and (late := mean(entry.late_ms)) is not None:
            found.setdefault(entry.path, {})[entry.scheme] = late
    return found


def _full(entries: Sequence[Entry]) -> Fact:
    claim = "some flow fills its path"
    best: dict[str, float] = {}
    for one in entries:
        if one.count == 1 and (part := share(one)) is not None:
            best[one.path] = max(part, best.get(one.path, 0.0))
    if not best:
        return Fact(claim, "-", "-", UNKNOWN, "no path has a rate")
    idle = [f"{path} ({part:.0%})" for path, part in best.items() if part < FULL]
    verdict = HOLDS if not idle else PARTLY if len(idle) < len(best) else ABSENT
    words = f"nine tenths of its rate; where the best scheme has less: {', '.join(idle) or 'nowhere'}"
    return Fact(claim, "-", f"on {len(best) - len(idle)} of {len(best)} paths", verdict, words)


def _nowhere_best(by_path: dict[str, dict[str, float]]) -> Fact:
    best = Counter(s for row in by_path.values() for s in row if row[s] >= max(row.values()) - TIE)
    scheme, most = best.most_common(1)[0]
    outcomes = ", ".join(f"{name} {count}" for name, count in best.most_common())
    ours = f"{scheme} on {most} of {len(by_path)} paths"
    verdict = ABSENT if most == len(by_path) else HOLDS
    words = f"best by power or within {TIE:.0%} of it: {outcomes}"
    return Fact("no scheme is best on every path", "Pantheon: in words", ours, verdict, words)


def _varies(by_path: dict[str, dict[str, float]]) -> Fact:
    schemes = set.intersection(*(set(row) for row in by_path.values()))
    rows = {path: [row[scheme] for scheme in sorted(schemes)] for path, row in by_path.items()}
    pairs = [agreement(rows[one], rows[other]) for one, other in combinations(rows, 2)]
    known = [pair for pair in pairs if pair is not None]
    if not known:
        return Fact("performance varies by path", "Pantheon: in words", "-", UNKNOWN, "rankings without an order")
    middle, weak = median(known), sum(pair < RELATED for pair in known)
    verdict = HOLDS if middle < RELATED else PARTLY if weak else ABSENT
    ours = f"rank correlation between two paths: median {middle:.2f}"
    words = f"{weak} of {len(known)} pairs of paths agree less than {RELATED} on the order of schemes by power"
    return Fact("performance varies by path", "Pantheon: in words", ours, verdict, words)


def _share_of_best(by_path: dict[str, dict[str, float]]) -> Fact:
    claim, paper = "no congestion control is best for more than a quarter of the networks", "CT: 25 % (page loads)"
    rows = [{name: row[name] for name in CT_SCHEMES if name in row} for row in by_path.values()]
    first = Counter(max(row, key=row.__getitem__) for row in rows if len(row) == len(CT_SCHEMES))
    if not first:
        return Fact(claim, paper, "-", UNKNOWN, f"not all of {', '.join(CT_SCHEMES)} were measured")
    scheme, most = first.most_common(1)[0]
    part = most / first.total()
    outcomes = ", ".join(f"{name} {count}" for name, count in first.most_common())
    verdict = HOLDS if part <= CT_MOST_BEST else ABSENT
    return Fact(claim, paper, f"{scheme} on {part:.0%}", verdict, f"of CT's four, best by power: {outcomes}")


def _bbr(entries: Sequence[Entry]) -> Fact:
    claim, paper = "BBR is 3 to 10 times worse than the best in many networks", "CT: in words (page loads)"
    worse, paths = [], 0
    for path in dict.fromkeys(one.path for one in entries):
        mine = [one for one in entries if (one.path, one.count) == (path, 1)]
        # what did not run is no slow flow
        rates = {one.scheme: rate for one in mine if (rate := mean(one.mbit)) is not None}
        paths += "bbr" in rates
        if "bbr" in rates and max(rates.values()) >= CT_WORSE * rates["bbr"]:
            worse.append(path)
    if not paths:
        return Fact(claim, paper, "-", UNKNOWN, "bbr was not measured")
    verdict = HOLDS if len(worse) >= MANY * paths else PARTLY if worse else ABSENT
    words = f"by throughput of one flow, by {CT_WORSE:g} times or more: {', '.join(worse) or 'nowhere'}"
    return Fact(claim, paper, f"on {len(worse)} of {paths} paths", verdict, words)
