# SPDX-License-Identifier: MIT
"""Classes that diverge are split by where their members are; names stay, counts are kept, noise splits nothing."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.classes import fit
from configtron.learner.columns import Contexts
from configtron.learner.evolve import FALSE_ALARM, Divergence, parted, remainders, split, split_by_wants
from configtron.learner.setting import Setting
from configtron.learner.split_test import values_of
from configtron.studies.policies.mab import Bandit
from tests.learner.test_split_test import GRID, loads
from tests.support.worlds import SITES, clients, small_classes, small_tensor

BOUND = Divergence(spread_ln=0.2, least_members=50)


def two_crowds(n: int, apart: float, slower: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Points of one class in two crowds `apart` e-folds of round trip, the farther one `slower` in ln(ms)."""
    rng = np.random.default_rng(seed)
    far = rng.random(n) < 0.4
    points = np.array([8.0, 4.0, -6.0]) + 0.05 * rng.standard_normal((n, 3))
    points[:, 1] += apart * far
    return points, 7.0 + slower * far + 0.1 * rng.standard_normal(n)


def test_a_class_is_split_where_its_members_diverge() -> None:
    points, log_ms = two_crowds(800, apart=1.0, slower=0.8)
    classes = fit(points, 1, np.random.default_rng(1))
    zeros = np.zeros(800, dtype=np.int64)
    after = split(classes, zeros, points, remainders(zeros, zeros, log_ms), BOUND, np.random.default_rng(1))
    assert after.ids == ("nc0", "nc1")
    assert abs(after.centroid[0, 1] - 4.0) < 0.1 and abs(after.centroid[1, 1] - 5.0) < 0.1
    assert after.count.sum() == 800


def test_noise_alone_splits_nothing() -> None:
    points, _ = two_crowds(800, apart=1.0, slower=0.0)
    log_ms = 7.0 + 0.5 * np.random.default_rng(2).standard_normal(800)
    classes = fit(points, 1, np.random.default_rng(1))
    zeros = np.zeros(800, dtype=np.int64)
    after = split(classes, zeros, points, remainders(zeros, zeros, log_ms), BOUND, np.random.default_rng(1))
    assert after is classes


def test_a_policy_keeps_every_load_through_a_split() -> None:
    points, log_ms = two_crowds(900, apart=1.2, slower=0.9)
    classes = fit(points, 1, np.random.default_rng(1))
    tensor = small_tensor()
    policy = Bandit(Setting(tensor.grid, SITES, classes, np.random.default_rng(1), 300, divergence=BOUND))
    contexts = Contexts(
        np.exp(points[:, 0]), np.exp(points[:, 1]), np.exp(points[:, 2]) - 0.002, np.zeros(900, dtype=np.int64), SITES
    )
    for start in range(0, 900, 300):
        here = contexts[slice(start, start + 300)]
        policy.observe_many(here, policy.choose_many(here), np.exp(log_ms[start : start + 300]))
    assert policy.class_ids_ == ("nc0", "nc1") and policy.cells.tally_.count.sum() == 900
    chosen = policy.choose_many(contexts)
    assert len(policy.cells.tally_.count) == 2 * (len(SITES) + 1) and set(chosen.network) == {0, 1}
    means = [
        policy.cells.tally_.total[rows].sum() / policy.cells.tally_.count[rows].sum()
        for rows in (slice(0, 4), slice(4, 8))
    ]
    assert abs(means[1] - means[0] - 0.9) < 0.1
    again = Bandit(Setting(tensor.grid, SITES, classes, np.random.default_rng(5), 300, divergence=BOUND))
    again.restore(policy.save())
    assert (again.choose_many(contexts).row == policy.choose_many(contexts).row).all()


def test_what_is_left_is_as_wide_as_loads_are() -> None:
    """Of pairs of loads, each is half as far from the pair's mean, squared, as from the truth."""
    y = np.random.default_rng(4).standard_normal(4000)
    pairs = np.arange(4000) // 2
    assert abs(remainders(pairs, pairs * 0, y).std() - 1.0) < 0.05
    assert np.isnan(remainders(np.array([1, 2]), np.zeros(2, dtype=np.int64), y[:2])).all()


