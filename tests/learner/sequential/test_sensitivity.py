# SPDX-License-Identifier: MIT
"""What a canary can see, against simulated canaries."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.sequential.differences import GEOMETRIC, difference
from configtron.learner.sequential.sensitivity import (
    alarm_bounds,
    drift_of,
    equal_gate,
    found_at,
    sensitivity,
    unit_error,
)
from tests.support.arm_loads import arm_loads


def test_a_fixed_test_has_the_textbook_drift() -> None:
    assert drift_of([1.0], [1.959964]) == pytest.approx(1.959964 + 0.841621, abs=1e-3)


@pytest.mark.slow
def test_the_stated_effect_is_found_in_eight_of_ten_walks() -> None:
    upper = alarm_bounds(0.01)
    at = np.arange(1, 51) / 50
    drift = drift_of(list(at), upper)
    steps = np.random.default_rng(2).normal(0.0, np.sqrt(1 / 50), (20_000, 50))
    walks = (np.cumsum(steps, axis=1) + drift * at) / np.sqrt(at)
    assert (walks > upper).any(axis=1).mean() == pytest.approx(0.8, abs=0.01)
    probability, median = found_at(list(at), upper, drift)
    assert probability == pytest.approx(0.8, abs=1e-3) and 0.3 < median < 1.0


@pytest.mark.slow
def test_more_clients_see_smaller_effects() -> None:
    one = unit_error(difference(arm_loads((1, 1), 6000), GEOMETRIC))
    gate = equal_gate(5, 0.05)
    small, large = (sensitivity("mean", one, n, gate, 0.01) for n in (500.0, 2000.0))
    assert large.gate == pytest.approx(small.gate / 2) and large.alarm > large.gate
    drift = drift_of([0.2, 0.4, 0.6, 0.8, 1.0], gate)
    assert (one * drift / large.gate) ** 2 == pytest.approx(2000.0, rel=1e-3)
