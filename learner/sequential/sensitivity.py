# SPDX-License-Identifier: MIT
"""What a canary can see: the smallest harm that it finds and the smallest margin that it passes, before it starts.

Question   With so many clients in either arm, which effects would a roll-out's gate and alarm find, and how soon?
Method     A former difference of the same goal, of any two arms, gives the standard error of one unit. Bounds of gate
           and alarm are walked through by the gate's own numerical integration (`group_sequential.py`), under a
           drift, which is sought for a probability of 80 %.
Stop when  the drift is found.
Reads as   effects in the goal's unit, at the roll-out's last look and at the median look of finding.
Fails as   infinite where nothing is known of a unit's standard error.
Differs    ConfigTron states no such thing.
Source     Jennison and Turnbull 2000, chapter 19; Waudby-Smith et al. 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite, sqrt

import numpy as np

from configtron.learner.sequential.always_valid import width
from configtron.learner.sequential.differences import ArmDifference
from configtron.learner.sequential.group_sequential import bounds, crossings

# The probability at which an effect counts as one that is seen.
POWER = 0.8
# Interim analyses of an alarm that the walk has: an alarm that is read more often sees hardly more.
ALARM_LOOKS = 50
# Drifts, in standard errors at the last look, between which the wanted one is sought, and halvings of them.
MOST_DRIFT, HALVINGS = 20.0, 30


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One goal. unit_error: standard error that one unit in either arm would have; units: in either arm at the last
    look; gate, alarm: smallest effects that they find with a probability of 80 %."""

    goal: str
    unit_error: float
    units: float
    gate: float
    alarm: float


def unit_error(known: ArmDifference) -> float:
    """Return the standard error that one unit in each arm would have; infinite where nothing is known."""
    # with n units in either arm the clock is n / 2
    return known.error * sqrt(2.0 * known.effective_units) if isfinite(known.error) else inf


def sensitivity(goal: str, one: float, units: float, gate_bounds: Sequence[float], alarm_error: float) -> Sensitivity:
    """Return what a stage of `units` in either arm can see.

    one          standard error of one unit in either arm
    gate_bounds  of equally spaced looks; alarm_error: one-sided
    """
    error = one / sqrt(units)
    gate, alarm = (_drift(tuple(upper)) for upper in (gate_bounds, alarm_bounds(alarm_error)))
    return Sensitivity(goal, one, units, gate * error, alarm * error)


def alarm_bounds(error: float, looks: int = ALARM_LOOKS, tuned_at: float = 0.5) -> list[float]:
    """Return a one-sided confidence sequence in standard errors at equally spaced looks, tuned at a share of them."""
    # a thousand units at the last look; only the ratio to what it is tuned at matters
    ends = np.linspace(1000.0 / looks, 1000.0, looks)
    return [width(1.0 / n, n, error, 1000.0 * tuned_at, one_sided=True) * sqrt(n) for n in ends]


def found_at(information: Sequence[float], upper: Sequence[float], drift: float) -> tuple[float, float]:
    """Return the probability that a test finds a drift, and the information at which half of those that do have."""
    above = crossings(information, [-inf] * len(upper), upper, drift)[1]
    total = float(above.sum())
    if total <= 0.0:
        return 0.0, inf
    return total, float(information[int(np.searchsorted(np.cumsum(above), total / 2.0))])


def drift_of(information: Sequence[float], upper: Sequence[float], power: float = POWER) -> float:
    """Return the drift, in standard errors at the last look, that is found with a probability."""
    low, high = 0.0, MOST_DRIFT
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if found_at(information, upper, middle)[0] < power else (low, middle)
    return high


@lru_cache(maxsize=64)
def _drift(upper: tuple[float, ...]) -> float:
    """Return the drift that equally spaced looks find with the probability `POWER`."""
    return drift_of([(look + 1) / len(upper) for look in range(len(upper))], upper)


def equal_gate(looks: int, error: float) -> tuple[float, ...]:
    """Return one-sided bounds of a gate with equally spaced looks."""
    return bounds([(look + 1) / looks for look in range(looks)], error)
