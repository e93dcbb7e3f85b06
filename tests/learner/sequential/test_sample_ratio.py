# SPDX-License-Identifier: MIT
"""Sample ratio: published chi-squares, arms that lose loads, p-values that hold at every look."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.sequential.sample_ratio import ERROR, at_all_times, by_strata


def test_chi_square_is_the_published_one() -> None:
    # the 95 % quantile of chi-square with one degree of freedom: 3.841
    off = np.sqrt(3.841 * 2500.0)
    assert by_strata([((5000 + off, 5000 - off), (1, 1))])[0] == pytest.approx(0.05, abs=2e-4)  # type: ignore[list-item]
    assert by_strata([((821_588, 815_482), (0.5, 0.5))])[0] < 1e-5  # Kohavi, Tang and Xu 2020, chapter 21
    assert by_strata([((0, 0), (1, 1))]) == (1.0, 0)


@pytest.mark.slow
def test_it_holds_at_every_look() -> None:
    rng, weights = np.random.default_rng(3), (0.05, 0.05, 0.9)
    ever, once = 0, 0
    for _ in range(300):
        counts = np.cumsum(rng.multinomial(50, weights, 100), axis=0)
        ever += min(at_all_times(row.tolist(), weights) for row in counts) < 0.05
        once += min(by_strata([(row.tolist(), weights)])[0] for row in counts) < 0.05
    assert ever <= 0.05 * 300
    assert once > 0.15 * 300


def test_a_lost_tenth_is_found_at_all_times() -> None:
    counts = np.cumsum(np.random.default_rng(4).multinomial(50, (0.5 / 0.95, 0.45 / 0.95), 400), axis=0)
    found = [at_all_times(row.tolist(), (1, 1)) < ERROR for row in counts]
    assert found[-1] and not found[0]
    assert at_all_times((3, 1), (1, 0)) == 0.0
