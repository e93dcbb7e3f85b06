# SPDX-License-Identifier: MIT
"""How wide an off-policy interval is: few heavy terms, and heavy ones that a log did not meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.columns import Contexts, Decisions, Floats
from configtron.learner.value import _around, _crossed, freedom, inverse_propensity, mean_of, value
from tests.learner.test_value import TENSOR, halves, only_one, static


def test_few_heavy_terms_make_the_spread_ill_known() -> None:
    normal = np.random.default_rng(1).standard_normal(10_000)
    assert freedom(normal**2, 1.0) == pytest.approx(10_000, rel=0.1)
    heavy = np.zeros(10_000)
    heavy[:5] = [64.0, 30.0, 500.0, 64.0, 10.0]
    assert freedom(heavy**2, float((heavy**2).mean())) < 3.0
    assert freedom(np.zeros(5), 0.0) == 4.0
    # Equal terms, off their mean by what an addition rounds.
    alike = mean_of(np.full(2000, 0.99992))
    assert alike.low_ms == pytest.approx(0.99992) == alike.high_ms
    # Wider than the plain interval, and further up than down.
    found = mean_of(heavy)
    plain = 2 * 1.96 * heavy.std() / 100.0
    assert found.high_ms - found.low_ms > 1.2 * plain and found.high_ms - found.ms > found.ms - found.low_ms


def test_squares_that_were_not_met_widen_the_interval() -> None:
    """Terms of one size: squares are known, so that t is of n - 1, and the ends can be computed by hand."""
    terms, t_399 = np.where(np.arange(400) % 2 == 0, 1.0, -1.0), 1.965927
    for unmet, deviation in ((0.0, 1.0), (3.0, 2.0), (8.0, 3.0), (-0.5, 1.0)):
        found = _around(500.0, terms, unmet=np.full(400, unmet))
        half = t_399 * deviation / np.sqrt(399.0)
        assert (found.low_ms, found.high_ms) == pytest.approx((500.0 - half, 500.0 + half), abs=1e-6), unmet
    # One session in 400 has all that is unmet: the spread is not well known, whatever the terms look like.
    one = np.zeros(400)
    one[0] = 1200.0
    assert freedom(terms**2 + one, 4.0) == pytest.approx(800.0 * 16.0 / (1200.0**2 / 400 - 9.0))
    assert _around(500.0, terms, unmet=one).high_ms > 500.0 + 1.4 * t_399 * 2.0 / np.sqrt(399.0)


def as_logged(n: int) -> tuple[Contexts, Decisions, Floats]:
    """n sessions of one network and site in two kinds of loads, under configurations 0 (nine in ten, so logged, 200 ms)
    and 5 (one in ten, 900 ms), either half of them alike."""
    contexts, decisions, _ = only_one(n)
    # Without prefixes: every session is drawn by itself.
    same = Contexts(np.full(n, 9000.0), np.full(n, 40.0), np.zeros(n), np.zeros(n, int), contexts.sites)
    rare = np.isin(np.arange(n) % 20, (0, 11))
    decided = replace(decisions, configuration=np.where(rare, 5, 0), propensity=np.where(rare, 0.1, 0.9))
    return same, decided, np.where(rare, 900.0, 200.0)


def test_what_the_logger_might_have_drawn_is_what_it_drew_of_equal_networks() -> None:
    """Sum over configurations of probability^2 / propensity x (load - level)^2: the mean of the drawn ones."""
    contexts, decided, ms = as_logged(2000)
    wanted = halves(0, 5)
    table = wanted.served_.probabilities(len(TENSOR.grid))
    row = np.zeros(2000, dtype=np.int64)
    heavy = np.zeros(table.shape)
    heavy[0, [0, 5]] = 0.5 / 0.9, 0.5 / 0.1
    crossed = _crossed(wanted, table, heavy, row, contexts, decided.configuration, ms, 550.0)
    chosen, drawn = crossed.chosen, crossed.drawn
    by_hand = 0.25 / 0.9 * (chosen.min() - 550.0) ** 2 + 0.25 / 0.1 * (chosen.max() - 550.0) ** 2
    assert chosen.min() == pytest.approx(200.0, rel=0.02) and chosen.max() == pytest.approx(900.0, rel=0.02)
    assert drawn == pytest.approx(np.full(2000, by_hand))
    weight = 0.5 / decided.propensity
    assert float((weight**2 * (chosen - 550.0) ** 2).mean()) == pytest.approx(by_hand)
    # So nothing is unmet: the spread is the terms' own, and every session knows it.
    snips = value(wanted, contexts, decided, ms).snips
    half = 1.9612 * float(np.std(weight * (ms - 550.0))) / np.sqrt(1999.0)
    assert (snips.low_ms, snips.high_ms) == pytest.approx((550.0 - half, 550.0 + half), abs=0.02 * half)


def test_what_a_draw_weighs_is_over_sessions_not_over_draws() -> None:
    """Nine sessions of ten choose configuration 0 by 0.9, one by 0.1: few draws show the latter."""
    often = np.repeat([0.9, 0.9, 0.1, 0.1], [81_000, 9_000, 1_000, 9_000])
    configuration = np.repeat([0, 1, 0, 1], [81_000, 9_000, 1_000, 9_000])
    propensity = np.where(configuration == 0, often, 1.0 - often)
    found = inverse_propensity((2, 3), np.zeros(100_000, dtype=np.int64), configuration, propensity)
    assert found[0, :2] == pytest.approx([0.9 / 0.9 + 0.1 / 0.1, 0.9 / 0.1 + 0.1 / 0.9], rel=0.01)


def test_slow_networks_that_met_no_weight_are_in_the_interval() -> None:
    """Configuration 5 is one draw in ten, and none of the twenty slow networks'; under 0 they were met."""
    contexts, decided, ms = as_logged(4000)
    slow = np.isin(np.arange(4000) % 400, (50, 253))
    rtt = np.where(slow, 900.0, 40.0)
    found = value(static(5), replace(contexts, rtt_ms=rtt), decided, np.where(slow, 40_000.0, ms))
    assert 300 < found.effective <= 400 and found.snips.reason == ""
    # All loads under weight are alike, so that the terms' own spread is nothing; one in 200 would not be.
    error = (40_000.0 - 900.0) * np.sqrt(10.0 / 200.0 / 4000.0)
    assert found.snips.ms == pytest.approx(900.0) and found.snips.holds(0.995 * 900.0 + 0.005 * 40_000.0)
    assert found.snips.high_ms - 900.0 == pytest.approx(1.98 * error, rel=0.03)
    alike = value(static(5), contexts, decided, ms).snips
    assert alike.high_ms - alike.low_ms < 0.1 * error
