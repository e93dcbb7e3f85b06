# SPDX-License-Identifier: MIT
"""Windows of paths from bounds: planted levels come back, intervals cover, clients never seen have wider ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.initial.censored_hierarchy import QUANTILES, WindowModel, coverage, one_client, pinball
from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.learner.state import decode, encode
from configtron.model.errors import BadInput
from tests.support.window_worlds import world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_intervals_cover_what_lower_bounds_hide(seed: int) -> None:
    states, true = world(3000, seed)
    assert 0.4 < states.bound.mean() < 0.9
    learned, asked = states[:2000], states[2000:]
    with_bounds, without = (WindowModel(learned, censored=one, overshoot=1.0).quantiles(asked) for one in (True, False))
    constant = np.tile(np.quantile(learned.max_cwnd, QUANTILES), (1000, 1))
    found = [pinball(np.log(one), np.log(true[2000:])) for one in (with_bounds, without, constant)]
    # 80 % intervals, 1000 connections of 96 prefixes
    assert 0.72 <= coverage(with_bounds, true[2000:]) <= 0.88
    assert coverage(without, true[2000:]) < 0.7
    assert found[0] < 0.5 * found[1] and found[0] < 0.5 * found[2]


def test_a_prefix_never_seen_has_its_networks_window_and_a_wider_interval() -> None:
    states, _ = world(3000, 5)
    model = WindowModel(states, overshoot=1.0)
    asked = of_rows([{"prefix": one, "at_s": 1.7e9} for one in ("10.3.2.0/24", "10.3.200.0/24", "10.99.0.0/24")])
    low, middle, high = model.quantiles(asked).T
    widths = np.log(high / low)
    assert widths[0] < widths[1] < widths[2]
    network = [f"10.3.{at}.0/24" for at in range(8)]
    own = model.quantiles(of_rows([{"prefix": one, "at_s": 1.7e9} for one in network]))[:, 1]
    assert abs(np.log(middle[1]) - np.log(own).mean()) < 0.25


def test_known_windows_alone_are_their_means() -> None:
    """Without bounds and with many connections a prefix's median is that of its windows."""
    rows = [{"prefix": f"10.{at % 2}.0.0/24", "at_s": 1.7e9, "max_cwnd": (20.0, 80.0)[at % 2] * (1.1, 0.9)[at // 2 % 2]}
            for at in range(400)]  # fmt: skip
    model = WindowModel(of_rows(rows), overshoot=1.0)
    median = model.quantiles(
        of_rows([{"prefix": "10.0.0.0/24", "at_s": 1.7e9}, {"prefix": "10.1.0.0/24", "at_s": 1.7e9}])
    )
    assert median[:, 1] == pytest.approx([20.0, 80.0], rel=0.03)


def test_a_window_that_met_the_limit_is_off_by_its_paths_own_factor() -> None:
    """Each path's windows are off by a factor of its own, which more connections do not show: the model that knows so
    covers the paths' windows, the other is too sure of itself. In the mean of four worlds: one is off by 0.04."""
    covered = []
    for seed in range(4, 8):
        rng = np.random.default_rng(seed)
        states, true = world(3000, seed)
        factors = {prefix: float(np.exp(0.3 * rng.standard_normal())) for prefix in sorted(set(states.prefix.tolist()))}
        off = np.array([factors[prefix] for prefix in states.prefix.tolist()])
        seen = np.where(states.bound, states.max_cwnd, states.max_cwnd * off)
        learned, asked = replace(states, max_cwnd=seen)[:2000], states[2000:]
        models = (WindowModel(learned, overshoot=one).quantiles(asked) for one in (2.0, 1.0))
        covered.append([coverage(one, true[2000:]) for one in models])
    knows, believes = np.mean(covered, axis=0)
    assert 0.72 <= knows <= 0.9 and believes < knows - 0.05, covered


def test_networks_of_lower_bounds_alone_are_as_unsure_upwards_as_networks_differ() -> None:
    """No connection of the last network met its limit: what lies beyond its largest bound is open."""
    states, _ = world(3000, 6)
    last = np.array([prefix.startswith("10.11.") for prefix in states.prefix.tolist()])
    ended = replace(states, bound=states.bound | last, max_cwnd=np.where(last, 30.0, states.max_cwnd))
    asked = [one_client(f"10.{network}.1.0/24", 1.7e9) for network in (11, 5)]
    (low, middle, high), known = (WindowModel(ended, overshoot=1.0).quantiles(one)[0] for one in asked)
    assert low > 25.0 and np.log(high / middle) > 2.0 * np.log(known[2] / known[1])


def classed(count: int = 1200) -> EndStates:
    """Networks whose windows are their round trips': 30 segments at 20 ms, 120 at 300."""
    rng = np.random.default_rng(7)
    rows = []
    for at in range(count):
        network, prefix = int(rng.integers(12)), int(rng.integers(5))
        rtt, window = ((20.0, 30.0), (300.0, 120.0))[network % 2]
        rows.append({"prefix": f"10.{network}.{prefix}.0/24", "at_s": 1.7e9 + 900.0 * at, "min_rtt_ms": rtt,
                     "max_cwnd": float(window * np.exp(0.1 * rng.standard_normal()))})  # fmt: skip
    return of_rows(rows)


def test_a_client_never_seen_gets_the_answer_of_its_round_trips_class() -> None:
    model = WindowModel(classed(), overshoot=1.0)
    asked = [one_client("203.0.113.0/24", 1.7e9, rtt) for rtt in (21.0, 310.0, float("nan"))]
    near, far, unknown = (model.quantiles(one)[0] for one in asked)
    assert near[1] == pytest.approx(30.0, rel=0.15) and far[1] == pytest.approx(120.0, rel=0.15)
    # without a handshake nothing is known but all: between both, and less sure
    assert near[1] < unknown[1] < far[1] and unknown[2] / unknown[0] > 2.0 * far[2] / far[0]
    assert [model.answers_for(one) for one in ("10.3.4.0/24", "10.3.200.0/24", "203.0.113.0/24")] == [
        "prefix", "network", "class",
    ]  # fmt: skip
    # a prefix of a known network has the class of its network
    assert model.quantiles(one_client("10.3.200.0/24", 1.7e9))[0, 1] == pytest.approx(120.0, rel=0.15)


def test_the_hour_counts_in_every_class() -> None:
    states = classed(3000)
    evening = (states.at_s // 3600 % 24 >= 18) & (states.at_s // 3600 % 24 < 22)
    model = WindowModel(replace(states, max_cwnd=np.where(evening, 0.5, 1.0) * states.max_cwnd), overshoot=1.0)
    day_s = float(states.at_s[0] // 86_400 * 86_400)
    noon, night = (model.quantiles(one_client("10.1.1.0/24", day_s + 3600.0 * hour))[0, 1] for hour in (12, 20))
    assert night / noon == pytest.approx(0.5, rel=0.15)


def test_a_model_comes_back_as_it_was() -> None:
    states, _ = world(500, 2)
    model = WindowModel(states)
    again = WindowModel.of_state(decode(encode(model.state())))
    asked = of_rows([{"prefix": one, "at_s": 1.7e9, "min_rtt_ms": 30.0} for one in ("10.1.2.0/24", "10.50.0.0/24")])
    assert (again.quantiles(asked) == model.quantiles(asked)).all() and again.learned == model.learned


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(BadInput, match="learn initial train"):
        WindowModel.of_state({"learned": 3, "level": 4.0, "levels": {}})


def test_bounds_alone_are_refused() -> None:
    rows = [{"prefix": "10.0.0.0/24", "at_s": 1.7e9, "max_cwnd": 20.0, "bound": True}] * 3
    with pytest.raises(BadInput, match="lower bounds alone"):
        WindowModel(of_rows(rows))
    with pytest.raises(BadInput):
        WindowModel(of_rows([]))


def test_pinball_and_coverage_are_those_written_out() -> None:
    """A value 2 above its 0.9-quantile costs 1.8, one 2 below it 0.2."""
    quantiles = np.array([[1.0, 2.0, 3.0]])
    assert pinball(quantiles, np.array([5.0])) == pytest.approx((0.1 * 4 + 0.5 * 3 + 0.9 * 2) / 3)
    assert pinball(quantiles, np.array([1.0])) == pytest.approx((0.0 + 0.5 * 1 + 0.1 * 2) / 3)
    assert coverage(quantiles, np.array([3.0])) == 1.0 and coverage(quantiles, np.array([3.1])) == 0.0
