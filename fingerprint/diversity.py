# SPDX-License-Identifier: MIT
"""How differently are servers configured elsewhere? One run, several regions, one parameter: a row of Table 2.

Question   Of the targets whose setting is known in the baseline region and in another, how many differ there?
Method     A setting is known at grade A or B. Two known settings differ when no allowed reading makes them equal, and
           no single exact reading of one is the other's setting: so a lost packet makes no target differ.
Reads as   Shares of the values in the baseline region; differing / compared targets with Wilson's 95 % interval.
           The setting in force counts: a setting that is not announced stands for its default.
Fails as   undetermined: not known in both, or readings in common; mixed: unlike servers answer at one address in some
           region, so that chance decides the reading there and not the region. Both are counted, and are no part of any
           share.
Differs    from ConfigTron Table 2, which gives neither an interval nor the number of servers in its shares; and
           from a claim about deployment: one run on one day cannot separate a roll-out from a difference, so a change
           wants two more runs (`configtron probe diff`).
Source     ConfigTron section 2.1; Wilson 1927.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from configtron.model.nouns import Observation, Value

# Grades at which a setting is known.
KNOWN = ("A", "B")
# Two-sided 95 % of the normal distribution.
Z95 = 1.959963984540054
# Timers are read through the kernel's timer wheel, whose slots are an eighth of the delay (kernel/time/timer.c).
TIMER_SLACK = 0.125
# Timers are set in tenths of a second, coarser if at all.
TIMER_STEP_S = 0.1

SAME, DIFFERS, UNDETERMINED, MIXED = "same", "differs", "undetermined", "mixed"
# The knob that shows whether unlike servers share the address; of such a target nothing else is compared.
BALANCING = "load_balancing"
# Details that give the setting in force; no other details of a verdict are compared.
CLASS, EFFECTIVE = "class", "effective"
# Why two known settings are not compared.
IN_COMMON, NOT_ASKED = "readings in common", "not asked"


@dataclass(frozen=True, slots=True)
class ValueShare:
    """A value, how many targets have it, and their part of those known."""

    value: Value
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class RegionDifference:
    """A target that has one setting in the baseline region and another elsewhere."""

    knob: str
    target: str
    region: str
    here: Value
    there: Value


@dataclass(frozen=True, slots=True)
class Diversity:
    """One parameter over regions. `low` and `high` bound the share of differing targets."""

    knob: str
    baseline: str
    shares: tuple[ValueShare, ...]
    known: int
    compared: int
    differing: int
    low: float
    high: float
    undetermined: int
    mixed: int
    example: RegionDifference | None


def in_force(observation: Observation | None) -> Value | None:
    """Return the setting, if known at A or B: a timer's class, the default of an unannounced parameter, else the
    value."""
    return setting(observation) if observation is not None and observation.grade in KNOWN else None


def setting(observation: Observation) -> Value | None:
    """Return the setting that a reading shows, at any grade; None if it has no value."""
    timer = observation.detail(CLASS)
    if isinstance(timer, int | float):
        return timer
    return observation.detail(EFFECTIVE, observation.value)


def bare(verdict: Observation) -> Observation:
    """Return the verdict with only the fields that a comparison reads, so that a campaign's fit into memory."""
    readings = dict.fromkeys(setting(trial) for trial in verdict.trials if trial.grade == "C")
    trials = tuple(Observation(verdict.knob, value, unit=verdict.unit, grade="C") for value in readings)
    details = tuple(pair for pair in verdict.details if pair[0] in (CLASS, EFFECTIVE))
    return replace(verdict, method="", trace_id="", evidence=(), trials=trials, details=details)


def is_mixed(verdicts: Mapping[str, Observation]) -> bool:
    """Return whether unlike servers answered at this target, at any grade: one connection is enough."""
    return BALANCING in verdicts and verdicts[BALANCING].value == MIXED


def compare(here: Observation | None, there: Observation | None) -> str:
    """same, differs or undetermined."""
    a, b = in_force(here), in_force(there)
    if a is None or b is None or here is None or there is None:
        return UNDETERMINED
    if _equal(a, b, here.unit):
        return SAME
    return UNDETERMINED if _hassaid(here, b) or _hassaid(there, a) else DIFFERS


def outcomes(verdicts: Mapping[str, Observation], baseline: str) -> dict[str, str]:
    """Compare one target in each region with the baseline."""
    return {r: compare(verdicts.get(baseline), verdicts[r]) for r in sorted(verdicts) if r != baseline}


def why(here: Observation | None, there: Observation | None) -> str:
    """Return why a pair is undetermined: the obstacle in the baseline region, if there is one there."""
    for verdict in (here, there):
        if verdict is None:
            return NOT_ASKED
        if verdict.grade not in KNOWN:
            return verdict.reason or f"grade {verdict.grade}"
    return IN_COMMON


def _hassaid(verdict: Observation, value: Value) -> bool:
    """Return whether any exact trial of the verdict read that value."""
    readings = (setting(trial) for trial in verdict.trials if trial.grade == "C")
    return any(reading is not None and _equal(reading, value, verdict.unit) for reading in readings)


def _equal(a: Value, b: Value, unit: str) -> bool:
    if unit == "s" and isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= max(a, b) * TIMER_SLACK
    return a == b


def wilson(hits: int, total: int, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval for a share; (0, 1) when nothing was counted."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = hits / total, z * z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def diversity(
    knob: str, baseline: str, verdicts: Mapping[str, Mapping[str, Observation]], mixed: Collection[str] = ()
) -> Diversity:
    """One row: `verdicts` are those on `knob`, by target and then region; targets in `mixed` are left out."""
    mine = {target: verdicts[target] for target in sorted(verdicts.keys() - set(mixed))}
    known, shares = shares_of(found.get(baseline) for found in mine.values())
    compared = differing = undetermined = 0
    example = None
    for target, regions in mine.items():
        found = outcomes(regions, baseline)
        elsewhere = next((region for region, outcome in found.items() if outcome == DIFFERS), "")
        compared += elsewhere != "" or SAME in found.values()
        undetermined += bool(found) and set(found.values()) == {UNDETERMINED}
        differing += elsewhere != ""
        value, there = in_force(regions.get(baseline)), in_force(regions.get(elsewhere))
        if example is None and value is not None and there is not None:
            example = RegionDifference(knob, target, elsewhere, value, there)
    low, high = wilson(differing, compared)
    apart = len(verdicts.keys() & set(mixed))
    return Diversity(knob, baseline, shares, known, compared, differing, low, high, undetermined, apart, example)


def shares_of(verdicts: Iterable[Observation | None]) -> tuple[int, tuple[ValueShare, ...]]:
    """Return (how many settings are known, the values of those, commonest first)."""
    counts: Counter[Value] = Counter()
    for verdict in verdicts:
        value = in_force(verdict)
        if value is not None and verdict is not None:
            counts[_rounded(value, verdict.unit)] += 1
    known = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda count: (-count[1], str(count[0])))
    return known, tuple(ValueShare(value, n, n / known) for value, n in ordered)


def _rounded(value: Value, unit: str) -> Value:
    """Return measured times rounded to the steps of their settings, so that they can be counted."""
    if unit == "s" and isinstance(value, int | float):
        return round(round(value / TIMER_STEP_S) * TIMER_STEP_S, 1)
    return value
