# SPDX-License-Identifier: MIT
"""Change points: found where planted, spikes passed over, and how long noticing took."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.changepoint import Change, Detector, changes, no_runs
from configtron.learner.columns import Floats
from configtron.learner.state import decode, encode


def trace(seed: int, spikes: float = 0.01) -> tuple[Floats, list[int]]:
    """Round trips: levels that last 60 to 200 samples, 8 % of noise, some lone spikes of up to tenfold."""
    rng = np.random.default_rng(seed)
    level, parts, truth, at = np.log(60.0), [], [], 0
    for _ in range(5):
        n = int(rng.integers(60, 200))
        parts.append(level + 0.08 * rng.standard_normal(n))
        at += n
        truth.append(at)
        level += float(rng.choice([-1, 1]) * rng.uniform(0.3, 1.0))
    values = np.concatenate(parts)
    values[rng.random(len(values)) < spikes] += rng.uniform(1.0, 2.3)
    return np.exp(values), truth[:-1]


def f1(found: list[Change], truth: list[int]) -> float:
    """Return F1 of the changes' beginnings against the known ones, each matched once within five samples."""
    left = list(truth)
    hits = 0
    for change in found:
        near = [at for at in left if abs(at - change.since) <= 5]
        if near:
            left.remove(min(near, key=lambda at: abs(at - change.since)))
            hits += 1
    return 2 * hits / max(len(found) + len(truth), 1)


def test_planted_changes_are_found() -> None:
    scores = [f1(changes(values), truth) for values, truth in map(trace, range(8))]
    assert np.mean(scores) >= 0.8


def test_a_steady_client_seldom_changes_for_its_spikes() -> None:
    """Of a hundred spikes, a fifth is taken for a change; a third in one of a thousand runs."""
    found = 0
    for seed in range(10):
        values = np.exp(4.0 + 0.08 * np.random.default_rng(seed).standard_normal(400))
        values[::40] *= 8.0
        found += len(changes(values))
    assert found < 34


def test_noticing_takes_a_few_samples() -> None:
    values = np.concatenate((np.full(80, 50.0), np.full(80, 120.0))) * np.exp(
        0.05 * np.random.default_rng(1).standard_normal(160)
    )
    (change,) = changes(values)
    assert abs(change.since - 80) <= 2 and 2 <= change.latency <= 8
    assert Change(12, 10).latency == 2


@pytest.mark.slow
def test_the_median_earns_its_place() -> None:
    data = [trace(seed, spikes=0.04) for seed in range(4)]
    with_median = np.mean([f1(changes(values), truth) for values, truth in data])
    without = Detector(median_of=1)
    assert with_median > np.mean([f1(changes(values, without), truth) for values, truth in data])


@pytest.mark.slow
def test_a_steady_client_changes_more_rarely_for_being_sure() -> None:
    """9 000 samples of 30 clients whose networks never change, noisy by 25 %: what is not sure is not reported."""
    clients = [np.exp(4.0 + 0.25 * np.random.default_rng(seed).standard_normal(300)) for seed in range(30)]
    false, unsure = (
        sum(len(changes(values, detector)) for values in clients) for detector in (Detector(), Detector(sure=0.0))
    )
    assert false <= 160 and false < 0.75 * unsure


def test_runs_are_saved_exactly() -> None:
    values, _ = trace(1)
    runs = no_runs()
    for value in values[:100]:
        runs, _ = Detector().step(runs, float(value))
    back = decode(encode({"runs": runs}))["runs"]
    assert all(
        np.array_equal(getattr(back, name), getattr(runs, name)) for name in ("log_probability", "mean", "square")
    )
    assert Detector().step(back, 70.0)[1] == Detector().step(runs, 70.0)[1]


def test_a_sample_of_nothing_is_a_sample() -> None:
    assert changes(np.zeros(50)) == []
