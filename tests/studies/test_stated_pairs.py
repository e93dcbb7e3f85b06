# SPDX-License-Identifier: MIT
"""Kendall's tau of stated pairs: scipy's where they are a whole order, an interval over paths, a verdict."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from configtron.studies.flows.flows import FlowOutcome, TrialOutcome
from configtron.studies.flows.ranking import Entry, delays, facts
from configtron.studies.flows.stated_pairs import PUBLISHED, StatedPair, agreement_fact, interval, tau
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN

AS_STATED = {"copa": 30.0, "vivace": 40.0, "verus": 50.0, "bbr": 60.0, "cubic": 80.0, "allegro": 90.0}


@pytest.mark.parametrize("seed", range(5))
def test_over_a_whole_order_it_is_scipys(seed: int) -> None:
    names = "abcdefg"
    found = dict(zip(names, np.random.default_rng(seed).permutation([10.0, 20, 30, 40, 50, 60, 70]), strict=True))
    pairs = [StatedPair(less, more, "") for less, more in combinations(names, 2)]
    expected = kendalltau(range(len(names)), list(found.values())).statistic
    assert tau(pairs, found) == pytest.approx(expected)


def test_ties_count_half_and_absent_pairs_not_at_all() -> None:
    pairs = [StatedPair("a", "b", ""), StatedPair("b", "c", ""), StatedPair("c", "d", "")]
    assert tau(pairs, {"a": 10.0, "b": 10.05, "c": 20.0}) == 0.5
    assert tau(pairs, {"a": 10.0, "d": 20.0}) is None


def test_the_interval_is_of_the_mean_over_paths() -> None:
    assert interval([0.5] * 6) == (0.5, 0.5)
    values = np.random.default_rng(3).normal(0.3, 0.2, 40)
    low, high = interval(values.tolist())
    spread = 1.96 * values.std() / 40**0.5
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.015)


def test_the_verdict_follows_the_interval() -> None:
    other = {scheme: 100.0 - delay for scheme, delay in AS_STATED.items()}
    assert agreement_fact({f"path {number}": AS_STATED for number in range(8)}).verdict == HOLDS
    assert agreement_fact({f"path {number}": other for number in range(8)}).verdict == ABSENT
    mixed = {f"path {number}": AS_STATED if number < 3 else other for number in range(5)}
    fact = agreement_fact(mixed)
    assert (
        fact.verdict == PARTLY
        and fact.ours.startswith("Kendall's tau 0.20 [")
        and "copa below cubic 3 of 5" in fact.words
    )


def test_the_study_compares_the_delays_of_its_single_flows() -> None:
    def trial(scheme: str, late_ms: float) -> TrialOutcome:
        return TrialOutcome((FlowOutcome(5.0, late_ms, 0.0, 10**6, 1000, scheme=scheme),))

    rows = [("copa", 1, 31.0, 33.0), ("cubic", 1, 60.0, 62.0), ("cubic", 3, 1.0, 1.0)]
    entries = [
        Entry(path, scheme, count, (trial(scheme, first), trial(scheme, second)))
        for path in ("pantheon:15", "pantheon:16")
        for scheme, count, first, second in rows
    ]
    assert delays(entries, 1)["pantheon:15"] == {"copa": 32.0, "cubic": 61.0}
    stated = facts(entries)[-1]
    assert stated.verdict == HOLDS and stated.ours == "Kendall's tau 1.00 [1.00, 1.00]"


def test_without_a_stated_pair_nothing_is_claimed() -> None:
    assert agreement_fact({"path": {"reno": 10.0, "cubic": 20.0}}).verdict == UNKNOWN
    assert all(pair.source for pair in PUBLISHED)
