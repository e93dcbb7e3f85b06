# SPDX-License-Identifier: MIT
"""Schemes made for calls and cellular links: SCReAM, GCC, Sprout, Verus, each by its own paper's formula."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.lab.schemes.gcc import NORMAL, OVERUSE, UNDERUSE, DelaySlope, Gcc
from configtron.lab.schemes.scheme import PACKET_BYTES
from configtron.lab.schemes.scream import Scream
from configtron.lab.schemes.sprout import MOST_RATE, RATES, SPROUT_TICK_S, WITHIN_TICKS, Sprout
from configtron.lab.schemes.verus import Verus
from tests.support.scripted_path import ScriptedPath, Starting, run


def test_scream_keeps_its_target_waiting() -> None:
    found = run(ScriptedPath(2.0, 0.03, 200), [Starting(Scream())], 30.0)[0].between(20, 30)
    assert found.queueing_s == pytest.approx(0.1, rel=0.05) and found.mbit > 0.98 * 2.0


def test_scream_takes_the_window_to_four_fifths_once_a_round_trip() -> None:
    scheme = Scream()
    for number in range(100):
        scheme.on_ack(number * 0.01, 0.1, number * PACKET_BYTES, PACKET_BYTES)
    before = scheme.cwnd
    scheme.on_loss(1.0, 1)
    scheme.on_loss(1.05, 3)
    assert scheme.cwnd == pytest.approx(0.8 * before)
    scheme.on_loss(1.11, 1)
    assert scheme.cwnd == pytest.approx(0.64 * before)


@pytest.mark.parametrize(("growth_ms", "signal"), [(1.0, OVERUSE), (-1.0, UNDERUSE), (0.0, NORMAL)])
def test_gcc_sees_the_slope_and_not_the_noise(growth_ms: float, signal: str) -> None:
    slope, rng = DelaySlope(), np.random.default_rng(5)
    for _ in range(200):
        slope.add(growth_ms + rng.normal(0, 0.3), 5.0)
    assert slope.signal == signal


def test_gcc_reports_no_overuse_while_the_slope_falls() -> None:
    """The queue grows fast, then slowly: the estimate is above the threshold still, and falls."""
    slope = DelaySlope()
    for _ in range(40):
        slope.add(1.0, 5.0)
    assert slope.signal == OVERUSE
    slope.add(0.1, 5.0)
    assert slope.m_ms > slope.gamma_ms and slope.signal == NORMAL


def test_gccs_threshold_follows_a_slope_that_stays() -> None:
    """So that a loss-based flow beside it, whose queue grows always, does not starve it."""
    slope = DelaySlope()
    first = slope.gamma_ms
    for _ in range(400):
        slope.add(0.4, 5.0)
    assert slope.gamma_ms > 1.5 * first


def test_gcc_swings_below_the_links_rate_with_an_empty_queue() -> None:
    found = run(ScriptedPath(2.0, 0.03, 60), [Starting(Gcc())], 30.0)[0].between(10, 30)
    assert 0.85 * 2.0 < found.mbit < 2.0 and found.queueing_s < 0.005 and found.loss == 0.0


def test_gcc_halves_the_share_of_high_loss() -> None:
    """A fifth lost: the rate falls by a tenth each second, however short the queue is."""
    scheme = Gcc()
    rate = scheme.rate
    for second in range(1, 4):
        for number in range(40):
            now = second - 1 + number / 40
            scheme.on_ack(now, 0.05, 0, PACKET_BYTES)
        scheme.on_loss(second - 0.01, 10)
        scheme.on_tick(float(second))
    assert scheme.rate == pytest.approx(rate * 0.9**3)


def test_sprout_believes_in_the_links_rate() -> None:
    scheme = Sprout()
    found = run(ScriptedPath(4.0, 0.02, 60), [Starting(scheme)], 8.0)[0].between(4, 8)
    # 4 Mbit/s are 333 packets a second
    assert float(scheme.belief @ RATES) == pytest.approx(4e6 / 8 / PACKET_BYTES, rel=0.1)
    assert found.queueing_s < 0.1 and found.mbit > 0.95 * 4.0


def test_sprout_lets_no_queue_grow_beyond_its_tenth_of_a_second() -> None:
    """The link falls to a quarter: what is under way then is the old window, the next one is of the new rate."""
    path = ScriptedPath(lambda at: 8.0 if at < 4 else 2.0, 0.02, 1000)
    found = run(path, [Starting(Sprout())], 10.0)[0]
    assert found.between(6, 10).most_queueing_s < 0.1 < found.between(4, 5).most_queueing_s
    assert found.between(6, 10).mbit > 0.7 * 2.0


def test_sprout_is_cautious_where_packets_are_few() -> None:
    found = run(ScriptedPath(1.0, 0.02, 60), [Starting(Sprout())], 12.0)[0].between(4, 12)
    assert 0.3 < found.mbit < 0.9


@pytest.mark.parametrize("rate", [200.0, 500.0, 800.0])
def test_sprouts_forecast_arrives_in_time_nineteen_times_of_twenty(rate: float) -> None:
    """The paper's walk, 200 packets a second in a root second, played many times: how many arrive within 100 ms."""
    scheme = Sprout()
    scheme.belief[:] = RATES == RATES[np.abs(RATES - rate).argmin()]
    forecast, rng = scheme._forecast(), np.random.default_rng(7)
    rates, arrived = np.full(20_000, rate), np.zeros(20_000)
    for _ in range(WITHIN_TICKS):
        rates = np.clip(rates + rng.normal(0, 200 * SPROUT_TICK_S**0.5, rates.size), 0, MOST_RATE)
        arrived += rng.poisson(rates * SPROUT_TICK_S)
    assert 0.95 < np.mean(arrived >= forecast) < 0.995


