# SPDX-License-Identifier: MIT
"""Group-sequential bounds: published tables, errors that are spent, a drift that is found as often as it should."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.sequential.group_sequential import bounds, crossings, spent


@pytest.mark.parametrize(
    ("looks", "published"),
    [
        # Lan and DeMets 1983, O'Brien and Fleming's shape, two-sided 5 %: as their program prints them
        (2, (2.963, 1.969)),
        (3, (3.710, 2.511, 1.993)),
        (5, (4.877, 3.357, 2.680, 2.290, 2.031)),
    ],
)
def test_bounds_are_the_published_ones(looks: int, published: tuple[float, ...]) -> None:
    found = bounds([look / looks for look in range(1, looks + 1)], 0.05, two_sided=True)
    assert found == pytest.approx(published, abs=0.0015)


# Jennison and Turnbull 2000, tables 2.1 (Pocock) and 2.3 (O'Brien and Fleming), two-sided 5 %.
@pytest.mark.parametrize(
    ("looks", "pocock", "fleming"), [(2, 2.178, 1.977), (3, 2.289, 2.004), (5, 2.413, 2.040), (10, 2.555, 2.087)]
)
def test_published_constants_are_crossed_in_one_of_twenty(looks: int, pocock: float, fleming: float) -> None:
    at = [look / looks for look in range(1, looks + 1)]
    for upper in ([pocock] * looks, [fleming / np.sqrt(share) for share in at]):
        below, above = crossings(at, [-bound for bound in upper], upper)
        assert below == pytest.approx(above)
        assert below.sum() + above.sum() == pytest.approx(0.05, abs=2e-4)


def test_power_is_the_published_one() -> None:
    """Table 2.4: five looks of this shape at 80 % need 1.028 times the fixed sample."""
    at = [look / 5 for look in range(1, 6)]
    upper = [2.040 / np.sqrt(share) for share in at]
    drift = (1.960 + 0.8416) * np.sqrt(1.028)
    assert crossings(at, [-b for b in upper], upper, drift)[1].sum() == pytest.approx(0.80, abs=0.001)


def test_uneven_looks_spend_the_whole_error() -> None:
    at = (0.07, 0.31, 0.32, 0.9, 1.0)
    upper = bounds(at, 0.025)
    assert crossings(at, [-np.inf] * 5, upper)[1].sum() == pytest.approx(0.025, abs=1e-6)
    assert spent(0.0, 0.025) == 0.0 and spent(1.0, 0.025) == pytest.approx(0.025)


def test_simulated_walks_cross_as_often_as_integrated_ones() -> None:
    at, upper = np.array((0.2, 0.5, 1.0)), np.array((2.2, 2.0, 1.8))
    steps = np.random.default_rng(5).normal(0.0, np.sqrt(np.diff(at, prepend=0.0)), (400_000, 3))
    walk = (np.cumsum(steps, axis=1) + 1.0 * at) / np.sqrt(at)
    first = np.argmax(walk >= upper, axis=1)[(walk >= upper).any(axis=1)]
    integrated = crossings(list(at), [-np.inf] * 3, list(upper), 1.0)[1]
    assert np.bincount(first, minlength=3) / 400_000 == pytest.approx(integrated, abs=0.0025)


def test_information_must_grow() -> None:
    with pytest.raises(ValueError, match="information must grow"):
        bounds((0.2, 0.2), 0.05)


# What spotify-confidence 4.1.0 prints of errors that are spent as share squared: an independent solver, whose grid is
# good for five digits.
@pytest.mark.parametrize(
    ("at", "error", "printed"),
    [
        ((0.2, 0.4, 0.6, 0.8, 1.0), 0.025, (3.090232, 2.714078, 2.472737, 2.279811, 2.113968)),
        ((0.1, 0.35, 0.4, 0.9, 1.0), 0.05, (3.290527, 2.527682, 2.565440, 1.794764, 1.800033)),
    ],
)
def test_another_solver_agrees(at: tuple[float, ...], error: float, printed: tuple[float, ...]) -> None:
    above = crossings(at, [-np.inf] * 5, printed)[1]
    assert np.cumsum(above) == pytest.approx(error * np.square(at), abs=1e-5)
