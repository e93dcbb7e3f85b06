# SPDX-License-Identifier: MIT
"""What is missing before a goal can be compared: as much as was measured, and no more certain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.sequential.differences import FAILURES, MEDIAN, P95, ArmDifference, ArmLoads, Goal, difference
from configtron.report.page.to_go import LEAST_LOADS, loads_an_hour, loads_to_go, to_go

HOUR_NS = 3600 * 10**9


def seen(goal: Goal, loads: tuple[int, int], units: tuple[int, int]) -> ArmDifference:
    return ArmDifference(goal, np.nan, np.inf, np.inf, (np.nan, np.nan), loads, units, reason="few-units")


FEW = seen(P95, (10, 90), (10, 90))


@pytest.mark.parametrize(("few", "missing"), [
    # six times as many: 30 clients in place of 5; 30 clients are more than 12 loads beyond the median
    (seen(FAILURES, (10, 90), (5, 60)), 500), (seen(MEDIAN, (10, 90), (10, 60)), 200),
    # 12 loads beyond 95 % are 240 in all
    (FEW, 2300), (seen(P95, (900, 900), (900, 900)), 0),
])  # fmt: skip
def test_the_smaller_group_says_how_many(few: ArmDifference, missing: int) -> None:
    assert loads_to_go(few) == missing


@pytest.mark.parametrize(("goal", "n"), [(MEDIAN, 100), (P95, 400), (FAILURES, 50)])
def test_with_so_many_loads_a_difference_is_known(goal: Goal, n: int) -> None:
    """Clients with one load each, a tenth in the control group: a little beyond the bound nothing is missing."""
    rng = np.random.default_rng(5)
    few = difference(loads_of(rng, n), goal)
    assert few.reason
    enough = difference(loads_of(rng, round(1.1 * (n + loads_to_go(few)))), goal)
    assert not enough.reason


def loads_of(rng: np.random.Generator, n: int) -> ArmLoads:
    none = np.zeros(0)
    return ArmLoads(np.arange(n) % 10 > 0, rng.normal(6.0, 1.0, n), np.arange(n), none.astype(np.int64), none)


@pytest.mark.parametrize(("few", "an_hour", "words"), [
    (FEW, 100.0, "at least some 2000 loads to go, about 20 hours at the present rate"),
    (FEW, 10.0, "at least some 2000 loads to go, about 10 days at the present rate"),
    (FEW, 2000.0, "at least some 2000 loads to go, about an hour at the present rate"),
    (FEW, 9000.0, "at least some 2000 loads to go, less than an hour at the present rate"),
    # what was not measured is not stated
    (FEW, 0.0, "at least some 2000 loads to go, the rate is not known"),
    (replace(FEW, units=(0, 90), loads=(0, 90)), 9.0, "no load of the control group yet"),
])  # fmt: skip
def test_words_have_one_digit(few: ArmDifference, an_hour: float, words: str) -> None:
    assert to_go(few, an_hour) == words
    assert "how many is not known" in to_go(seen(P95, (900, 900), (900, 900)), 9.0)


def test_the_rate_is_that_of_the_last_day() -> None:
    at = np.arange(100, dtype=np.int64) * HOUR_NS
    assert loads_an_hour(at, 99 * HOUR_NS) == 0.0, "24 loads are too few"
    dense = np.arange(4 * 100, dtype=np.int64) * (HOUR_NS // 4)
    assert loads_an_hour(dense, int(dense[-1])) == pytest.approx(4.0, rel=0.02)
    assert loads_an_hour(dense, int(dense[-1]) + 30 * HOUR_NS) == 0.0, "none came for a day"
    begun = np.arange(LEAST_LOADS, dtype=np.int64) * (HOUR_NS // 60)
    assert loads_an_hour(begun, int(begun[-1])) == pytest.approx(60.0, rel=0.05)
    assert loads_an_hour(begun[:-1], int(begun[-1])) == 0.0
