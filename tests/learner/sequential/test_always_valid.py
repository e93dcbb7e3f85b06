# SPDX-License-Identifier: MIT
"""Confidence sequences: the published formula, where they are narrowest, and how often they are ever wrong."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest

from configtron.learner.sequential.always_valid import width


def test_the_width_is_the_published_formula() -> None:
    """Waudby-Smith et al. 2024, equation 5, by hand: sqrt(22 / 25 000 x ln(66.33))."""
    rho2, t, error = 0.004, 2500.0, 0.05
    tuned = (-2.0 * log(error) + log(-2.0 * log(error) + 1.0)) / rho2
    by_hand = sqrt(2.0 * (t * rho2 + 1.0) / (t**2 * rho2) * log(sqrt(t * rho2 + 1.0) / error))
    assert by_hand == pytest.approx(sqrt(22.0 / 25_000.0 * 4.19467), abs=1e-6)
    assert width(1.0 / t, t, error, tuned) == pytest.approx(by_hand)


def test_it_is_narrowest_near_what_it_is_tuned_at() -> None:
    widths = {tuned: width(1e-3, 1000.0, 0.05, tuned) for tuned in (10.0, 100.0, 1000.0, 10_000.0, 100_000.0)}
    assert min(widths, key=lambda tuned: widths[tuned]) == 1000.0
    assert width(1e-3, 1000.0, 0.05, 1000.0, one_sided=True) < widths[1000.0]
    assert width(1e-3, 0.0, 0.05, 1000.0) == inf


@pytest.mark.slow
@pytest.mark.parametrize("one_sided", [False, True])
def test_a_walk_without_drift_seldom_leaves_it(one_sided: bool) -> None:
    """2 000 walks of 5 000 steps, each of them read: 5 % at most, where 1.96 is wrong in most."""
    walks = np.cumsum(np.random.default_rng(11).standard_normal((2000, 5000), dtype=np.float32), axis=1)
    n = np.arange(1, 5001)
    ends = np.array([width(1.0 / k, float(k), 0.05, 1000.0, one_sided=one_sided) * k for k in n])
    ends[:50] = np.inf
    wrong = ((walks if one_sided else np.abs(walks)) > ends).any(axis=1).mean()
    assert 0.005 < wrong <= 0.05
    assert (np.abs(walks) > 1.96 * np.sqrt(n))[:, 50:].any(axis=1).mean() > 0.4