def test_classes_are_cut_into_as_many_as_their_members_make_up() -> None:
    points = np.concatenate([two_crowds(800, apart=1.0, slower=0.0)[0], [[14.0, 2.0, -3.0]] * 30])
    classes = fit(points, 2, np.random.default_rng(1))
    network = classes.assign(points)
    after = parted(classes, network, points, 100, np.random.default_rng(1))
    sizes = np.bincount(network)
    assert (
        len(after) == 2 + sizes.max() // 100 - 1
        and after.ids[:2] == ("nc0", "nc1")
        and len(set(after.ids)) == len(after)
    )
    assert after.count.sum() == 830
    small = int(sizes.argmin())
    assert (after.centroid[small] == classes.centroid[small]).all(), "thirty members make up no second class"
    now = after.assign(points)
    assert (now[800:] == small).all()
    apart = [
        np.linalg.norm(points[:800] - c.centroid[n[:800]], axis=1).mean() for c, n in ((classes, network), (after, now))
    ]
    assert apart[1] < 0.5 * apart[0]


def test_clients_that_are_too_often_the_same_are_cut_no_further() -> None:
    """Round trips in whole ms: three points, however many members. One alone stays as it is."""
    points = np.repeat(np.array([[8.0, 4.0, -6.0], [8.0, 4.5, -6.0], [9.0, 4.0, -6.0]]), 400, axis=0)
    classes, zeros = fit(points, 1, np.random.default_rng(1)), np.zeros(1200, dtype=np.int64)
    after = parted(classes, zeros, points, 100, np.random.default_rng(1))
    assert sorted(map(tuple, after.centroid)) == sorted(set(map(tuple, points))) and after.count.sum() == 1200
    alone = parted(classes, zeros[:400], points[:400], 100, np.random.default_rng(1))
    assert len(alone) == 1 and np.isfinite(alone.centroid).all()


def test_a_class_whose_halves_want_different_configurations_is_split() -> None:
    """Their loads spread too little for the other rule. Nine of ten are split: less than 3 of 6 in one of 800 runs."""
    bound, split = Divergence(spread_ln=9.0, false_alarm=FALSE_ALARM), 0
    for seed in range(6):
        points, *rest = loads(seed, n=2000, wants=0.5)
        classes, zeros = fit(points, 1, np.random.default_rng(1)), np.zeros(len(points), dtype=np.int64)
        after = split_by_wants(classes, zeros, points, tuple(rest), values_of(GRID), bound)
        if after.ids == ("nc0", "nc1") and after.count[0] > after.count[1]:
            split += abs(after.centroid[1, 1] - after.centroid[0, 1] - 0.8) < 0.1
    assert split >= 3
    unknown = (np.full_like(rest[0], -1), *rest[1:])
    assert split_by_wants(classes, zeros, points, unknown, values_of(GRID), bound) is classes
    never = split_by_wants(classes, zeros, points, tuple(rest), values_of(GRID), Divergence(9.0, false_alarm=0.0))
    assert never is classes


@pytest.mark.parametrize("slower", [0.0, 1.0])
def test_what_wants_the_same_stays_one_class_however_slow_a_half_is(slower: float) -> None:
    points, *rest = loads(4, slower=slower)
    classes, zeros = fit(points, 1, np.random.default_rng(1)), np.zeros(len(points), dtype=np.int64)
    bound = Divergence(spread_ln=9.0, false_alarm=FALSE_ALARM)
    assert split_by_wants(classes, zeros, points, tuple(rest), values_of(GRID), bound).ids == ("nc0",)


def test_looking_and_not_splitting_changes_no_decision() -> None:
    tensor = small_tensor()
    contexts, _ = clients(tensor, 2000)
    chosen = []
    for bound in (None, Divergence(spread_ln=0.01, least_members=300, false_alarm=1e-300)):
        rng = np.random.default_rng(2)
        policy = Bandit(Setting(tensor.grid, SITES, small_classes(tensor, 2), rng, 250, divergence=bound))
        for start in range(0, 2000, 250):
            here = contexts[slice(start, start + 250)]
            chosen.append(policy.choose_many(here).configuration)
            noise = np.random.default_rng(start).standard_normal(250)
            policy.observe_many(here, policy.choose_many(here), np.exp(7.0 + 0.3 * noise))
        assert policy.cells.splits_ == 0
    assert (np.concatenate(chosen[:8]) == np.concatenate(chosen[8:])).all()
