# SPDX-License-Identifier: MIT
"""How flows of a fairness trial share a link: Jain's index by case, its distribution, the paper's two shares. Pure.

Rules for this file: a case is a link and a tested configuration; its index is the mean of its runs' indices. The first
flow of a trial is the tested one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from configtron.model.nouns import Value
from configtron.studies.flows.flows import TrialOutcome
from configtron.studies.flows.spread import jain, margin, mean
from configtron.studies.output.results import ABSENT, HOLDS, UNKNOWN, Cell, Curve, Curves, Fact, Heat, Plot, Table

# CT Figure 7: an index above this is fair; share of cases that were, of all and without BBR.
FAIR, PAPER_ALL, PAPER_WITHOUT = 0.95, 0.5, 0.9
BBR = "bbr"
# The configuration that the rivals have.
DEFAULT = ("cubic", 10, "pfifo_fast")


@dataclass(frozen=True)
class Case:
    """configuration: congestion control, initial window, pacing of the tested flow; `runs` in order."""

    link: str
    configuration: tuple[Value, ...]
    runs: tuple[TrialOutcome, ...]

    @property
    def scheme(self) -> str:
        """The tested congestion control."""
        return str(self.configuration[0])

    @property
    def valid(self) -> list[TrialOutcome]:
        """Runs in which every flow was what it should be; one that got nothing is an unfair share, not a failure."""
        return [run for run in self.runs if run.flows and all(flow.sent for flow in run.flows)]

    @property
    def indices(self) -> list[float]:
        """Jain's, of each run."""
        found = [jain([flow.mbit for flow in run.flows]) for run in self.valid]
        return [index for index in found if index is not None]

    @property
    def index(self) -> float | None:
        """Their mean."""
        return mean(self.indices)

    @property
    def gain(self) -> float | None:
        """Return the tested flow's throughput over a competing flow's: 1 is an equal share."""
        pairs = [(run.flows[0].mbit, fmean(flow.mbit for flow in run.flows[1:])) for run in self.valid]
        return mean([tested / rival for tested, rival in pairs if rival])

    @property
    def reason(self) -> str:
        """Why it has no index."""
        reasons = [run.reason or next((flow.reason for flow in run.flows if flow.reason), "") for run in self.runs]
        return "" if self.indices else next((word for word in reasons if word), "no-run")


def tables(cases: Sequence[Case]) -> list[Table]:
    """By congestion control and link; then every case."""
    rows: list[list[Cell]] = []
    for link in (*dict.fromkeys(case.link for case in cases), ""):
        for scheme in (*dict.fromkeys(case.scheme for case in cases), ""):
            mine = [case for case in cases if link in (case.link, "") and scheme in (case.scheme, "")]
            rows.append([link or "all", scheme or "all", *_summary(mine)])
    columns = ("link", "tested", "cases", "median Jain", "least", f"share > {FAIR}", "tested / rival")
    words = "tested / rival: throughput of the tested flow over the mean of its five rivals, the median case."
    every = [
        [one.link, *map(str, one.configuration), one.index, margin(one.indices), one.gain, len(one.indices), one.reason]
        for one in cases
    ]
    fields = ("link", "congestion control", "initcwnd", "pacing", "Jain", "+-", "tested / rival", "runs", "why")
    return [
        Table("fairness", "By link and tested congestion control", columns, rows, words),
        Table("cases", "Every case", fields, every, "+- is half of Student's 95 % interval of the mean over the runs."),
    ]


def _summary(cases: Sequence[Case]) -> list[Cell]:
    known = [case.index for case in cases if case.index is not None]
    gains = [case.gain for case in cases if case.gain is not None]
    if not known:
        return [0, None, None, None, None]
    return [len(known), median(known), min(known), fair_share(known), median(gains) if gains else None]


def fair_share(indices: Sequence[float]) -> float:
    """Of these indices, how many are above the paper's bound."""
    return sum(index > FAIR for index in indices) / len(indices)