def test_a_slower_sprout_dares_a_smaller_share_of_its_rate() -> None:
    """So of two in one queue the slower one gets slower still, down to two packets: Sprout's own, not a mistake."""

    def dared(rate: float) -> float:
        scheme = Sprout()
        scheme.belief[:] = np.exp(-((RATES - rate) ** 2) / (2 * 60.0**2))
        scheme.belief /= scheme.belief.sum()
        return scheme._forecast() / (rate * WITHIN_TICKS * SPROUT_TICK_S)

    shares = [dared(rate) for rate in (100.0, 200.0, 400.0, 800.0)]
    assert shares == sorted(shares) and shares[0] < 0.3 < 0.6 < shares[-1]
    flows = [Starting(Sprout()), Starting(Sprout(), 1.0)]
    rates = sorted(log.between(6, 12).mbit for log in run(ScriptedPath(4.0, 0.02, 200), flows, 12.0))
    assert rates[0] < 0.1 * sum(rates)


@pytest.mark.parametrize(("mbit", "delay_s"), [(4.0, 0.02), (2.0, 0.05)])
def test_verus_learns_the_delay_of_each_window(mbit: float, delay_s: float) -> None:
    """A window of W packets waits W packets long, where they are more than the path holds."""
    scheme, packet_s = Verus(), 12e-3 / mbit
    run(ScriptedPath(mbit, delay_s, 200), [Starting(scheme)], 12.0)
    assert scheme._profile
    windows, delays = scheme._profile
    expected = np.maximum(windows * packet_s, 2 * delay_s + packet_s)
    near = np.abs(windows / scheme.window - 1) < 0.3
    assert near.sum() >= 3 and np.abs(delays[near] / expected[near] - 1).max() < 0.15
    assert scheme._inverse(float(delays[near][-1])) == pytest.approx(windows[near][-1], rel=0.1)


@pytest.mark.parametrize(("mbit", "delay_s"), [(4.0, 0.02), (2.0, 0.05)])
def test_verus_stands_at_twice_the_least_delay(mbit: float, delay_s: float) -> None:
    log = run(ScriptedPath(mbit, delay_s, 200), [Starting(Verus())], 15.0)[0]
    late = [packet.rtt_s for packet in log.packets if packet.acknowledged > 8]
    least = min(packet.rtt_s for packet in log.packets)
    assert 1.6 < sum(late) / len(late) / least < 2.1 and log.between(8, 15).mbit > 0.98 * mbit


def test_verus_halves_the_window_that_lost() -> None:
    scheme = Verus()
    for number in range(60):
        scheme.on_tick(number * 0.01)
        scheme.on_ack(number * 0.01 + 0.004, 0.05, 0, PACKET_BYTES)
    left_under = scheme.window
    scheme.on_loss(0.6, 1)
    assert 0.4 * left_under < scheme.window < 0.6 * left_under
    halved = scheme.window
    scheme.on_loss(0.61, 2)
    assert scheme.window == halved
