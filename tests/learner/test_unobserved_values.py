# SPDX-License-Identifier: MIT
"""What a log never shows is not served on the model's word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.policies.thompson import Thompson
from configtron.learner.searches import Tally
from configtron.learner.setting import Setting
from configtron.learner.unobserved_values import ASKED, LOADS, barred
from tests.support.worlds import clients, small_classes, small_tensor

TENSOR = small_tensor()


def test_values_without_a_load_are_barred() -> None:
    positions = TENSOR.grid.positions
    loads, asked = np.zeros(len(positions)), np.zeros(len(positions))
    never, unproven = barred(positions, loads, asked, TENSOR.grid.default)
    assert not never.any() and not unproven.any(), "nothing is known yet"
    logged = positions[:, 0] == positions[TENSOR.grid.default, 0]
    loads[logged] = LOADS
    never, unproven = barred(positions, loads, asked, TENSOR.grid.default)
    assert not never.any() and (unproven == ~logged).all()
    asked[np.flatnonzero(~logged)[0]] = ASKED
    never, unproven = barred(positions, loads, asked, TENSOR.grid.default)
    same = positions[:, 0] == positions[np.flatnonzero(~logged)[0], 0]
    assert (never == same).all() and (unproven == ~logged).all()
    assert not barred(positions, loads * 0, asked + ASKED, TENSOR.grid.default)[0][TENSOR.grid.default]


@pytest.mark.slow
def test_a_log_of_others_never_leads_to_what_it_does_not_hold() -> None:
    """Loads of half of a knob's values, the larger ones faster: the other half would be promised to be fastest."""
    one = Thompson(Setting(TENSOR.grid, TENSOR.sites, small_classes(TENSOR), np.random.default_rng(1)))
    knob = int(np.argmax(TENSOR.grid.positions.max(axis=0)))
    positions = TENSOR.grid.positions[:, knob]
    logged = np.flatnonzero(positions <= positions.max() // 2)
    assert TENSOR.grid.default in logged
    rng, served = np.random.default_rng(2), []
    for seed in range(8):
        contexts, _ = clients(TENSOR, 500, seed)
        mine = one.choose_many(contexts)
        theirs = rng.choice(logged, 500)
        ms = 1000.0 * np.exp(-0.1 * positions[theirs] + 0.2 * rng.standard_normal(500))
        one.observe_many(contexts, replace(mine, configuration=theirs), ms)
        served.append(np.isin(mine.configuration, logged).mean())
    assert isinstance(one.cells.tally_, Tally) and one.updates_ >= 4
    # a value that was not yet asked for five times may still be tried
    assert min(served[3:]) >= 0.98, served
