# SPDX-License-Identifier: MIT
"""Regional differences against the truth: those that were planted, and those that were not.

    pair       a target and a region beside the baseline, for one parameter
    recall     of the planted pairs, how many were found to differ; undetermined ones count as missed
    false      of the pairs that are truly the same and were compared, how many were found to differ; and of the targets
    mixed      targets whose address unlike servers share are in no pair, whether that was planted or not

Shares carry Wilson's 95 % interval. Pure: the plants come in as objects that can be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from configtron.fingerprint.diversity import DIFFERS, UNDETERMINED, compare, wilson
from configtron.model.records import Json, canonical
from configtron.report.target_results import TargetResult, by_knob


class PlantedDifference(Protocol):
    """A difference that was put there: this parameter of this host is another in this region than in the baseline."""

    @property
    def host(self) -> str:
        """The name."""

    @property
    def knob(self) -> str:
        """The parameter."""

    @property
    def region(self) -> str:
        """Return where it is another."""


class FalseDifference(NamedTuple):
    """A target, and where it was found to differ though it does not."""

    host: str
    region: str


@dataclass(slots=True)
class PlantScore:
    """Counts for one parameter."""

    knob: str
    planted: int = 0
    found: int = 0
    same: int = 0
    false: list[FalseDifference] = field(default_factory=list)
    hosts_planted: set[str] = field(default_factory=set)
    hosts_found: set[str] = field(default_factory=set)
    hosts_same: set[str] = field(default_factory=set)
    hosts_false: set[str] = field(default_factory=set)

    @property
    def is_perfect(self) -> bool:
        """Return whether all that was planted is found, and nothing else."""
        return self.found == self.planted and not self.false


def planted(
    found: Iterable[TargetResult], plants: Iterable[PlantedDifference], knobs: Iterable[str], baseline: str
) -> list[PlantScore]:
    """A row for each parameter that any target has a verdict on."""
    verdicts, mixed = by_knob(found, knobs)
    true = {(plant.knob, plant.host, plant.region) for plant in plants}
    rows = []
    for knob, targets in verdicts.items():
        row = PlantScore(knob)
        for host in sorted(targets.keys() - mixed):
            for region in sorted(targets[host].keys() - {baseline}):
                outcome = compare(targets[host].get(baseline), targets[host][region])
                _count(row, FalseDifference(host, region), outcome, (knob, host, region) in true)
        row.hosts_same -= row.hosts_planted
        row.hosts_false -= row.hosts_planted
        rows.append(row)
    return rows


def _count(row: PlantScore, pair: FalseDifference, outcome: str, different: bool) -> None:
    if different:
        row.planted += 1
        row.hosts_planted.add(pair.host)
        if outcome == DIFFERS:
            row.found += 1
            row.hosts_found.add(pair.host)
    elif outcome != UNDETERMINED:
        row.same += 1
        row.hosts_same.add(pair.host)
        if outcome == DIFFERS:
            row.false.append(pair)
            row.hosts_false.add(pair.host)


def planted_lines(rows: Iterable[PlantScore]) -> list[str]:
    """JSON lines, one per parameter."""
    lines = []
    for row in rows:
        form: dict[str, Json] = {"schema": "configtron.planted/1", "knob": row.knob}
        form |= {"planted": row.planted, "found": row.found, "same": row.same, "false": len(row.false)}
        hosts = {name: getattr(row, name) for name in ("hosts_planted", "hosts_found", "hosts_same", "hosts_false")}
        form |= {name: len(there) for name, there in hosts.items()}
        form["false_pairs"] = [f"{pair.host} {pair.region}" for pair in row.false]
        lines.append(canonical(form))
    return lines


def share(part: int, whole: int) -> str:
    """A share with its interval: "3/400 0.8 % (0.3-2.2)"."""
    if not whole:
        return "-"
    low, high = wilson(part, whole)
    return f"{part}/{whole} {100 * part / whole:.1f} % ({100 * low:.1f}-{100 * high:.1f})"
