# SPDX-License-Identifier: MIT
"""The expert of Indigo: its actions, and the best window as a search over fixed windows finds it."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.lab.schemes.indigo import Indigo
from configtron.lab.schemes.indigo_network import ACTIONS
from configtron.studies.indigo.window_expert import ExpertAction, FixedWindow, NotedAction, expert_actions
from configtron.studies.indigo.window_search import best_window, next_windows
from tests.support.scripted_path import ScriptedPath, Starting, run


def searched(power: dict[int, float] | None, path: ScriptedPath | None = None) -> tuple[int, int]:
    """The best window of a given curve, or of a path; and how many windows were run."""
    tried: dict[int, float] = {}
    while windows := next_windows(tried):
        assert not set(windows) & set(tried)
        tried.update({one: power[one] if power else power_on(path, one) for one in windows})
    return best_window(tried), len(tried)


def power_on(path: ScriptedPath | None, window: int) -> float:
    assert path
    log = run(path, [Starting(FixedWindow(window))], 1.5)[0]
    late = np.percentile([one.rtt_s for one in log.packets if one.acknowledged > 0.7], 95)
    return log.between(0.7, 1.5).mbit / (late - path.delay_s)


@pytest.mark.parametrize("best", [2, 3, 9, 83, 1000, 5000])
def test_the_peak_of_a_curve_is_found(best: int) -> None:
    found, runs = searched({one: min(one / best, best / one) for one in range(2, 5001)})
    assert abs(found - best) <= max(1, 0.05 * best) and runs <= 30


@pytest.mark.parametrize(("mbit", "delay_s"), [(4.0, 0.02), (8.0, 0.01), (2.0, 0.04)])
def test_the_best_window_of_a_path_is_what_it_holds(mbit: float, delay_s: float) -> None:
    """Bandwidth times round trip, and the packet at the bottleneck: from the path's figures, which the search lacks."""
    found, _ = searched(None, ScriptedPath(mbit, delay_s, 300))
    holds = mbit * 1e6 * 2 * delay_s / 8 / 1500 + 1
    assert found == pytest.approx(holds, rel=0.1, abs=1.1)


def test_a_short_queue_hides_no_peak() -> None:
    """Beyond path and queue (661 and 94 packets) a window only loses packets: the power no longer falls."""
    power = {one: min(one, 661) / max(661, min(one, 755)) for one in range(2, 5001)}
    found, runs = searched(power)
    assert found == pytest.approx(661, rel=0.05) and runs <= 30


def test_the_expert_takes_the_action_that_comes_nearest() -> None:
    windows = np.array([12.0, 90.0, 100.0, 104.0, 105.0, 106.0, 240.0, 55.0, 4.0, 2.0])
    assert expert_actions(windows, 100.0).tolist() == [4, 3, 2, 2, 2, 1, 0, 4, 3, 3]
    # by the definition, one action at a time
    for window, action in zip(windows, expert_actions(windows, 100.0), strict=True):
        after = [abs(min(max(one(window), 2.0), 5000.0) - 100.0) for one in ACTIONS]
        assert after[action] == min(after)


def test_the_expert_brings_a_flow_to_the_best_window_and_its_states_are_noted() -> None:
    noted = NotedAction(ExpertAction(40.0))
    log = run(ScriptedPath(8.0, 0.03, 300), [Starting(Indigo(noted))], 3.0)[0]
    steps = noted.steps()
    assert abs(steps[-1, 3] - 40) <= 5 and (steps[-20:, 4] == 2).all()
    assert log.between(1, 3).mbit == pytest.approx(8.0, rel=0.05)
    # one step each 10 ms at most, and at this rate at least each 12 ms
    assert 3.0 / 0.012 * 0.9 < len(steps) <= 300


def test_a_step_has_the_rates_and_the_delay_of_its_path() -> None:
    """A window of twice what the path holds: rate, sending rate, and a queue of half the round trip."""
    noted = NotedAction(lambda state: 2)
    scheme = Indigo(noted)
    scheme.window = 80.0
    path = ScriptedPath(8.0, 0.03, 300)
    run(path, [Starting(scheme)], 3.0)
    last = noted.steps()[-50:].mean(0)
    assert last[1] == pytest.approx(8.0, rel=0.03) and last[2] == pytest.approx(8.0, rel=0.05)
    # 80 packets take 120 ms, of which 60 are the path's and 1.5 the packet's own
    assert last[0] == pytest.approx(80 * 1.5 - 60 - 1.5, abs=1.6) and last[3] == 80.0
