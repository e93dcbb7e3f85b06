"""How differently are servers configured elsewhere? One run, several regions, one parameter: a row of Table 2.

Question   Of the targets whose setting is known in the baseline region and in another, how many differ there?
Method     A setting is known at grade A or B. Two known settings differ when no allowed reading makes them equal, and
           no single exact reading of one is the other's setting: so a lost packet makes nobody differ.
Reads as   Shares of the values in the baseline region; differing / compared targets with Wilson's 95 % interval.
           What is in force counts: a setting that is not announced stands for its default.
Fails as   undetermined: not known in both, or readings in common; mixed: unlike servers answer at one address in some
           region, so that what is seen there is a matter of luck and not of the region. Both are counted, and are no
           part of any share.
Differs    from ConfigTron Table 2, which gives no interval and does not say over how many servers its shares are; and
           from a claim about deployment: one run on one day cannot tell a roll-out from a difference, so a change
           wants two more runs (`configtron probe diff`).
Source     ConfigTron section 2.1; Wilson 1927.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from configtron.nouns import Observation, Value

# Grades at which a setting is known.
KNOWN = ("A", "B")
# Two-sided 95 % of the normal distribution.
Z95 = 1.959963984540054
# Timers are read through the kernel's timer wheel, whose slots are an eighth of the delay (kernel/time/timer.c).
TIMER_SLACK = 0.125
# Timers are set in tenths of a second, coarser if at all.
TIMER_STEP_S = 0.1

SAME, DIFFERS, UNDETERMINED, MIXED = "same", "differs", "undetermined", "mixed"
# The knob that tells whether unlike servers share the address; of such a target nothing else is compared.
BALANCING = "load_balancing"


@dataclass(frozen=True, slots=True)
class Share:
    """A value, how many targets have it, and their part of those known."""

    value: Value
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Example:
    """A target that is configured differently elsewhere."""

    target: str
    here: Value
    region: str
    there: Value


@dataclass(frozen=True, slots=True)
class Diversity:
    """One parameter over regions. `low` and `high` bound the share of differing targets."""

    knob: str
    baseline: str
    shares: tuple[Share, ...]
    known: int
    compared: int
    differing: int
    low: float
    high: float
    undetermined: int
    mixed: int
    example: Example | None


def in_force(observation: Observation | None) -> Value | None:
    """The setting, if it is known at A or B: a timer's class, the default of what is not announced, else the value."""
    return _read(observation) if observation is not None and observation.grade in KNOWN else None


def _read(observation: Observation) -> Value | None:
    """What it says is in force, at whatever grade."""
    timer = observation.detail("class")
    if isinstance(timer, int | float):
        return timer
    return observation.detail("effective", observation.value)


def is_mixed(verdicts: Mapping[str, Observation]) -> bool:
    """Whether unlike servers answered at this target, at whatever grade: one witness is enough to keep it apart."""
    return BALANCING in verdicts and verdicts[BALANCING].value == MIXED


def compare(here: Observation | None, there: Observation | None) -> str:
    """same, differs or undetermined."""
    a, b = in_force(here), in_force(there)
    if a is None or b is None or here is None or there is None:
        return UNDETERMINED
    if _equal(a, b, here.unit):
        return SAME
    return UNDETERMINED if _has_read(here, b) or _has_read(there, a) else DIFFERS


def _has_read(verdict: Observation, value: Value) -> bool:
    """Whether any exact trial of the verdict read that value."""
    readings = (_read(trial) for trial in verdict.trials if trial.grade == "C")
    return any(reading is not None and _equal(reading, value, verdict.unit) for reading in readings)


def _equal(a: Value, b: Value, unit: str) -> bool:
    if unit == "s" and isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= max(a, b) * TIMER_SLACK
    return a == b


def wilson(hits: int, total: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a share; (0, 1) when nothing was counted."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = hits / total, z * z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def diversity(
    knob: str, baseline: str, verdicts: Mapping[str, Mapping[str, Observation]], mixed: Collection[str] = ()
) -> Diversity:
    """One row: `verdicts` are those on `knob`, by target and then region; of targets in `mixed` nothing is said."""
    counts: Counter[Value] = Counter()
    compared = differing = undetermined = 0
    example = None
    for target in sorted(verdicts.keys() - set(mixed)):
        regions = verdicts[target]
        here = regions.get(baseline)
        value = in_force(here)
        if value is not None and here is not None:
            counts[_rounded(value, here.unit)] += 1
        outcomes = {region: compare(here, regions[region]) for region in sorted(regions) if region != baseline}
        elsewhere = next((region for region, outcome in outcomes.items() if outcome == DIFFERS), "")
        compared += elsewhere != "" or SAME in outcomes.values()
        undetermined += bool(outcomes) and set(outcomes.values()) == {UNDETERMINED}
        differing += elsewhere != ""
        there = in_force(regions.get(elsewhere))
        if example is None and value is not None and there is not None:
            example = Example(target, value, elsewhere, there)
    known = sum(counts.values())
    shares = tuple(Share(value, n, n / known) for value, n in sorted(counts.items(), key=lambda c: (-c[1], str(c[0]))))
    low, high = wilson(differing, compared)
    apart = len(verdicts.keys() & set(mixed))
    return Diversity(knob, baseline, shares, known, compared, differing, low, high, undetermined, apart, example)


def _rounded(value: Value, unit: str) -> Value:
    """Measured times in the steps they are set in, so that they can be counted."""
    if unit == "s" and isinstance(value, int | float):
        return round(round(value / TIMER_STEP_S) * TIMER_STEP_S, 1)
    return value
