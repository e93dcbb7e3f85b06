"""The shared model against the same thing written out: generalised least squares with every term in one matrix."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.errors import BadInput
from configtron.learner import Setting, policy
from configtron.learner.features import cell_features, configuration_features, heaviness
from configtron.learner.grid import live_grid, paper_grid
from configtron.learner.linear import LEVEL_PRECISION, Evidence, Model, evidence, likelihood_ln, prior, weights
from configtron.learner.templates import regret, templates
from configtron.learner.thompson import emulated
from tests.learner.worlds import small_classes, small_tensor

NOISE, RESIDUAL = 0.3, 0.1


def small_problem() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    features, cells = rng.standard_normal((6, 2)), rng.standard_normal((5, 3))
    features[0] = 0.0
    count = rng.integers(0, 4, (5, 6)).astype(float)
    mean = np.where(count > 0, 7.0 + rng.standard_normal((5, 6)), 0.0)
    return features, cells, count, mean


def written_out(features, cells, count, mean, knob_sd, share):  # type: ignore[no-untyped-def]
    """Posterior mean of (T, levels, residuals) as one linear model with every unknown a column."""
    used = np.argwhere(count > 0)
    wide, deep = len(cells), len(features)
    rows, y, noise = [], [], []
    for c, k in used:
        level, own = np.zeros(wide), np.zeros((wide, deep))
        level[c], own[c, k] = 1.0, 1.0
        rows.append(np.concatenate((np.outer(features[k], cells[c]).ravel(), level, own.ravel())))
        y.append(mean[c, k])
        noise.append(NOISE**2 / count[c, k])
    x, weight = np.array(rows), np.diag(1.0 / np.array(noise))
    spread = np.outer(knob_sd, share).ravel()
    precision = np.diag(
        np.concatenate((spread**-2, np.full(wide, LEVEL_PRECISION), np.full(wide * deep, RESIDUAL**-2)))
    )
    return np.linalg.solve(x.T @ weight @ x + precision, x.T @ weight @ np.array(y)), spread


def test_the_mean_is_that_of_one_big_regression() -> None:
    features, cells, count, mean = small_problem()
    knob_sd, share = np.array([0.5, 0.3]), np.array([1.0, 0.6, 0.4])
    known = prior(knob_sd, share).plus(evidence(weights(count, NOISE, RESIDUAL), mean, features, cells))
    model = Model(known, features, cells, count, mean, noise_ln=NOISE, residual_ln=RESIDUAL)
    big, _ = written_out(features, cells, count, mean, knob_sd, share)
    effect, own = big[:6].reshape(2, 3), big[6 + 5 :].reshape(5, 6)
    assert np.allclose(model.mean(), cells @ effect.T @ features.T + own, atol=2e-3)


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
    ours = [likelihood_ln(held, seen) for held in beliefs]
    assert np.isclose(ours[0] - ours[1], plain[0] - plain[1])


def test_draws_spread_as_the_variance_says() -> None:
    features, cells, count, mean = small_problem()
    known = prior(np.array([0.5, 0.3]), np.array([1.0, 0.6, 0.4]))
    known = known.plus(evidence(weights(count, NOISE, RESIDUAL), mean, features, cells))
    blind = Model(known, features, cells, 0 * count, mean, noise_ln=NOISE, residual_ln=RESIDUAL)
    rng = np.random.default_rng(1)
    drawn = np.stack([blind.draw(rng, 1.0) for _ in range(4000)])
    expected = blind.variance() + RESIDUAL**2
    assert np.allclose(drawn.var(axis=0), expected, rtol=0.12)
    assert np.allclose(drawn.mean(axis=0), blind.mean(), atol=0.1)


def test_default_has_no_excess() -> None:
    for grid in (live_grid(), paper_grid()):
        features, prior_sd = configuration_features(grid)
        assert not features[grid.default].any() and features.shape == (len(grid), len(prior_sd))
        assert np.linalg.matrix_rank(features) == features.shape[1], "two features say the same"


def test_any_other_site_is_the_network_alone() -> None:
    features, share = cell_features(np.array([[8.5, 4.4, -5.0], [9.0, 3.0, -6.0]]), np.array([0.5, 0.0, -0.5]))
    assert features.shape == (8, len(share)) and not features[[3, 7], 10:].any() and features[0, 10] == 1.0
    assert (features[3, :4] == [1, 0, 0, 0]).all()


def test_a_sites_heaviness_is_found_between_unlike_classes() -> None:
    rng = np.random.default_rng(1)
    truth, level = np.array([0.8, 0.0, -0.8]), rng.uniform(5, 9, (20, 1))
    loads = rng.integers(0, 30, (20, 3)).astype(float)
    seen = np.where(loads > 0, level + truth + 0.2 * rng.standard_normal((20, 3)), np.nan)
    assert np.allclose(heaviness(seen, loads, np.zeros(3)), truth, atol=0.12)
    nothing = np.full((20, 3), np.nan)
    assert np.allclose(heaviness(nothing, loads, truth), truth)


def test_another_worlds_tensor_is_no_warm_start() -> None:
    tensor = small_tensor()
    other = Setting(tensor.grid, ("elsewhere",), small_classes(tensor), np.random.default_rng(1), 500, tensor)
    with pytest.raises(BadInput, match="other configurations or sites"):
        policy("thompson", other)


def test_a_warm_start_counts_as_stated() -> None:
    tensor = small_tensor()
    features, _ = configuration_features(tensor.grid)
    one, two = emulated(tensor, features, 1000.0), emulated(tensor, features, 2000.0)
    for a, b in ((one.precision, two.precision), (one.shift, two.shift)):
        assert np.abs(2 * a - b).max() < 0.01 * np.abs(b).max()


def test_templates_begin_with_default_and_leave_ever_less() -> None:
    tensor = small_tensor()
    held = templates(tensor, 12)
    assert held[0] == tensor.grid.default and len(set(held.tolist())) == 12
    left = [regret(tensor, held[:n]).mean() for n in (1, 4, 8, 12)]
    assert left == sorted(left, reverse=True) and left[-1] < 0.02 < left[0]
