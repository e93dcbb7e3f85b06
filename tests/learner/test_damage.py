# SPDX-License-Identifier: MIT
"""The price: what harms neighbours is not served where it does; what is unmeasured must need no measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.classes import axes_of, fit, points_of
from configtron.learner.columns import conditions_of
from configtron.learner.damage import BOUND, bounded, damage_bound, high_of, unmeasured
from configtron.learner.rulebook import rulebook
from configtron.learner.saved import Recipe, recipe_of
from configtron.model.errors import BadInput
from configtron.model.grid import Grid, live_grid
from configtron.model.nouns import Knob
from configtron.model.tensor import Tensor
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.world import seeing, world
from tests.support.worlds import small_tensor

PLAIN = small_tensor()
SETTINGS = [dict(one.settings) for one in PLAIN.grid.profiles]
BBR = np.array([one["tcp_congestion_control"] == "bbr" for one in SETTINGS])
SIX = np.array([one["http_version"] == "http/1.1" for one in SETTINGS])


def harmed() -> Tensor:
    """Every condition twice: a shallow queue, where bbr and six connections harm (Default too), and a deep one, where
    nothing does. bbr is much the fastest in both, so that load time alone would always take it."""
    n = len(PLAIN.names)
    ms = np.concatenate((PLAIN.median_ms, PLAIN.median_ms))
    ms[:, BBR] *= 0.6
    damage = np.full(ms.shape, 1.02, dtype=np.float32)
    damage[:n, BBR] = 2.4
    damage[:n, SIX] = 1.7
    columns = (np.tile(column, 2) for column in (PLAIN.bandwidth_kbps, PLAIN.rtt_ms, PLAIN.loss))
    names = tuple(f"{name} {depth}" for depth in ("shallow", "deep") for name in PLAIN.names)
    queue = {"queue_ms": np.repeat([4.0, 400.0], n)}
    return Tensor(PLAIN.grid, PLAIN.sites, names, *columns, ms, "lab", characteristics=queue, damage=damage)


TENSOR = harmed()
SHALLOW = np.arange(len(TENSOR.names)) < len(PLAIN.names)


def test_what_needs_no_measurement() -> None:
    assert unmeasured({}) and unmeasured({"initcwnd": 64, "pacing": "fq", "http_version": "h2"})
    control = "tcp_congestion_control"
    for harm in ({control: "bbr"}, {"initcwnd": 64}, {"connections": 8}, {control: "dctcp"}):
        assert not unmeasured(harm), harm  # type: ignore[arg-type]


def test_a_class_may_have_what_harms_no_network_of_its_own() -> None:
    axes, contexts = axes_of(TENSOR), conditions_of(TENSOR)
    classes = fit(points_of(contexts, axes), 12, np.random.default_rng(1), axes)
    allowed, looser = (damage_bound(TENSOR, TENSOR.grid, bound).allowed(classes) for bound in (BOUND, 2.0))
    network, apart = classes.of(contexts), 0
    for k in range(len(classes)):
        shallow = SHALLOW[network == k]
        apart += shallow.all() or not shallow.any()
        if shallow.all():
            assert not allowed[k, BBR].any() and not allowed[k, SIX].any() and allowed[k, ~BBR & ~SIX].all()
            assert not looser[k, BBR & ~SIX].any()
        elif not shallow.any():
            assert allowed[k].all()
        else:
            assert not allowed[k, BBR].any(), "both depths are of it: what harms in one"
    assert apart >= 8, "depth is what classes live over"
    assert looser[:, SIX & ~BBR].all() and (damage_bound(TENSOR, TENSOR.grid).allowed(classes) == allowed).all()


def test_without_the_feature_a_class_may_have_only_what_harms_in_neither() -> None:
    few = seeing(TENSOR, ())
    classes = fit(conditions_of(few).points(), 12, np.random.default_rng(1))
    assert not damage_bound(few, TENSOR.grid).allowed(classes)[:, BBR].any()


def test_the_upper_end_counts_and_a_bound_is_more_than_the_page() -> None:
    assert TENSOR.damage is not None
    wide = replace(TENSOR, damage_high=TENSOR.damage + np.float32(0.5))
    assert not damage_bound(wide, TENSOR.grid).within(~SHALLOW)[~BBR & ~SIX].any()
    with pytest.raises(BadInput, match="damage"):
        damage_bound(PLAIN, PLAIN.grid)
    with pytest.raises(BadInput, match="at least 1"):
        damage_bound(TENSOR, TENSOR.grid, 0.9)


def test_a_small_page_measured_badly_does_not_decide() -> None:
    """Three sites: two that are known to a twentieth, one by which neighbours lost between nothing and six times it."""
    damage = np.full(TENSOR.median_ms.shape, 1.05, dtype=np.float32)
    half = np.full(TENSOR.median_ms.shape, 0.05, dtype=np.float32)
    damage[..., 0], half[..., 0] = 3.0, 3.0
    high = high_of(replace(TENSOR, damage=damage, damage_high=damage + half))
    assert (high < 1.15).all() and (high > 1.05).all()
    alone = high_of(replace(TENSOR, damage=damage, damage_high=damage + np.float32(0.05)))
    assert (alone > 1.5).all(), "known as well as the others, it counts as they do"


def test_unmeasured_places_take_what_needs_no_measurement() -> None:
    assert TENSOR.damage is not None
    damage = np.where(SHALLOW[:, None, None], TENSOR.damage, np.float32(np.nan))
    bound = damage_bound(replace(TENSOR, damage=damage), TENSOR.grid)
    free = np.array([unmeasured(one) for one in SETTINGS])
    assert (bound.within(~SHALLOW) == free).all() and not bound.within(~SHALLOW)[BBR].any()


def test_a_configuration_that_the_tensor_does_not_vary_is_unmeasured() -> None:
    few = TENSOR.over(TENSOR.grid.only(map(int, np.flatnonzero(~BBR))))
    bound = damage_bound(few, live_grid())
    index = live_grid().index(PLAIN.grid.profiles[int(np.flatnonzero(BBR)[0])])
    assert np.isnan(bound.high[:, index]).all()
    extra = Knob("notsent_lowat", "tcp", default=0, values=(0, 16384))
    grid = Grid((*TENSOR.grid.knobs, extra), tuple((*row, at) for row in TENSOR.grid.rows for at in (0, 1)))
    found = damage_bound(TENSOR, grid).high
    assert not np.isnan(found[:, 0::2]).any() and np.isnan(found[:, 1::2]).all()


def test_probabilities_are_of_what_is_served_and_a_bound_is_kept_with_the_policy() -> None:
    here, bound = world(TENSOR, 10, 1), damage_bound(TENSOR, TENSOR.grid)
    policy = here.policy("thompson")
    policy.keep_within(bound)
    allowed, of_row = policy.allowed()
    shares = policy.served_.probabilities(len(TENSOR.grid))
    assert np.allclose(shares.sum(axis=1), 1.0) and not shares[~allowed[of_row]].any()
    decided = policy.choose_many(here.sessions.seen)
    assert np.allclose(decided.propensity, shares[decided.row, decided.configuration])
    recipe = Recipe("thompson", TENSOR.grid, TENSOR.sites, here.classes, 1, damage=bound)
    made = recipe_of(recipe.text()).make()
    assert made.bound is not None and made.bound.bound == BOUND and made.name == "thompson"
    assert np.array_equal(made.bound.high, bound.high, equal_nan=True)
    assert (made.allowed()[0] == recipe.make().allowed()[0]).all()


@pytest.mark.slow
def test_rules_keep_to_the_bound_and_take_bbr_where_it_harms_no_client() -> None:
    here = world(TENSOR, 3000, 2)
    policy = here.policy("thompson", budget=1.0)
    policy.keep_within(damage_bound(TENSOR, TENSOR.grid))
    Replay(here.sessions, TENSOR, [policy], here.noise(), interval_s=30.0).run()
    book, allowed = rulebook(policy, here.sessions.seen), policy.allowed()[0]
    assert allowed[np.arange(len(book.by_class)), book.by_class].all() and BBR[book.by_class].any()


def test_a_table_without_choice_left_keeps_one() -> None:
    here = world(TENSOR, 10, 1)
    policy = here.policy("mab_nc")
    allowed = np.zeros((len(policy.cells.classes_), len(TENSOR.grid)), dtype=np.bool_)
    allowed[:, 7] = True
    rows = np.repeat(np.arange(len(allowed)), len(TENSOR.sites) + 1)
    shares = bounded(policy.served_, allowed, rows, TENSOR.grid).probabilities(len(TENSOR.grid))
    assert np.allclose(shares[:, 7], 1.0)
