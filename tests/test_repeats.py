# SPDX-License-Identifier: MIT
"""When a median is known: intervals that hold what they promise, however often one has looked before stopping."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.repeats import FEW, WIDE, StoppingRule, judge, misses, ranks


def test_error_is_spent_once_over_all_looks() -> None:
    """By hand: 2/2^6, 2(1+12)/2^12, 2(1+24+276+2024+10626+42504)/2^24."""
    assert ranks((6, 12, 24), 0.05) == (1, 2, 6)
    chances = [misses(6, 1), misses(12, 2), misses(24, 6)]
    assert chances == [2 / 64, 26 / 4096, 2 * 55455 / 2**24]
    assert sum(chances) <= 0.05 < sum(chances) + misses(24, 7) - misses(24, 6)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5, unique=True))
def test_no_rule_promises_more_than_its_error(looks: list[int]) -> None:
    looks.sort()
    found = ranks(tuple(looks), 0.05)
    assert sum(misses(look, rank) for look, rank in zip(looks, found, strict=True) if rank) <= 0.05
    assert all(2 * rank <= look for look, rank in zip(looks, found, strict=True))


def test_five_loads_have_no_interval() -> None:
    """The papers' five repeats: what a median of five is called is never "settled", however alike they are."""
    for count in range(1, 6):
        found = judge([100.0] * count, StoppingRule((count,)))
        assert (found.median_ms, found.low_ms, found.high_ms, found.flag) == (100.0, None, None, FEW)
    assert judge([100.0] * 6, StoppingRule((6,))).settled


def test_stops_at_the_first_look_that_settles() -> None:
    rule = StoppingRule()
    assert rule.more([]) == 6 and rule.more([100.0] * 5) == 1
    assert rule.more([95.0, 96, 100, 100, 104, 105]) == 0
    wild = [50.0, 60, 100, 100, 140, 150]
    assert rule.more(wild) == 6 and rule.more(wild * 2) == 12 and rule.more(wild * 4) == 0
    assert judge(wild * 4, rule).flag == WIDE


def test_interval_is_of_the_look_before() -> None:
    """Between two looks the ranks of the earlier one hold: by hand, of eight loads the fastest and the slowest."""
    found = judge([8.0, 1, 2, 3, 4, 5, 6, 7], StoppingRule())
    assert (found.median_ms, found.low_ms, found.high_ms) == (4.5, 1.0, 8.0)
    assert judge([float(n) for n in range(1, 13)], StoppingRule())[:3] == (6.5, 2.0, 11.0)


def test_failed_loads_are_slower_than_all_others() -> None:
    some = [100.0] * 5 + [math.inf]
    found = judge(some, StoppingRule(), ["timeout"])
    assert (found.median_ms, found.high_ms, found.flag) == (100.0, None, WIDE)
    lost = judge([100.0] * 2 + [math.inf] * 4, StoppingRule(), ["timeout", "closed", "timeout", "timeout"])
    assert (lost.median_ms, lost.flag) == (None, "timeout")
    even = judge([100.0] * 3 + [math.inf] * 3, StoppingRule(), ["closed"] * 3)
    assert even.median_ms is None
    assert judge([], StoppingRule()).flag == FEW


@pytest.mark.parametrize("looks", [(), (0,), (6, 6), (12, 6)])
def test_looks_must_rise(looks: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="looks"):
        StoppingRule(looks)


@pytest.mark.parametrize("spread", [0.02, 0.08, 0.3])
def test_stopping_early_keeps_the_promise(spread: float) -> None:
    """4000 cells of two-humped loads whose median is known: those whose interval misses it are at most a twentieth.

    Planted: with the ranks that each look could use alone (1, 3, 7) and spread 0.08 it is more than that.
    """
    rng, rule, wrong = random.Random(1), StoppingRule(), 0
    for _ in range(4000):
        seen: list[float] = []
        while more := rule.more(seen):
            seen += [math.exp(rng.choice((-1, 1)) * spread + rng.gauss(0, spread / 2)) for _ in range(more)]
        low, high = judge(seen, rule)[1:3]
        assert low is not None and high is not None
        wrong += not low <= 1.0 <= high
    assert wrong / 4000 <= 0.05
