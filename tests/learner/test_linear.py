# SPDX-License-Identifier: MIT
"""The shared model against the same written out: one matrix, cells, draws; warm starts from tensors; expected loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
from scipy.linalg import block_diag

from configtron.learner import Setting, linear, policy
from configtron.learner.cell_sums import LEVEL_PRECISION, CellSums, cell_sums, renewed
from configtron.learner.columns import Contexts
from configtron.learner.features import cell_features, configuration_features, features_of, rounds_of
from configtron.learner.ledger import MOST_EXCESS_LN, PLAN_ERRORS, part_cost
from configtron.learner.loads import Loads
from configtron.learner.posterior_draws import ROWS_AT_ONCE, DrawLimits, excess_at_full_width
from configtron.learner.templates import templates_of
from configtron.learner.tensor_mapping import filled, mapped
from configtron.learner.warmstart import WarmStart, emulated, plain_spread
from configtron.model.errors import BadInput
from configtron.model.grid import Grid, live_grid, paper_grid
from configtron.model.nouns import Profile
from configtron.model.tensor import Tensor
from configtron.studies.starts import templates
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

NOISE, RESIDUAL = 0.3, 0.1
# Two classes of three places; covariances that are not diagonal, so that a transposed one shows.
PLACES = 3
SPREAD = linear.Spread(np.array([[0.09, 0.05], [0.05, 0.16]]), np.array([[0.04, -0.01], [-0.01, 0.02]]))
KNOB_SD, SHARE = np.array([0.5, 0.3]), np.array([1.0, 0.6, 0.4])


def small_model(features, cells, count, mean):  # type: ignore[no-untyped-def]
    seen: linear.SufficientStatistics = linear.sufficient_statistics(
        linear.weights(count, NOISE, RESIDUAL), mean, features, PLACES, SPREAD
    )
    known = linear.prior(KNOB_SD, SHARE).plus(linear.evidence(seen, cells))
    return linear.Model(linear.solved(known), seen, features, cells, residual_ln=RESIDUAL)


def written_out(features, cells, count, mean):  # type: ignore[no-untyped-def]
    """Posterior mean and covariance of every cell's excess, as one linear model with every unknown a column."""
    wide, deep, f = len(cells), len(features), features.shape[1]

    def columns(c, k, level):  # type: ignore[no-untyped-def]
        levels, residual = np.zeros(wide), np.zeros((wide, deep))
        of_class, of_cell = np.zeros((wide // PLACES, f)), np.zeros((wide, f))
        levels[c], residual[c, k] = level, 1.0
        of_class[c // PLACES], of_cell[c] = features[k], features[k]
        shared = np.outer(features[k], cells[c])
        return np.concatenate([x.ravel() for x in (shared, of_class, of_cell, levels, residual)])

    every = [(c, k) for c in range(wide) for k in range(deep)]
    x, weight = np.array([columns(c, k, 1.0) for c, k in every]), np.diag(count.ravel() / NOISE**2)
    blocks = [np.diag(np.outer(KNOB_SD, SHARE).ravel() ** -2)]
    blocks += [np.linalg.inv(SPREAD.of_class)] * (wide // PLACES) + [np.linalg.inv(SPREAD.of_cell)] * wide
    blocks += [np.diag(np.full(wide, LEVEL_PRECISION)), np.diag(np.full(wide * deep, RESIDUAL**-2))]
    precision = x.T @ weight @ x + block_diag(*blocks)
    centre = np.linalg.solve(precision, x.T @ weight @ mean.ravel())
    asked = np.array([columns(c, k, 0.0) for c, k in every])
    spread = np.einsum("ij,ij->i", asked, np.linalg.solve(precision, asked.T).T)
    return (asked @ centre).reshape(wide, deep), spread.reshape(wide, deep)


def test_means_and_draws_are_those_of_one_big_regression() -> None:
    rng = np.random.default_rng(4)
    features, cells = rng.standard_normal((6, 2)), rng.standard_normal((6, 3))
    features[0] = 0.0
    count = rng.integers(0, 4, (6, 6)).astype(float)
    mean = np.where(count > 0, 7.0 + rng.standard_normal((6, 6)), 0.0)
    informed = small_model(features, cells, count, mean)
    assert np.allclose(informed.mean(), written_out(features, cells, count, mean)[0], atol=3e-3)
    # Without any loads, levels are free and say nothing of the excess; with some, draws given the level spread less.
    _, spread = written_out(features, cells, 0 * count, 0 * mean)
    drawn = small_model(features, cells, 0 * count, 0 * mean).draws(4000, np.random.default_rng(1), 1.0)
    assert np.allclose(drawn.var(axis=1)[:, 1:], spread[:, 1:], rtol=0.15)
    assert np.allclose(drawn.mean(axis=1), 0, atol=0.1)
    some = informed.draws(4000, np.random.default_rng(1), 1.0, np.array([2, 4]))
    assert np.allclose(some.mean(axis=1), informed.mean()[:, [2, 4]], atol=0.03)
    assert (some.var(axis=1) < drawn.var(axis=1)[:, [2, 4]]).all()


def test_the_likelihood_is_that_of_the_data() -> None:
    """Against the normal density of the observations themselves, two beliefs compared."""
    rng = np.random.default_rng(5)
    x, noise = rng.standard_normal((30, 4)), 0.5
    y = x @ np.array([1.0, -1.0, 0.5, 0.0]) + noise * rng.standard_normal(30)
    seen, found = linear.Evidence(x.T @ x / noise**2, x.T @ y / noise**2), []
    for k, centre in ((1.0, np.zeros(4)), (9.0, np.array([1.0, 1.0, 1.0, 1.0]))):
        held = linear.Evidence(np.eye(4) * k, k * centre)
        rest = y - x @ centre
        spread = x @ x.T / k + noise**2 * np.eye(30)
        plain = -0.5 * rest @ np.linalg.solve(spread, rest) - 0.5 * np.linalg.slogdet(spread)[1]
        found.append((linear.solved(held.plus(seen)).weight_ln - linear.solved(held).weight_ln, plain))
    (ours, plain), (other, unlike) = found
    assert np.isclose(ours - other, plain - unlike)


def test_default_has_no_excess() -> None:
    for grid in (live_grid(), paper_grid()):
        features, prior_sd = configuration_features(grid)
        assert not features[grid.default].any() and features.shape == (len(grid), len(prior_sd))
        assert np.linalg.matrix_rank(features) == features.shape[1], "two features say the same"


def test_any_other_site_has_no_place_of_its_own() -> None:
    features, share = cell_features(np.array([[8.5, 4.4, -5.0], [9.0, 3.0, -6.0]]), np.full((2, 4), 2.5))
    assert features.shape == (8, len(share)) and features[0, 10] == 1.0
    assert not features[[3, 7], 10:13].any() and (features[3, :4] == [1, 0, 0, 0]).all()


def test_round_trips_are_known_where_seen_and_guessed_elsewhere() -> None:
    rng = np.random.default_rng(1)
    centroid = np.stack((rng.uniform(6, 11, 30), rng.uniform(3, 6, 30), rng.uniform(-6, -3, 30)), axis=1)
    truth = 2.5 + 0.4 * (centroid[:, 1:2] - 4.4) + np.array([[0.8, 0.0, -0.8, 0.0]])
    loads = np.tile([40.0, 40.0, 40.0, 0.0], (30, 1))
    loads[20:, 1] = 0.0
    level = np.where(loads > 0, truth + centroid[:, 1:2], np.nan)
    found = rounds_of(centroid, level, loads)
    assert np.allclose(found[:, :3], truth[:, :3], atol=0.1)
    blind = rounds_of(centroid, np.full((30, 4), np.nan), np.zeros((30, 4)))
    assert np.allclose(blind, 2.5)


def warmed(tensor: Tensor, loads: float = 1.0) -> WarmStart:
    """A tensor as a start over its own configurations and sites."""
    known = mapped(tensor, tensor.grid, tensor.sites)
    return emulated(known, configuration_features(tensor.grid)[1], loads, len(tensor.sites))


def test_a_warm_start_counts_as_stated() -> None:
    """Few loads count in proportion; many cannot count for more than conditions differ."""
    one, two, many = (np.trace(warmed(small_tensor(), loads).evidence.precision) for loads in (1.0, 2.0, 1e6))
    assert 1.9 < two / one <= 2.0 and many < 1e5 * one


def test_a_spread_is_found_where_conditions_differ() -> None:
    """Effects that only some conditions have, on all their sites: a class's own, in that direction alone."""
    tensor = small_tensor(conditions=120)
    features, sd = configuration_features(tensor.grid)
    hidden = np.random.default_rng(1).standard_normal(120)
    bent = tensor.median_ms * np.exp(0.3 * hidden[:, None, None] * features[:, 0][None, :, None])
    before, after = warmed(tensor).spread, warmed(replace(tensor, median_ms=bent.astype(np.float32))).spread
    grown = np.diag(after.of_class - before.of_class)
    assert 0.05 < grown[0] < 0.13 and np.abs(grown[1:]).max() < 0.02
    assert np.abs(after.of_cell - before.of_cell).max() < 0.02
    assert np.allclose(warmed(small_tensor()).spread.of_class, plain_spread(sd).of_class)


def test_templates_begin_with_default_and_leave_ever_less() -> None:
    tensor = small_tensor()
    held = templates(tensor, 12)
    assert held[0] == tensor.grid.default and len(set(held.tolist())) == 12
    over = tensor.median_ms / tensor.median_ms.min(axis=1, keepdims=True) - 1.0
    left = [over[:, held[:n]].min(axis=1).mean() for n in (1, 4, 8, 12)]
    assert left == sorted(left, reverse=True) and left[-1] < 0.02 < left[0]


CELLS, CONFIGURATIONS, F = 150, 40, 5


def cell_problem() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    features, root = rng.standard_normal((CONFIGURATIONS, F)), rng.standard_normal((F, F))
    weight = np.where(rng.random((CELLS, CONFIGURATIONS)) < 0.1, 20.0 * rng.random((CELLS, CONFIGURATIONS)), 0.0)
    weight[7] = 0.0
    return weight, rng.standard_normal((CELLS, CONFIGURATIONS)), features, 0.1 * root @ root.T + 0.01 * np.eye(F)


def test_sums_are_those_of_the_loads_own_covariance() -> None:
    """Loads of a cell, its level and its own effects integrated out: normal, of a covariance written out."""
    weight, mean_ln, features, of_cell = cell_problem()
    sums = cell_sums(weight, mean_ln, features, of_cell)
    for cell in (0, 7, 149):
        some = weight[cell] > 0
        x, y = features[some], mean_ln[cell, some]
        level = np.full((len(y), len(y)), 1.0 / LEVEL_PRECISION)
        noise = np.diag(1.0 / weight[cell, some]) + level
        inside, outside = np.linalg.inv(noise), np.linalg.inv(noise + x @ of_cell @ x.T)
        own = np.linalg.inv(x.T @ inside @ x + np.linalg.inv(of_cell))
        assert np.allclose(sums.precision[cell], x.T @ outside @ x, atol=1e-6)
        assert np.allclose(sums.shift[cell], x.T @ outside @ y, atol=1e-6)
        assert np.allclose(sums.factor[cell] @ sums.factor[cell].T, own, atol=1e-6)
        assert np.allclose(sums.centre[cell], own @ x.T @ inside @ y, atol=1e-6)
        assert np.allclose(sums.carry[cell], np.linalg.inv(of_cell) @ own, atol=1e-6)
    assert not sums.precision[7].any() and not sums.shift[7].any()


@pytest.mark.parametrize("changed", [0, 1, 3, 64, 70, CELLS])
def test_cells_that_changed_are_computed_anew_and_to_the_bit(changed: int) -> None:
    weight, mean_ln, features, of_cell = cell_problem()
    before = cell_sums(weight, mean_ln, features, of_cell)
    rows = np.random.default_rng(changed).choice(CELLS, changed, replace=False)
    after, moved = weight.copy(), mean_ln.copy()
    after[rows[::2]] *= 1.1
    moved[rows[1::2]] += 0.01
    found, anew = renewed(before, after, moved, features), cell_sums(after, moved, features, of_cell)
    for field in fields(CellSums):
        assert (getattr(found, field.name) == getattr(anew, field.name)).all(), field.name


ROWS, DRAWS, CANDIDATES, UNGUARDED, DEFAULT = ROWS_AT_ONCE + 7, 6, 5, 2, 1
BOLDNESS, GUARD_LN, SIGMAS = 0.3, 0.05, 1.0


def problem(bounded: bool) -> tuple[np.ndarray, np.ndarray, DrawLimits]:
    rng = np.random.default_rng(8)
    mean = 0.1 * rng.standard_normal((ROWS, CANDIDATES))
    drawn = mean[:, None] + 0.03 * rng.standard_normal((ROWS, DRAWS, CANDIDATES))
    out, may = rng.random((ROWS, CANDIDATES)) < 0.2, rng.random((ROWS, CANDIDATES)) < 0.5
    out[:, DEFAULT], may[:, 0] = False, True
    unloaded = np.array([False, False, True, False, False])
    return drawn, mean, DrawLimits(out, unloaded, may if bounded else None, GUARD_LN, SIGMAS, BOLDNESS, DEFAULT)


def best(values: np.ndarray, barred: np.ndarray, may: np.ndarray | None, mean: np.ndarray) -> int:
    open_ = np.where(barred, np.inf, values)
    if may is not None:
        open_ = np.where(may, open_, np.inf)
        open_ = np.where(may, mean, np.inf) if np.isinf(open_).all() else open_
    return DEFAULT if np.isinf(open_).all() else int(open_.argmin())


@pytest.mark.parametrize("bounded", [False, True])
def test_each_draw_takes_its_fastest_that_passes(bounded: bool) -> None:
    drawn, mean, limits = problem(bounded)
    guarded, free = limits.guarded(drawn, mean, UNGUARDED), limits.free(drawn[:, :UNGUARDED], mean)
    for row in range(ROWS):
        may = None if limits.may is None else limits.may[row]
        deviation = (drawn[row] - drawn[row, :, [DEFAULT]].T).std(axis=0) / BOLDNESS
        risky = mean[row] - mean[row, DEFAULT] + SIGMAS * deviation > GUARD_LN
        risky[DEFAULT] = False
        barred = limits.out[row] | limits.unloaded | risky
        assert guarded[row].tolist() == [best(one, barred, may, mean[row]) for one in drawn[row, UNGUARDED:]]
        assert free[row].tolist() == [best(one, limits.out[row], may, mean[row]) for one in drawn[row, :UNGUARDED]]
    assert len(np.unique(guarded)) > 2 and (guarded != DEFAULT).any()


def test_near_draws_choose_among_the_near_ones() -> None:
    drawn, mean, limits = problem(bounded=False)
    near = np.array([True, True, False, False, False])
    found = limits.free(drawn, mean, near)
    assert set(np.unique(found)) == {0, 1}
    some = ~limits.out[:, 0]
    assert (found[some] == drawn[some][:, :, :2].argmin(axis=2)).all()


def test_the_cost_of_a_part_counts_every_pick() -> None:
    drawn, mean, limits = problem(bounded=False)
    picks, weight = limits.guarded(drawn, mean, UNGUARDED), np.random.default_rng(1).random(ROWS)
    excess = partial(excess_at_full_width, drawn, mean, BOLDNESS, DEFAULT)
    found, rows = np.zeros(DRAWS), np.arange(ROWS)
    for column in picks.T:
        usual = mean[rows, column] - mean[rows, DEFAULT]
        over = (drawn[rows, :, column] - drawn[:, :, DEFAULT] - usual[:, None]) / BOLDNESS + usual[:, None]
        over += np.where(column == DEFAULT, 0.0, 0.02)[:, None]
        found += np.expm1(np.clip(over, -MOST_EXCESS_LN, MOST_EXCESS_LN)).T @ weight / picks.shape[1]
    assert part_cost(picks, weight, excess, 0.02) == pytest.approx(found.mean() + PLAN_ERRORS * found.std(), rel=1e-9)


LARGE, OTHER = small_tensor(conditions=80, bent=0.03), small_tensor(seed=9, conditions=80, bent=0.06)


def other_values(tensor: Tensor) -> Tensor:
    """Other windows: 2, 5, 14, 24, 40 in place of 1, 4, 16, 20, 30."""
    windows = {1: 2, 4: 5, 16: 14, 20: 24, 30: 40}
    knobs = tuple(
        replace(knob, values=tuple(windows.get(int(value), value) for value in knob.values))  # type: ignore[arg-type]
        if knob.name == "initcwnd" else knob for knob in tensor.grid.knobs
    )  # fmt: skip
    return replace(tensor, grid=Grid(knobs, tensor.grid.rows))


def fewer_knobs(tensor: Tensor) -> Tensor:
    """Without corking's knob: what has it at another value than the default goes."""
    at = [knob.name for knob in tensor.grid.knobs].index("tcp_autocorking")
    some = [i for i, row in enumerate(tensor.grid.rows) if row[at] == tensor.grid.rows[tensor.grid.default][at]]
    knobs = tuple(knob for i, knob in enumerate(tensor.grid.knobs) if i != at)
    rows = tuple(tuple(v for i, v in enumerate(tensor.grid.rows[one]) if i != at) for one in some)
    return replace(tensor, grid=Grid(knobs, rows), median_ms=tensor.median_ms[:, some])


def gappy(tensor: Tensor) -> Tensor:
    gone = np.random.default_rng(4).random(tensor.median_ms.shape) < 0.5
    return replace(tensor, median_ms=np.where(gone, np.float32(np.nan), tensor.median_ms))


def other_sites(tensor: Tensor) -> Tensor:
    return replace(tensor, sites=tuple(f"elsewhere{at}" for at in range(len(tensor.sites))))


def unrated(tensor: Tensor) -> Tensor:
    kbps = tensor.bandwidth_kbps.copy()
    kbps[:20] = np.nan
    return replace(tensor, bandwidth_kbps=kbps)


def test_features_are_by_value_and_not_by_place() -> None:
    features, _ = configuration_features(LARGE.grid)
    assert (features_of(LARGE.grid, LARGE.grid.profiles) == features).all()
    between = features_of(LARGE.grid, [Profile("", (("initcwnd", value),)) for value in (10, 14, 16)])
    away = np.linalg.norm(between, axis=1)
    assert away[0] == 0 and 0 < away[1] < away[2]
    strange = [Profile("", (("tcp_congestion_control", "prague"),)), Profile("", (("tcp_rmem", 5),))]
    assert np.isnan(features_of(LARGE.grid, strange)).any(axis=1).all()


def test_what_cannot_be_used_is_counted_in_one_line() -> None:
    few, whole = fewer_knobs(LARGE).grid, len(LARGE.grid)
    for tensor, grid, begins in (
        (OTHER, LARGE.grid, ""), (other_sites(OTHER), LARGE.grid, "the names of 3 of 3 sites (taken for any other)"),
        (unrated(OTHER), LARGE.grid, "20 of 80 conditions"), (OTHER, few, f"{whole - len(few)} of 168 configurations"),
    ):  # fmt: skip
        found = mapped(tensor, grid, SITES).left_out
        assert found.startswith(begins) and bool(found) == bool(begins)
    assert "cells (not measured)" in mapped(gappy(OTHER), LARGE.grid, SITES).left_out
    with pytest.raises(BadInput, match="no condition has a bandwidth"):
        mapped(replace(OTHER, rtt_ms=np.full(80, np.nan)), LARGE.grid, SITES)
    with pytest.raises(BadInput, match="fewer than two"):
        mapped(OTHER.over(OTHER.grid.only([OTHER.grid.default])), LARGE.grid, SITES)


def test_gaps_are_filled_near_what_was_there() -> None:
    whole = np.log(OTHER.median_ms.astype(np.float64)).transpose(0, 2, 1).reshape(-1, 168)
    gone = np.random.default_rng(4).random(whole.shape) < 0.5
    found = filled(np.where(gone, np.nan, whole))
    assert (found[~gone] == whole[~gone]).all() and np.sqrt(((found - whole)[gone] ** 2).mean()) < 0.12
    assert filled(whole) is whole


def test_templates_are_those_of_a_whole_tensor_and_of_ones_own_grid() -> None:
    assert (templates_of(mapped(OTHER, LARGE.grid, SITES), LARGE.grid, 16) == templates(OTHER, 16)).all()  # type: ignore[comparison-overlap,union-attr]
    held = templates_of(mapped(gappy(OTHER), LARGE.grid, SITES), LARGE.grid, 16)
    assert held is not None and len(set(held) & set(templates(OTHER, 16))) >= 4
    less = fewer_knobs(LARGE).grid
    ours = templates_of(mapped(OTHER, less, SITES), less, 16)
    assert ours is not None and ours[0] == less.default and ours.max() < len(less)


def first_excess(warm: Tensor | None) -> float:
    """Mean ln(ms) over the best of the first 1000 sessions, without a budget: by what is believed, proven or not."""
    one = policy("thompson", Setting(LARGE.grid, SITES, small_classes(LARGE), np.random.default_rng(3), 250, warm,
                                     budget=None))  # fmt: skip
    contexts, condition, chosen, _ = lived(one, LARGE, 1000, batch=250)
    took = LARGE.lookup(condition, chosen.configuration, contexts.site)
    return float(np.log(took / LARGE.best_ms[condition, contexts.site]).mean())


@pytest.fixture(scope="module")
def cold() -> float:
    return first_excess(None)


@pytest.mark.slow
@pytest.mark.parametrize("foreign", [other_sites, other_values, fewer_knobs, gappy, unrated])
def test_any_tensor_helps_from_the_first_session(foreign: Callable[[Tensor], Tensor], cold: float) -> None:
    assert first_excess(foreign(OTHER)) < 0.9 * cold


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
    many = replace(contexts, site=np.arange(200) % 100, sites=tuple(f"s{at}" for at in range(100)))
    zeros = np.zeros(200, dtype=np.int64)
    assert len(Loads(TENSOR.grid, many, zeros, np.full(200, 5.0)).sites) == 20
    one = Loads(TENSOR.grid, contexts[slice(0, 1)], zeros[:1], np.array([70.0]))
    assert np.allclose(one.ms(contexts, zeros[:1]), 70.0)


def test_a_loads_time_is_its_own_whichever_are_asked_about_beside_it() -> None:
    loads, every, none = fitted(300), np.arange(len(TENSOR.grid)), np.zeros(0, dtype=np.int64)
    contexts, _ = clients(TENSOR, 3, seed=3)
    assert loads.ms(contexts[none], every).shape == (0, len(every)) and not len(loads.chosen_ms(contexts[none], none))
    both = loads.ms(contexts[:2], every)
    assert np.allclose(both[1:], loads.ms(contexts[1:2], every)) and (both > 0).all()
