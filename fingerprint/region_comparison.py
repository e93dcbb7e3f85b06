# SPDX-License-Identifier: MIT
"""Table 2 drawn out: one parameter region by region, one operator over all parameters, one difference after another.

Question   In which regions are servers configured differently, which operators run them, and which servers are they?
Method     The comparisons of `diversity.py`, counted once more: by region, by operator (from `probe/provider.py`), and
           one by one. Nothing is judged anew.
Reads as   Of each region same, differs and undetermined targets, with Wilson's 95 % interval of differs / compared;
           of each operator the targets compared in anything, and those that differ in anything anywhere.
Fails as   undetermined, by obstacle: a named reason, too low a grade, readings in common.
Differs    from the sum over regions: a target that differs in three regions is one target of Table 2.
Source     ConfigTron section 2.1, whose Table 2 names no operator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from configtron.fingerprint.diversity import (
    DIFFERS,
    SAME,
    UNDETERMINED,
    Diversity,
    RegionDifference,
    ValueShare,
    diversity,
    in_force,
    outcomes,
    shares_of,
    why,
    wilson,
)
from configtron.model.nouns import Observation

# By target, then region.
Verdicts = Mapping[str, Mapping[str, Observation]]


@dataclass(frozen=True, slots=True)
class RegionCounts:
    """One parameter in one region: the servers' settings there; beside the baseline also how they compare."""

    name: str
    known: int
    shares: tuple[ValueShare, ...]
    same: int
    differs: int
    undetermined: int

    @property
    def compared(self) -> int:
        """Targets of which it is known whether they differ."""
        return self.same + self.differs

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share that differs; (0, 1) if nothing was compared."""
        return wilson(self.differs, self.compared)


@dataclass(frozen=True, slots=True)
class ParameterByRegion:
    """A row of Table 2 with its sources; `obstacles` counts undetermined targets by obstacle."""

    row: Diversity
    unit: str
    regions: tuple[RegionCounts, ...]
    differences: tuple[RegionDifference, ...]
    obstacles: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of some targets: how many of them were compared in anything, and how many differ in anything."""

    name: str
    targets: tuple[str, ...]
    compared: int
    differing: int
    differences: tuple[RegionDifference, ...]

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share that differs; (0, 1) if nothing was compared."""
        return wilson(self.differing, self.compared)


def parameter(
    knob: str, baseline: str, regions: Iterable[str], verdicts: Verdicts, mixed: Collection[str] = ()
) -> ParameterByRegion:
    """One parameter drawn out; without the targets in `mixed`. `regions` in the order they shall stand in."""
    mine = {target: verdicts[target] for target in sorted(verdicts.keys() - set(mixed))}
    units = {verdict.unit for found in mine.values() for verdict in found.values() if verdict.value is not None}
    return ParameterByRegion(
        diversity(knob, baseline, verdicts, mixed),
        min(units, default=""),
        tuple(_region(name, baseline, mine) for name in regions),
        tuple(each for target, found in mine.items() for each in _differences(knob, target, found, baseline)),
        _obstacles(mine, baseline),
    )


def _region(name: str, baseline: str, verdicts: Verdicts) -> RegionCounts:
    known, shares = shares_of(found.get(name) for found in verdicts.values())
    here = {target: {r: found[r] for r in (baseline, name) if r in found} for target, found in verdicts.items()}
    counts = Counter(outcome for found in here.values() for outcome in outcomes(found, baseline).values())
    return RegionCounts(name, known, shares, counts[SAME], counts[DIFFERS], counts[UNDETERMINED])


def _differences(knob: str, target: str, found: Mapping[str, Observation], baseline: str) -> list[RegionDifference]:
    different = []
    for region, outcome in outcomes(found, baseline).items():
        here, there = in_force(found.get(baseline)), in_force(found[region])
        if outcome == DIFFERS and here is not None and there is not None:
            different.append(RegionDifference(knob, target, region, here, there))
    return different


def _obstacles(verdicts: Verdicts, baseline: str) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for found in verdicts.values():
        compared_as = outcomes(found, baseline)
        if compared_as and set(compared_as.values()) == {UNDETERMINED}:
            counts[why(found.get(baseline), found[next(iter(compared_as))])] += 1
    return tuple(sorted(counts.items(), key=lambda count: (-count[1], count[0])))


def operators(
    verdicts: Mapping[str, Verdicts], parameters: Iterable[ParameterByRegion], runs: Mapping[str, str], baseline: str
) -> tuple[Operator, ...]:
    """Return operators, those with the most differing targets first.

    `verdicts` by knob; `runs`: the operator of a target, for all that are to be counted (so without the mixed ones).
    """
    compared = {
        target
        for targets in verdicts.values()
        for target, found in targets.items()
        if {SAME, DIFFERS} & set(outcomes(found, baseline).values())
    }
    targets_of, differences_of = defaultdict(list), defaultdict(list)
    for target in sorted(runs):
        targets_of[runs[target]].append(target)
    for difference in (difference for each in parameters for difference in each.differences):
        if difference.target in runs:
            differences_of[runs[difference.target]].append(difference)
    made = []
    for name, mine in targets_of.items():
        theirs = tuple(differences_of[name])
        differing = {difference.target for difference in theirs}
        made.append(Operator(name, tuple(mine), len(compared.intersection(mine)), len(differing), theirs))
    return tuple(sorted(made, key=lambda each: (-each.differing, -len(each.targets), each.name)))