def plots(cases: Sequence[Case]) -> list[Plot]:
    """The distribution, whole, without BBR and by scheme; the median index by scheme and link."""
    groups = [("all", cases), ("without BBR", [case for case in cases if case.scheme != BBR])]
    names = dict.fromkeys(case.scheme for case in cases)
    groups += [(name, [case for case in cases if case.scheme == name]) for name in names]
    series = [Curve(name, distribution([c.index for c in mine if c.index is not None])) for name, mine in groups]
    links, schemes = (list(dict.fromkeys(getattr(c, name) for c in cases)) for name in ("link", "scheme"))
    heat = [[_median_index(cases, scheme, link) for link in links] for scheme in schemes]
    return [
        Curves("Jain's index over cases", "Jain's index of six flows", "share of cases with at most that", series,
               words=f"A case is a link and a tested configuration. Fair, for the paper, is above {FAIR}."),
        Heat("Median index", schemes, links, heat),
    ]  # fmt: skip


def _median_index(cases: Sequence[Case], scheme: str, link: str) -> float | None:
    known = [c.index for c in cases if (c.scheme, c.link) == (scheme, link) and c.index is not None]
    return median(known) if known else None


def distribution(values: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """(value, share of values that are at most that, no interval), rising."""
    ordered = sorted(values)
    return [(value, number / len(ordered), math.nan, math.nan) for number, value in enumerate(ordered, 1)]


def facts(cases: Sequence[Case]) -> list[Fact]:
    """The paper's two shares, and what equal flows have."""
    without = [case for case in cases if case.scheme != BBR]
    return [
        _share(f"Jain's index is above {FAIR} in most cases", PAPER_ALL, cases),
        _share(f"Jain's index is above {FAIR} in nine of ten cases without BBR", PAPER_WITHOUT, without),
        _equals(cases),
    ]


def _share(claim: str, bound: float, cases: Sequence[Case]) -> Fact:
    known = [case.index for case in cases if case.index is not None]
    paper = f"CT: > {bound:.0%}"
    if not known:
        return Fact(claim, paper, "-", UNKNOWN, "no case has an index")
    part = fair_share(known)
    by_scheme = {scheme: [c.index for c in cases if c.scheme == scheme and c.index is not None]
                 for scheme in dict.fromkeys(case.scheme for case in cases)}  # fmt: skip
    words = ", ".join(f"{scheme} {fair_share(mine):.0%}" for scheme, mine in by_scheme.items() if mine)
    ours = f"{part:.0%} of {len(known)} cases"
    words = f"by tested congestion control: {words}; {_sides(cases)}"
    return Fact(claim, paper, ours, HOLDS if part > bound else ABSENT, words)


def _sides(cases: Sequence[Case]) -> str:
    """Count the unfair cases in which the tested flow got less than a rival: an index does not show that."""
    unfair = [case.gain for case in cases if case.index is not None and case.index <= FAIR and case.gain is not None]
    less = sum(gain < 1 for gain in unfair)
    return f"of {len(unfair)} cases that are not fair the tested flow got less than a rival in {less}, more in others"


def _equals(cases: Sequence[Case]) -> Fact:
    """Six flows of one kind: what the index is when nothing is tuned."""
    claim = "six default flows are fair to each other"
    equal = [case.index for case in cases if case.configuration == DEFAULT and case.index is not None]
    if not equal:
        return Fact(claim, "-", "-", UNKNOWN, "the default configuration was not among the tested")
    links = [case.link for case in cases if case.configuration == DEFAULT and (case.index or 1.0) <= FAIR]
    words = f"not on {', '.join(links)}" if links else "on every link"
    ours = f"{fair_share(equal):.0%} of {len(equal)} links, median {median(equal):.3f}"
    return Fact(claim, "-", ours, HOLDS if not links else ABSENT, words)
