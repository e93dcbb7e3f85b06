# SPDX-License-Identifier: MIT
"""Expected loads of logged sessions: near the truth for sessions not fitted to, finite whatever is unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from configtron.learner.columns import Contexts
from configtron.learner.loads import Loads
from tests.support.worlds import clients, small_tensor

TENSOR = small_tensor()


def fitted(n: int = 4000) -> Loads:
    contexts, condition = clients(TENSOR, n, seed=1)
    rng = np.random.default_rng(2)
    configuration = rng.integers(len(TENSOR.grid), size=n)
    ms = TENSOR.lookup(condition, configuration, contexts.site) * np.exp(0.1 * rng.standard_normal(n))
    return Loads(TENSOR.grid, contexts, configuration, ms)


def test_sessions_not_fitted_to_load_as_expected() -> None:
    contexts, condition = clients(TENSOR, 1000, seed=3)
    every = np.arange(len(TENSOR.grid))
    true = np.log(TENSOR.median_ms[condition, :, contexts.site].astype(np.float64))
    off = np.log(fitted().ms(contexts, every)) - true
    # Levels of these sessions differ by most of an e-fold; half of the rest is that features are off by 8 %.
    assert true.std() > 0.8 and off.std() < 0.25
    # What a configuration gains over Default is distinguished from the level.
    default = TENSOR.grid.default
    gain, found = true - true[:, [default]], off + true - (off + true)[:, [default]]
    assert np.corrcoef(gain.ravel(), found.ravel())[0, 1] > 0.9


def test_one_configuration_a_session_is_a_row_of_all() -> None:
    contexts, _ = clients(TENSOR, 50, seed=3)
    loads, configuration = fitted(1000), np.arange(50)
    table = loads.ms(contexts, np.arange(len(TENSOR.grid)))
    assert np.allclose(loads.chosen_ms(contexts, configuration), table[np.arange(50), configuration])


def test_nothing_is_expected_beyond_what_was_seen() -> None:
    contexts, _ = clients(TENSOR, 3, seed=3)
    strange = Contexts(np.array([1e-3, 1e9, np.nan]), np.array([1e6, 0.0, np.nan]), np.array([0.9, 0.0, np.nan]),
                       np.array([0, -1, 1]), contexts.sites)  # fmt: skip
    loads = fitted(300)
    low, high = np.exp(loads.seen_ln[0]), np.exp(loads.seen_ln[1])
    ms = loads.ms(strange, np.arange(len(TENSOR.grid)))
    assert np.isfinite(ms).all() and ms.min() >= 0.99 * low and ms.max() <= 1.01 * high


def test_a_log_of_one_session_and_sites_without_number_is_no_trouble() -> None:
    contexts, _ = clients(TENSOR, 200, seed=3)
    sites = tuple(f"s{at}" for at in range(100))
    many = replace(contexts, site=np.arange(200) % 100, sites=sites)
    zeros = np.zeros(200, dtype=np.int64)
    assert len(Loads(TENSOR.grid, many, zeros, np.full(200, 5.0)).sites) == 20
    one = Loads(TENSOR.grid, contexts[slice(0, 1)], zeros[:1], np.array([70.0]))
    assert np.allclose(one.ms(contexts, zeros[:1]), 70.0)


def test_no_sessions_have_no_expectation() -> None:
    contexts, _ = clients(TENSOR, 3, seed=3)
    none = np.zeros(0, dtype=np.int64)
    loads = fitted(300)
    assert loads.ms(contexts[none], np.arange(len(TENSOR.grid))).shape == (0, len(TENSOR.grid))
    assert loads.chosen_ms(contexts[none], none).shape == (0,)
    every = np.arange(len(TENSOR.grid))
    both, one = loads.ms(contexts[:2], every), loads.ms(contexts[1:2], every)
    assert np.allclose(both[1:], one) and (both > 0).all(), (
        "a load's time is its own, whichever loads are asked about beside it"
    )
