# SPDX-License-Identifier: MIT
"""Bounded influence: whatever one outcome says, no expectation moves far; clean loads all count; none is defended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.learner import Setting, policy
from configtron.learner.columns import Contexts
from configtron.learner.influence import (
    MOST_SPREAD,
    WHOLE_SIGMAS,
    first_expected,
    spread_of,
    unknown_ln,
    weights_of,
)
from configtron.learner.policies.thompson import Thompson
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR = small_tensor(bent=0.03)
CLASSES = small_classes(TENSOR)
# What one load of 1000, or of 3000, may move any expectation by, ln(ms).
MOST_MOVED_LN = 0.2


def made(bounded: bool = True, **more: object) -> Thompson:
    setting = Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 500, bounded=bounded, **more)  # type: ignore[arg-type]
    found = policy("thompson", setting)
    assert isinstance(found, Thompson)
    return found


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_influence_is_bounded_and_falls(deviations: list[float]) -> None:
    z = np.array(deviations)
    weight = weights_of(z)
    assert ((weight > 0) & (weight <= 1)).all() and (weight[np.abs(z) <= WHOLE_SIGMAS] == 1).all()
    assert (np.abs(weight * z) <= WHOLE_SIGMAS * (1 + 1e-12)).all()
    far = np.abs(z) > WHOLE_SIGMAS
    assert (np.abs(weights_of(2 * z) * 2 * z)[far] < np.abs(weight * z)[far]).all(), "further off says less"


def test_where_there_is_nothing_to_compare_with_a_load_counts() -> None:
    assert (weights_of(np.array([np.nan, 0.0])) == 1.0).all()
    points, site = np.zeros((5, 3)), np.zeros(5, dtype=np.int64)
    assert np.isnan(first_expected(points, site, np.ones(5))).all()


def test_a_batch_that_is_wider_is_taken_as_wider_but_not_by_any_amount() -> None:
    z = np.random.default_rng(1).standard_normal(400)
    assert spread_of(z[:20] * 9) == 1.0 and spread_of(0.1 * z) == 1.0
    assert spread_of(2.0 * z) == pytest.approx(2.0, rel=0.1) and spread_of(100.0 * z) == MOST_SPREAD
    z[:40] = 50.0
    assert spread_of(z) < 1.3, "a tenth of them does not make it wide"


def test_the_less_is_known_the_further_a_load_may_be() -> None:
    nothing, much = np.zeros(1), np.full(1, 1000.0)
    assert unknown_ln(0.2, nothing, nothing)[0] > 0.7 and unknown_ln(0.2, much, much)[0] == pytest.approx(0.2, rel=0.01)


def test_the_first_loads_are_expected_by_network_and_site_whatever_some_of_them_say() -> None:
    contexts, condition = clients(TENSOR, 500)
    ln = np.log(TENSOR.lookup(condition, np.full(500, TENSOR.grid.default), contexts.site))
    wrong = ln.copy()
    wrong[::10] += np.where(np.arange(50) % 2, 6.9, -6.9)
    clean, dirty = (first_expected(contexts.points(), contexts.site, y) for y in (ln, wrong))
    assert np.sqrt(((dirty - clean) ** 2).mean()) < 0.1 and np.abs(clean - ln).mean() < 0.5


def changed(bounded: bool, loads: int, ms: float) -> float:
    """How far the expectations of a policy move when one of its outcomes, in the last update, says `ms`."""
    found = []
    for says in (False, True):
        one = made(bounded)
        lived(one, TENSOR, loads - 500)
        contexts, condition = clients(TENSOR, 500, 2)
        chosen = one.choose_many(contexts)
        took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
        took[77] = ms if says else took[77]
        one.observe_many(contexts, chosen, took)
        found.append(one.model.model())
    model, other = found
    return float(np.abs(other.mean() - model.mean()).max())


@pytest.mark.slow
@pytest.mark.parametrize("ms", [0.001, 1.0, 1e7, 8.64e7])
def test_one_outcome_moves_no_expectation_far(ms: float) -> None:
    moved = changed(True, 1000, ms)
    assert moved < MOST_MOVED_LN
    assert moved < changed(False, 1000, ms), "what is drawn in only where it was shown moves more"


@pytest.mark.slow
def test_where_all_loads_are_far_off_it_is_learned_all_the_same() -> None:
    """A configuration that stalls is no outlier: twenty loads of it, a hundred times slower each, and it is out."""
    one = made()
    lived(one, TENSOR, 2000)
    stalled = int(one.served_.probabilities(len(TENSOR.grid)).sum(axis=0).argmax())
    contexts, condition = clients(TENSOR, 1500, 5)
    chosen = one.choose_many(contexts)
    took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
    bad = chosen.configuration == stalled
    assert 20 <= bad[:500].sum()
    one.observe_many(contexts, chosen, np.where(bad, 100.0 * took, took))
    after = one.served_.probabilities(len(TENSOR.grid))[:, stalled]
    assert after.mean() < 0.02 and (after > 0.5).sum() == 0


@pytest.mark.slow
def test_bots_and_broken_clocks_do_not_cost_what_was_learned() -> None:
    """A tenth of outcomes says 1 ms or a thousand times the load: the policy stays better than Default. Without a
    budget: within 1 % of Default's time, 5000 sessions prove little here, be they distorted or not."""
    relative = {}
    for bounded in (True, False):
        one, rng = made(bounded, budget=None), np.random.default_rng(8)
        ms, default = [], []
        for seed in range(10):
            contexts, condition = clients(TENSOR, 500, seed)
            chosen = one.choose_many(contexts)
            took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
            bad, instant = rng.random(500) < 0.1, rng.random(500) < 0.5
            one.observe_many(contexts, chosen, np.where(bad, np.where(instant, 1.0, 1000.0 * took), took))
            ms.append(took)
            default.append(TENSOR.lookup(condition, np.full(500, TENSOR.grid.default), contexts.site))
        relative[bounded] = np.sum(ms[5:]) / np.sum(default[5:])
    assert relative[True] < 0.99 and relative[True] < relative[False] - 0.02


