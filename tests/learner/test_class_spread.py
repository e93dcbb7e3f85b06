# SPDX-License-Identifier: MIT
"""Where in its class a client is, taken out of its page load times: slopes that were planted come back."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.class_spread import no_slopes
from tests.support.worlds import SITES, lived, small_classes, small_tensor


def test_planted_slopes_come_back() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([[-0.9, 0.1, 0.0], [-0.1, 0.8, 0.3]])
    network = rng.integers(2, size=4000)
    away = 0.3 * rng.standard_normal((4000, 3))
    rest = (away * truth[network]).sum(axis=1) + 0.2 * rng.standard_normal(4000)
    slopes = no_slopes(2)
    for rows in np.split(np.arange(4000), 8):
        slopes = slopes.plus(network[rows], away[rows], rest[rows])
    assert np.allclose(slopes.slopes(), truth, atol=0.08)


def test_a_class_that_saw_little_takes_the_others_word() -> None:
    rng = np.random.default_rng(1)
    away = 0.3 * rng.standard_normal((2000, 3))
    slopes = no_slopes(1).plus(np.zeros(2000, dtype=np.int64), away, away @ np.array([1.0, 0.0, 0.0])).grown(2)
    assert np.allclose(slopes.slopes()[1], [1.0, 0.0, 0.0], atol=0.1) and not no_slopes(3).slopes().any()


@pytest.mark.slow
def test_what_is_learned_is_less_noisy_for_it() -> None:
    tensor = small_tensor(conditions=60)
    made = [
        policy(name, Setting(tensor.grid, SITES, small_classes(tensor, 4), np.random.default_rng(3), 250))
        for name in ("thompson", "mab_nc")
    ]
    for one in made:
        lived(one, tensor, 4000)
    with_slopes, without = (one.cells.tally_.noise_ln(0.0) for one in made)  # type: ignore[attr-defined]
    assert with_slopes < 0.7 * without
