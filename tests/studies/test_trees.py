# SPDX-License-Identifier: MIT
"""A tree per site, over tensors whose rule is known, and over ones that have none."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.studies.tensors import choices as trees
from configtron.studies.tensors.improvement import measured
from tests.support.studies.made import tensor


def test_a_tree_learns_what_can_be_learned() -> None:
    """Loss decides: beyond 1 % one configuration, else another; the unseen condition is chosen for rightly."""
    ms = [[100, 40, 100, 100] if n % 2 else [100, 100, 100, 40] for n in range(12)]
    networks = [(1000.0 + n, 50.0 + n, 0.05 if n % 2 else 0.0) for n in range(12)]
    cells, _ = measured(tensor(ms, networks))
    by = {one.way: one for one in trees.unseen(cells, 0)}
    assert by[trees.EVERY].hits == by[trees.COVER].hits == 1 and by[trees.EVERY].regret.max() == 0
    # what is best for most of the others is the wrong one for the one left out
    assert by[trees.ONE].regret.mean() == pytest.approx(1.5) and by[trees.DEFAULT].hits == 0
    (low, high) = sorted(trees.rules(cells, 0), key=lambda rule: rule.asks)
    assert (low.asks, low.configuration, low.conditions) == ("loss <= 0.025", 3, 6)
    assert (high.asks, high.configuration) == ("loss > 0.025", 1)


def test_labels_that_nothing_explains_are_not_learned() -> None:
    """Grown on its own conditions a tree would be right everywhere; asked about others it is not."""
    rng = np.random.default_rng(5)
    ms = [[100, 90, 90, 90] for _ in range(24)]
    for n, at in enumerate(rng.integers(1, 4, size=24)):
        ms[n][at] = 50
    cells, _ = measured(tensor(ms, [(1000.0 + 7 * n, 50.0 + n, 0.01) for n in range(24)]))
    assert trees.unseen(cells, 0)[0].hits < 0.7


def test_a_cover_is_small() -> None:
    ms = np.array([[100, 50, 51, 90], [100, 52, 51, 90], [100, 90, 60, 60]], dtype=float)
    assert trees.covered(ms).tolist() == [2, 2, 2] and trees.labels(ms).tolist() == [1, 2, 2]
    # two are needed; where both are near, it is the one that is near more often
    ms = np.array([[50, 51, 90], [90, 51, 50], [90, 52, 50], [50, 90, 90]], dtype=float)
    assert trees.covered(ms).tolist() == [1, 1, 1, 0]


def test_a_rule_says_each_bound_once() -> None:
    """Between 1.5 and 4.5 Mbit/s one configuration, outside another: the middle has two bounds."""
    ms = [[100, 40, 100, 100] if 1.5 < n < 4.5 else [100, 100, 100, 40] for n in range(7)]
    cells, _ = measured(tensor(ms, [(1000.0 * n + 1, 50.0, 0.0) for n in range(7)]))
    asks = {rule.asks: rule.configuration for rule in trees.rules(cells, 0)}
    assert asks == {"bandwidth_kbps <= 1501": 3, "1501 < bandwidth_kbps <= 4501": 1, "bandwidth_kbps > 4501": 3}
