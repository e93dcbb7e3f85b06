# SPDX-License-Identifier: MIT
"""Exact hits of predicted end states in a world whose truth is drawn, beside a constant and silence."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.initial.back_propagation import BackPropagation
from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.learner.initial.hit_ratios import (
    BAYES,
    CONSTANT,
    NETWORK,
    SILENCE,
    HitRatio,
    hit_ratios,
    judged,
    parted,
    ratio_of,
)  # fmt: skip
from configtron.learner.initial.quantisation import MAX_CWND, UNKNOWN
from configtron.model.errors import BadInput

# Windows in the middle of bins; half of the prefixes has each.
WINDOWS = (23.0, 140.0)


def drawn_world(count: int, seed: int, informative: bool = True) -> EndStates:
    """Connections of 8 prefixes; 85 % end at their prefix's window, the others at Linux's default. Truth is drawn."""
    rng = np.random.default_rng(seed)
    rows = []
    for at in range(count):
        prefix = int(rng.integers(8))
        which = prefix % 2 if informative else int(rng.integers(2))
        window = WINDOWS[which] if rng.random() < 0.85 else 10.0
        rows.append({
            "at_s": 1.7e9 + 60.0 * at, "prefix": f"10.{prefix}.0.0/24", "min_rtt_ms": 40.0, "max_cwnd": window,
            "packets_in": 30.0, "packets_out": 100.0,
        })  # fmt: skip
    return of_rows(rows)


def rows_of(states: EndStates) -> list[HitRatio]:
    earlier, later = parted(states)
    return hit_ratios(earlier, later, MAX_CWND.name, seed=1)


def test_models_find_what_prefixes_have() -> None:
    rows = rows_of(drawn_world(1200, 1))
    silence, fixed = (ratio_of(rows, "max_cwnd", one).hits for one in (SILENCE, CONSTANT))
    bayes, network = (ratio_of(rows, "max_cwnd", one) for one in (BAYES, NETWORK))
    assert 0.10 < silence < 0.20 and 0.36 < fixed < 0.50
    assert bayes.low > 0.75 and network.low > 0.75 and bayes.low <= bayes.hits <= bayes.high
    # no model may hit more often than the world's own chance permits
    assert bayes.low < 0.85 and network.low < 0.85


def test_models_gain_nothing_where_there_is_nothing_to_find() -> None:
    rows = rows_of(drawn_world(1200, 2, informative=False))
    fixed, bayes, network = (ratio_of(rows, "max_cwnd", one) for one in (CONSTANT, BAYES, NETWORK))
    assert bayes.low <= fixed.high and network.low <= fixed.high


def test_errors_are_of_predicted_less_true_bins() -> None:
    row = judged("x", "m", "", np.array([3, 5, UNKNOWN]), np.array([3, 4, 4]))
    assert (row.judged, row.hits, row.mean_error, row.variance) == (3, 1 / 3, 0.5, 0.25)


def test_too_little_is_refused() -> None:
    short = drawn_world(50, 4)
    with pytest.raises(BadInput, match="too few"):
        parted(short[short.packets_out < 0])
    with pytest.raises(BadInput, match="known of no connection"):
        unknown = of_rows([{"at_s": 1.7e9 + at, "prefix": "10.0.0.0/24", "packets_out": 50.0} for at in range(20)])
        rows_of(unknown)


def test_a_network_that_saw_one_bin_predicts_it() -> None:
    states = drawn_world(40, 5)
    found = BackPropagation(states, np.full(40, 3), 20, seed=1).predict(states[:4])
    assert found[:, 3].tolist() == [1.0] * 4 and found.sum() == 4.0
    with pytest.raises(BadInput, match="no connection"):
        BackPropagation(states, np.full(40, UNKNOWN), 20, seed=1)
