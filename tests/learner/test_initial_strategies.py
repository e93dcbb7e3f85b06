# SPDX-License-Identifier: MIT
"""Strategies of an initial window: windows by prediction, arms by the kernel's draw, chances that are known."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.initial.initial_strategies import (
    FIXED,
    MOST_INITIAL,
    NULL,
    STRATEGIES,
    classes_of,
    effective,
    windows_of,
)
from configtron.learner.initial.quantisation import MAX_CWND
from configtron.learner.initial.rounded_mean import HIGH, LIKELIEST, LOW, NEAREST, bin_of
from configtron.model.draw import Key, Plan, draws, propensity
from configtron.model.errors import BadInput

BINS = len(MAX_CWND.values)


def between(low: int, share: float) -> list[float]:
    """A distribution over two neighbouring bins."""
    found = [0.0] * BINS
    found[low], found[low + 1] = 1.0 - share, share
    return found


def test_the_mean_is_rounded_low_high_and_to_the_nearest() -> None:
    shares = np.array([between(4, 0.3), between(4, 0.7), between(4, 0.5), between(4, 0.0)])
    assert bin_of(shares, LOW).tolist() == [4, 4, 4, 4]
    assert bin_of(shares, HIGH).tolist() == [5, 5, 5, 4]
    assert bin_of(shares, NEAREST).tolist() == [4, 5, 5, 4]
    assert bin_of(shares, LIKELIEST).tolist() == [4, 5, 4, 4]


def test_windows_are_in_the_order_of_strategies_and_bounded() -> None:
    last = [0.0] * (BINS - 1) + [1.0]
    windows = windows_of(np.array([between(5, 0.4), last]))
    assert dict(zip(STRATEGIES, windows[0].tolist(), strict=True)) == {
        "null": 0, "fixed": 50, "pred-low": round(MAX_CWND.values[5]), "pred-high": round(MAX_CWND.values[6]),
        "pred-round": round(MAX_CWND.values[5]),
    }  # fmt: skip
    assert windows[1].tolist() == [0, 50, MOST_INITIAL, MOST_INITIAL, MOST_INITIAL]
    assert effective(windows)[0, 0] == 10


def test_prefixes_of_equal_windows_share_a_class() -> None:
    classes = classes_of(["a", "b", "c"], np.array([between(5, 0.4), between(5, 0.4), between(9, 0.1)]))
    assert classes["a"] == classes["b"] != classes["c"] and classes["a"].name != classes["c"].name
    profiles = classes["a"].profiles
    assert dict(profiles[STRATEGIES.index(FIXED)].settings) == {"initcwnd": 50}
    assert profiles[STRATEGIES.index(NULL)].settings == ()
    assert len({profile.name for profile in profiles}) == len(STRATEGIES)


def test_the_kernels_draw_gives_each_strategy_its_share() -> None:
    mix = classes_of(["a"], np.array([between(5, 0.4)]))["a"].mix((4.0, 1.0, 1.0, 1.0, 1.0))
    plan = Plan(Key(11, 12), epoch=5, not_after=1)
    arms, chances = draws(plan, mix, np.arange(20_000, dtype=np.uint64))
    counted = np.bincount(arms, minlength=5) / len(arms)
    assert counted == pytest.approx([0.5, 0.125, 0.125, 0.125, 0.125], abs=0.015)
    for arm in range(5):
        assert set(chances[arms == arm].tolist()) == {propensity(plan, mix, arm)}


def test_a_strategy_without_a_share_is_refused() -> None:
    """An arm that were left out would move the places of those after it."""
    one = classes_of(["a"], np.array([between(5, 0.4)]))["a"]
    with pytest.raises(BadInput, match="each strategy"):
        one.mix((1.0, 0.0, 1.0, 1.0, 1.0))
    with pytest.raises(BadInput):
        one.mix((1.0, 1e-9, 1.0, 1.0, 1.0))
