# SPDX-License-Identifier: MIT
"""Estimate how many more page loads a comparison of the groups needs, and how long they take. Pure.

Question   When will the page show a difference that it does not show yet?
Method     Each group needs `LEAST_UNITS` clients (each counted once an epoch), and `LEAST_BEYOND` loads beyond the
           goal's quantile. Assume that clients and loads of each group stay in proportion to all loads.
Reads as   a lower bound of the loads that are missing: several loads of a client beyond a quantile count once an epoch,
           and a comparison may fail for other reasons (`REASONS`).
Fails as   no number while a group has no client; no time below `LEAST_LOADS` loads in `RATE_HOURS`.
"""

from __future__ import annotations

from math import ceil

from configtron.learner.columns import Codes
from configtron.learner.sequential.differences import LEAST_BEYOND, LEAST_UNITS, ArmDifference

# Hours over which the present rate is measured: a day has busy and quiet hours.
RATE_HOURS = 24.0
# Fewest loads that give a rate: the standard error of 30 is a fifth (Poisson).
LEAST_LOADS = 30
GROUPS = "control group", "other clients"


def loads_an_hour(at_ns: Codes, now_ns: int) -> float:
    """Return the present rate of loads; 0: too few loads. at_ns: (n,) the end of each load, wall clock."""
    hours = (now_ns - at_ns) / 3.6e12
    hours = hours[(hours >= 0.0) & (hours < RATE_HOURS)]
    return len(hours) / float(hours.max()) if len(hours) >= LEAST_LOADS and hours.max() > 0.0 else 0.0


def loads_to_go(found: ArmDifference) -> int:
    """Return how many loads of all clients are missing, at least; both groups must have a client."""
    share, factors = found.goal.share, []
    for loads, units in zip(found.loads, found.units, strict=True):
        beyond = LEAST_BEYOND / min(share, 1.0 - share) if 0.0 < share < 1.0 else 0.0
        factors.append(max(LEAST_UNITS / units, beyond / loads))
    return max(0, ceil(sum(found.loads) * (max(factors) - 1.0)))


def to_go(found: ArmDifference, an_hour: float) -> str:
    """Return in words what is missing for a difference. an_hour: as of `loads_an_hour`."""
    for name, units in zip(GROUPS, found.units, strict=True):
        if not units:
            return f"no load of the {name} yet"
    loads = loads_to_go(found)
    if not loads:
        return "more loads are needed; how many is not known"
    when = f"{_duration(loads / an_hour)} at the present rate" if an_hour else "the rate is not known"
    return f"at least some {_rounded(loads)} loads to go, {when}"


def _duration(hours: float) -> str:
    if hours < 1.5:
        return "about an hour" if hours >= 0.75 else "less than an hour"
    return f"about {_rounded(hours)} hours" if hours < 36.0 else f"about {_rounded(hours / 24.0)} days"


def _rounded(number: float) -> str:
    """Return a number with one significant digit: the estimate is no more precise."""
    return f"{float(f'{number:.1g}'):.0f}"
