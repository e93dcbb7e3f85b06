# SPDX-License-Identifier: MIT
"""How many page loads are missing before a goal can be compared, and about when they will have come. Pure.

Question   When will the page show a difference where it has none yet?
Method     Either group needs `LEAST_UNITS` clients (each counted once an epoch), and `LEAST_BEYOND` loads beyond the
           goal's quantile. Clients and loads of a group are taken to grow with all loads as they did so far.
Reads as   the fewest loads that are missing, which is a lower bound: loads beyond a quantile that one client has in one
           epoch count once, and what else may be missing (`REASONS`) is not known before.
Fails as   no number, where a group has no client yet; no time, below `LEAST_LOADS` loads in `RATE_HOURS`.
"""

from __future__ import annotations

from math import ceil

from configtron.learner.columns import Codes
from configtron.learner.sequential.differences import LEAST_BEYOND, LEAST_UNITS, ArmDifference

# Hours that the present rate is measured over: the busy and the quiet part of a day.
RATE_HOURS = 24.0
# Fewest loads that give a rate: its error is a fifth then (Poisson).
LEAST_LOADS = 30
GROUPS = "control group", "other clients"


def loads_an_hour(at_ns: Codes, now_ns: int) -> float:
    """Return the present rate of loads; 0: too few of them to say. at_ns: (n,) when each load ended, wall clock."""
    hours = (now_ns - at_ns) / 3.6e12
    hours = hours[(hours >= 0.0) & (hours < RATE_HOURS)]
    return len(hours) / float(hours.max()) if len(hours) >= LEAST_LOADS and hours.max() > 0.0 else 0.0


def loads_to_go(found: ArmDifference) -> int:
    """Return the fewest loads of all clients that are missing; both groups must have a client."""
    share, factors = found.goal.share, []
    for loads, units in zip(found.loads, found.units, strict=True):
        beyond = LEAST_BEYOND / min(share, 1.0 - share) if 0.0 < share < 1.0 else 0.0
        factors.append(max(LEAST_UNITS / units, beyond / loads))
    return max(0, ceil(sum(found.loads) * (max(factors) - 1.0)))


def to_go(found: ArmDifference, an_hour: float) -> str:
    """Return in words what is missing before there is a difference. an_hour: as `loads_an_hour` returns it."""
    for name, units in zip(GROUPS, found.units, strict=True):
        if not units:
            return f"no load of the {name} yet"
    loads = loads_to_go(found)
    if not loads:
        return "more loads are needed, it is not known how many"
    when = f"{_time(loads / an_hour)} at the present rate" if an_hour else "the rate is not known"
    return f"at least some {_digit(loads)} loads to go, {when}"


def _time(hours: float) -> str:
    if hours < 1.5:
        return "about an hour" if hours >= 0.75 else "less than an hour"
    return f"about {_digit(hours)} hours" if hours < 36.0 else f"about {_digit(hours / 24.0)} days"


def _digit(number: float) -> str:
    """Return a number with one digit that counts: neither a proportion of few nor a rate is known better."""
    return f"{float(f'{number:.1g}'):.0f}"
