# SPDX-License-Identifier: MIT
"""The shared model against the same thing written out: generalised least squares with every term in one matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from configtron.learner.cell_sums import LEVEL_PRECISION
from configtron.learner.features import cell_features, configuration_features, rounds_of
from configtron.learner.linear import (
    Evidence,
    Model,
    Spread,
    SufficientStatistics,
    evidence,
    prior,
    solved,
    sufficient_statistics,
    weights,
)
from configtron.learner.templates import templates
from configtron.learner.tensor_mapping import mapped
from configtron.learner.warmstart import WarmStart, emulated, plain_spread
from configtron.model.grid import live_grid, paper_grid
from configtron.model.tensor import Tensor
from tests.support.worlds import small_tensor

NOISE, RESIDUAL = 0.3, 0.1
# Two classes of three places; covariances that are not diagonal, so that a transposed one shows.
PLACES = 3
SPREAD = Spread(np.array([[0.09, 0.05], [0.05, 0.16]]), np.array([[0.04, -0.01], [-0.01, 0.02]]))
KNOB_SD, SHARE = np.array([0.5, 0.3]), np.array([1.0, 0.6, 0.4])


def small_problem() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    features, cells = rng.standard_normal((6, 2)), rng.standard_normal((6, 3))
    features[0] = 0.0
    count = rng.integers(0, 4, (6, 6)).astype(float)
    mean = np.where(count > 0, 7.0 + rng.standard_normal((6, 6)), 0.0)
    return features, cells, count, mean


def small_model(features, cells, count, mean, known=None):  # type: ignore[no-untyped-def]
    seen: SufficientStatistics = sufficient_statistics(weights(count, NOISE, RESIDUAL), mean, features, PLACES, SPREAD)
    known = known or prior(KNOB_SD, SHARE).plus(evidence(seen, cells))
    return Model(solved(known), seen, features, cells, residual_ln=RESIDUAL)


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


def test_the_mean_is_that_of_one_big_regression() -> None:
    problem = small_problem()
    big, _ = written_out(*problem)
    assert np.allclose(small_model(*problem).mean(), big, atol=3e-3)


def test_the_likelihood_is_that_of_the_data() -> None:
    """Against the normal density of the observations themselves, two beliefs compared."""
    rng = np.random.default_rng(5)
    x, noise = rng.standard_normal((30, 4)), 0.5
    y = x @ np.array([1.0, -1.0, 0.5, 0.0]) + noise * rng.standard_normal(30)
    seen = Evidence(x.T @ x / noise**2, x.T @ y / noise**2)
    beliefs = [
        Evidence(np.eye(4) * k, k * centre) for k, centre in ((1.0, np.zeros(4)), (9.0, np.array([1, 1, 1, 1.0])))
    ]
    plain = []
    for held in beliefs:
        cover = np.linalg.inv(held.precision)
        rest, spread = y - x @ cover @ held.shift, x @ cover @ x.T + noise**2 * np.eye(30)
        plain.append(-0.5 * rest @ np.linalg.solve(spread, rest) - 0.5 * np.linalg.slogdet(spread)[1])
    ours = [solved(held.plus(seen)).weight_ln - solved(held).weight_ln for held in beliefs]
    assert np.isclose(ours[0] - ours[1], plain[0] - plain[1])


def test_draws_spread_as_one_big_regression_says() -> None:
    features, cells, count, mean = small_problem()
    # Without any loads, levels are free and say nothing of the excess; with some, draws given the level spread less.
    blind = small_model(features, cells, 0 * count, 0 * mean)
    _, spread = written_out(features, cells, 0 * count, 0 * mean)
    drawn = blind.draws(4000, np.random.default_rng(1), 1.0)
    assert np.allclose(drawn.var(axis=1)[:, 1:], spread[:, 1:], rtol=0.15) and np.allclose(
        drawn.mean(axis=1), 0, atol=0.1
    )
    informed = small_model(features, cells, count, mean)
    some = informed.draws(4000, np.random.default_rng(1), 1.0, np.array([2, 4]))
    assert np.allclose(some.mean(axis=1), informed.mean()[:, [2, 4]], atol=0.03)
    assert (some.var(axis=1) < drawn.var(axis=1)[:, [2, 4]]).all()


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
    tensor = small_tensor()
    features, sd = configuration_features(tensor.grid)
    one, two, many = (np.trace(warmed(tensor, loads).evidence.precision) for loads in (1.0, 2.0, 1e6))
    assert 1.9 < two / one <= 2.0 and many < 1e5 * one


def test_a_spread_is_found_where_conditions_differ() -> None:
    """Effects that only some conditions have, on all their sites: a class's own, in that direction alone."""
    tensor = small_tensor(conditions=120)
    features, sd = configuration_features(tensor.grid)
    hidden = np.random.default_rng(1).standard_normal(120)
    bent = tensor.median_ms * np.exp(0.3 * hidden[:, None, None] * features[:, 0][None, :, None])
    before = warmed(tensor).spread
    there = replace(tensor, median_ms=bent.astype(np.float32))
    after = warmed(there).spread
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