@pytest.mark.slow
def test_bots_and_broken_clocks_do_not_spend_the_budget() -> None:
    """Default's loads say as often what is far off; so that is no configuration's cost, and exploring goes on."""
    one, rng = made(), np.random.default_rng(8)
    assert isinstance(one, Thompson)
    explored, cost, base = [], 0.0, 0.0
    for seed in range(8):
        contexts, condition = clients(TENSOR, 500, seed)
        chosen = one.choose_many(contexts)
        took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
        default = TENSOR.lookup(condition, np.full(500, TENSOR.grid.default), contexts.site)
        bad, instant = rng.random(500) < 0.1, rng.random(500) < 0.5
        one.observe_many(contexts, chosen, np.where(bad, np.where(instant, 1.0, 1000.0 * took), took))
        explored.append((chosen.configuration != TENSOR.grid.default).mean())
        cost, base = cost + (took - default).sum(), base + default.sum()
    assert np.mean(explored[4:]) > 0.03
    assert abs(one.spending.account_.cost_ms / one.spending.account_.base_ms - cost / base) < 0.03


@pytest.mark.slow
def test_a_distorted_policy_goes_on_alike_and_batches_do_not_show() -> None:
    contexts, condition = clients(TENSOR, 1500)
    factor = np.where(np.arange(1500) % 10 == 0, 500.0, 1.0)
    states = []
    for cuts in ([1500], [700, 1500], [500, 501, 1200, 1500]):
        one, at = made(), 0
        for upto in cuts:
            rows = slice(at, upto)
            part = contexts[rows]
            chosen = replace(one.choose_many(part), configuration=np.arange(at, upto) % len(TENSOR.grid))
            took = TENSOR.lookup(condition[rows], chosen.configuration, part.site) * factor[rows]
            row, network = one.where(part)
            one.observe_many(part, replace(chosen, row=row, network=network), took)
            other = made()
            other.restore(one.save())
            one, at = other, upto
        states.append(one.cells.tally_)
    for tally in states[1:]:
        assert all((getattr(tally, name) == getattr(states[0], name)).all() for name in ("count", "total", "square"))


@pytest.mark.slow
def test_clean_loads_count_whole_but_for_their_own_tail() -> None:
    one = made()
    contexts: Contexts
    contexts, *_ = lived(one, TENSOR, 4000)
    assert 0.97 < one.cells.tally_.count.sum() / len(contexts) <= 1.0
