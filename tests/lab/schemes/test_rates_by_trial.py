# SPDX-License-Identifier: MIT
"""Both PCCs: the sign of the utility's slope around a link's rate, and where rates settle on a path without noise."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.lab.schemes import allegro, vivace
from configtron.lab.schemes.allegro import Allegro
from configtron.lab.schemes.monitor_interval import MonitorIntervals
from configtron.lab.schemes.vivace import Vivace
from tests.support.scripted_path import FlowFigures, ScriptedPath, Starting, run


def settled(
    make: type[Allegro] | type[Vivace], path: ScriptedPath, first: float, last: float, seed: int = 1
) -> FlowFigures:
    return run(path, [Starting(make(np.random.default_rng(seed)))], last)[0].between(first, last)


@pytest.mark.parametrize("link", [1.0, 10.0, 100.0])
def test_vivaces_utility_rises_below_the_links_rate_and_falls_above(link: float) -> None:
    """Above it the queue grows: a second of sending at x makes x / C - 1 seconds of delay."""

    def of(mbit: float) -> float:
        return vivace.utility(mbit, max(0.0, mbit / link - 1), 0.0)

    assert of(0.95 * link) < of(link) > of(1.05 * link) and of(0.5 * link) < of(0.55 * link)


def test_vivace_bears_the_loss_that_its_formula_has() -> None:
    """At 10 Mbit/s 0.9 x^-0.1 is 11.35 L for L of 6.3 %."""
    for loss, rises in ((0.0, True), (0.06, True), (0.066, False), (0.2, False)):
        assert (vivace.utility(10.1, 0.0, loss) > vivace.utility(9.9, 0.0, loss)) is rises


def test_vivace_is_at_the_links_rate_with_a_queue_that_does_not_grow() -> None:
    found = settled(Vivace, ScriptedPath(4.0, 0.02, 60), 10, 20)
    assert 0.9 * 4.0 < found.mbit and found.queueing_s < 0.02 and found.loss < 0.01


def test_vivaces_share_a_path() -> None:
    flows = [Starting(Vivace(np.random.default_rng(seed)), 3.0 * seed) for seed in range(2)]
    rates = [log.between(25, 40).mbit for log in run(ScriptedPath(4.0, 0.02, 60), flows, 40.0)]
    assert min(rates) > 0.3 * max(rates) and sum(rates) > 0.85 * 4.0


def test_allegros_utility_breaks_off_at_five_per_cent() -> None:
    best = allegro.utility(10.0, 0.0)
    assert allegro.utility(10.0, 0.01) > 0.95 * best and allegro.utility(10.0, 0.06) < 0.3 * best
    assert allegro.utility(10.0, 0.1) < 0 < allegro.utility(10.0, 0.05)
    # more rate is worth its loss only while the loss is small: above a link's rate the utility falls
    assert allegro.utility(10.0, 0.0) > allegro.utility(10.2, 0.2 / 10.2) > allegro.utility(10.5, 0.5 / 10.5)


def test_allegro_keeps_a_short_queues_loss_below_five_per_cent() -> None:
    found = settled(Allegro, ScriptedPath(8.0, 0.02, 5), 5, 15)
    assert found.mbit > 0.95 * 8.0 and 0 < found.loss < 0.05


@pytest.mark.parametrize("seed", [1, 2])
def test_allegro_keeps_a_long_queues_loss_below_five_per_cent(seed: int) -> None:
    """Four times what the path holds: the rate overshoots while it fills, and is back before long."""
    found = settled(Allegro, ScriptedPath(3.0, 0.02, 40), 20, 40, seed)
    assert found.mbit > 0.99 * 3.0 and 0.005 < found.loss < 0.05


def test_allegro_moves_by_the_least_step_and_not_by_that_of_its_trials() -> None:
    scheme = Allegro(np.random.default_rng(1))
    scheme.state, scheme._epsilon, scheme.rate = allegro.DECIDING, allegro.MOST_EPSILON, 1e6
    scheme._trials = [(1, 2.0), (-1, 1.0), (-1, 1.0), (1, 2.0)]
    scheme._decide()
    assert scheme.state == allegro.MOVING and scheme.rate == pytest.approx(1.01e6)
    # the trial's own rate once more: its utility is compared with none
    scheme._learn(1, 0.5, MonitorIntervals().begin(0.0, scheme.rate, 1.0))
    assert scheme.state == allegro.MOVING and scheme.rate == pytest.approx(1.01e6 * 1.02)


def test_allegro_bears_one_per_cent_of_loss_and_not_ten() -> None:
    rates = {
        every: settled(Allegro, ScriptedPath(8.0, 0.02, 15, lambda number, _, n=every: number % n == 0), 10, 20).mbit  # type: ignore[misc]
        for every in (10, 100)
    }
    # TCP with one per cent has 1.22 / sqrt(0.01) packets a round trip of 40 ms: 3.7 Mbit/s
    assert rates[100] > 0.9 * 8.0 and rates[10] < 0.1 * 8.0


def test_an_interval_is_of_what_left_in_it() -> None:
    intervals = MonitorIntervals()
    intervals.begin(0.0, 1000.0, 1.0)
    intervals.begin(1.0, 2000.0, 1.0)
    for left in (0.1, 0.4, 0.9):
        intervals.acknowledged(left + 0.2 + left / 10, 0.2 + left / 10, 100)
    intervals.lost(1)
    assert list(intervals.complete(1.2, 0.2)) == []
    intervals.acknowledged(1.4, 0.3, 100)
    (one,) = intervals.complete(1.4, 0.2)
    assert (one.rate, one.packets, one.lost) == (1000.0, 3, 1)
    assert one.loss == 0.25 and one.rtt_gradient == pytest.approx(0.1)
    # silence ends the second one too, long after its end; what was lost in it is all that is known
    intervals.lost(4)
    assert [two.loss for two in intervals.complete(3.0, 0.2)] == [pytest.approx(0.8)]


def test_an_interval_ends_early_where_nothing_is_to_be_learned() -> None:
    intervals = MonitorIntervals()
    intervals.begin(0.0, 1000.0, 1.0)
    intervals.cut(0.4)
    assert intervals.ends == 0.4
    intervals.cut(0.8)
    assert intervals.ends == 0.4
