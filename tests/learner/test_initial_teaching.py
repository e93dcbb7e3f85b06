# SPDX-License-Identifier: MIT
"""A model's own choices do not feed it: chosen windows teach as bounds, untouched ones count by their chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from configtron.learner.initial.censored_hierarchy import WindowModel, one_client
from configtron.learner.initial.censored_windows import completed, limits_of
from configtron.learner.initial.end_states import EndStates, joined, of_rows
from configtron.learner.initial.naive_bayes import inputs_of, learned_from
from configtron.learner.initial.quantisation import MAX_CWND, target_bins
from configtron.learner.initial.teaching import weights_of

PATH, NOISE = 30.0, 0.3


def rounds(chosen: float, seed: int, own: int = 150, tuned: int = 600) -> EndStates:
    """Connections of 20 prefixes whose paths hold about 30 segments: few untouched, most began with `chosen`.

    A chosen window is the largest of its connection whatever the path holds: beyond that, segments are lost.
    """
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for at in range(own + tuned):
        path = PATH * float(np.exp(NOISE * rng.standard_normal()))
        row: dict[str, Any] = {"prefix": f"10.1.{at % 20}.0/24", "at_s": 1.7e9 + 999.0 * at, "min_rtt_ms": 50.0,
                               "packets_out": 200.0}  # fmt: skip
        if at < own:
            rows.append(row | {"max_cwnd": path, "loss": 0.02})
        else:
            lost = path < chosen
            rows.append(row | {"max_cwnd": chosen, "loss": 0.2 if lost else 0.0, "bound": not lost,
                               "strategy": "pred-high", "propensity": 0.8})  # fmt: skip
    return of_rows(rows)


def median(states: EndStates) -> float:
    """Return the middle of all prefixes' medians: their paths are alike."""
    asked = joined([one_client(f"10.1.{at}.0/24", 1.7e9 + 3600.0 * at) for at in range(20)])
    return float(np.median(WindowModel(states, overshoot=1.0).quantiles(asked)[:, 1]))


@pytest.mark.parametrize("chosen", [8.0, 30.0, 100.0])
def test_chosen_windows_show_the_path_and_not_themselves(chosen: float) -> None:
    states = rounds(chosen, 1)
    assert median(states) == pytest.approx(PATH, rel=0.12)
    # taken for untouched, they feed the model: what was chosen becomes what is predicted
    if chosen == 100.0:
        fed = EndStates(*(getattr(states, name) if name != "strategy" else np.full(len(states), "")
                          for name in EndStates.__slots__))  # fmt: skip
        assert median(fed) > 1.5 * PATH


def test_windows_that_went_well_are_not_all_that_is_heard() -> None:
    """Without those that lost, windows chosen near the path would raise it."""
    states = rounds(33.0, 2, own=40)
    well = states[~((states.strategy != "") & (states.loss > 0))]
    assert median(states) == pytest.approx(PATH, rel=0.12) and median(well) > 1.1 * median(states)


def test_limits_are_by_who_chose_and_how_it_ended() -> None:
    rows = [
        {"max_cwnd": 40.0, "loss": 0.1},
        {"max_cwnd": 40.0, "bound": True},
        {"max_cwnd": 40.0, "strategy": "fixed", "packets_out": 25.0, "loss": 0.0},
        {"max_cwnd": 40.0, "strategy": "fixed", "packets_out": 90.0, "loss": 0.1},
        {"max_cwnd": 40.0, "strategy": "fixed", "packets_out": 90.0, "loss": 0.1, "bound": True},
        {"bound": True},
        {"max_cwnd": 40.0, "strategy": "null", "loss": 0.1},
        {"max_cwnd": 40.0, "strategy": "other", "packets_out": 90.0, "loss": 0.1, "resumed": "validated"},
        {"max_cwnd": 40.0, "strategy": "other", "packets_out": 90.0, "loss": 0.0, "resumed": "validated"},
        # three of 60 segments lost by a window that never reached twice the initial one: seven got through
        {"max_cwnd": 14.0, "packets_out": 60.0, "loss": 0.05},
    ]
    low, high, which = limits_of(of_rows(rows), overshoot=2.0)
    assert which.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert np.exp(low).tolist() == pytest.approx([40.0, 20.0, 25.0, 0.0, 40.0, 40.0, 40.0, 7.0])
    assert np.exp(high).tolist() == pytest.approx([40.0, np.inf, np.inf, 40.0, 40.0, 40.0, np.inf, 28.0])


def test_a_cut_normal_distribution_has_the_mean_and_variance_of_its_draws() -> None:
    rng = np.random.default_rng(3)
    draws = 1.0 + 0.5 * rng.standard_normal(400_000)
    ends = [(-np.inf, 0.7), (1.3, np.inf), (0.2, 0.9), (1.8, 2.2), (-1.0, -0.4)]
    limits = limits_of(of_rows([]))._replace(low=np.array([one[0] for one in ends]),
                                             high=np.array([one[1] for one in ends]))  # fmt: skip
    values, spare = completed(limits, np.ones(len(ends)), 0.25)
    for (low, high), value, rest in zip(ends, values, spare, strict=True):
        some = draws[(draws > low) & (draws < high)]
        assert value == pytest.approx(some.mean(), abs=0.01) and rest == pytest.approx(some.var(), abs=0.01)
    # far out it is the nearer end
    far = limits._replace(low=np.array([90.0, -np.inf]), high=np.array([91.0, -90.0]))
    values, spare = completed(far, np.ones(2), 0.25)
    assert values == pytest.approx([90.0, -90.0], abs=0.05) and (spare >= 0).all() and (spare < 0.01).all()


def skewed(seed: int) -> EndStates:
    """Two prefixes with as many clients; where a model is sure of itself (windows of 20) Null has a twentieth."""
    rng = np.random.default_rng(seed)
    rows = []
    for at in range(4000):
        sure = at % 2 == 0
        chance = 0.05 if sure else 1.0
        if rng.random() < chance:
            rows.append({"prefix": f"10.1.{int(sure)}.0/24", "at_s": 1.7e9, "max_cwnd": 20.0 if sure else 200.0,
                         "packets_out": 300.0, "strategy": "null", "propensity": chance})  # fmt: skip
    return of_rows(rows)


def test_untouched_connections_count_by_their_chance() -> None:
    """Half of the clients have windows of 20; of those that stayed untouched a twentieth has."""
    states = skewed(1)
    states = states[states.teaches]
    bins, asked = target_bins(states, MAX_CWND.name), inputs_of(one_client("203.0.113.0/24", 1.7e9))
    mine = int(MAX_CWND.bins(np.array([20.0]))[0])
    weighed, plain = (
        learned_from(states, bins, len(MAX_CWND.values), weights).predict(asked)[0, mine]
        for weights in (weights_of(states), None)
    )
    assert weighed == pytest.approx(0.5, abs=0.1) and plain < 0.1


def test_own_choices_do_not_teach_classifiers() -> None:
    states = rounds(100.0, 1)
    taught = states[states.teaches]
    assert len(taught) == 150 and set(taught.strategy.tolist()) == {""}
