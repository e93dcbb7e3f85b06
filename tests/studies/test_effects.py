# SPDX-License-Identifier: MIT
"""Shares of variance: what was put in comes out, nothing comes out of nothing, intervals hold what other runs have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from configtron.studies.flows.effects import (
    DIRECTION,
    EFFECTS,
    MOMENT,
    PATH,
    SCHEME,
    Figures,
    balanced,
    effects,
    shares,
)

# Paths, directions, moments, schemes, runs.
SHAPE = (5, 2, 3, 6, 3)


def along(*axes: int, seed: int = 1) -> Figures:
    """Numbers that differ along these axes alone."""
    shape = [SHAPE[axis] if axis in axes else 1 for axis in range(len(SHAPE))]
    return np.random.default_rng(seed).normal(size=shape) + np.zeros(SHAPE)


def share_of(figures: Figures) -> dict[str, float]:
    return dict(zip(EFFECTS, shares(figures), strict=True))


@pytest.mark.parametrize(
    ("axes", "name"),
    [
        ((PATH,), "path"),
        ((SCHEME,), "scheme"),
    ],
)
def test_a_pure_effect_has_the_whole_variance(axes: tuple[int, ...], name: str) -> None:
    assert share_of(along(*axes))[name] == pytest.approx(1.0)


def test_nested_effects_are_within_their_levels() -> None:
    direction = along(PATH, DIRECTION)
    direction -= direction.mean(axis=DIRECTION, keepdims=True)
    moment = along(PATH, DIRECTION, MOMENT)
    moment -= moment.mean(axis=MOMENT, keepdims=True)
    assert share_of(direction)["direction"] == pytest.approx(1.0)
    assert share_of(moment)["time"] == pytest.approx(1.0)
    by_time = moment * along(SCHEME)
    by_time -= by_time.mean(axis=SCHEME, keepdims=True)
    assert share_of(by_time)["scheme by time"] == pytest.approx(1.0)


def test_shares_add_up() -> None:
    figures = np.random.default_rng(2).normal(size=SHAPE)
    assert sum(shares(figures)) == pytest.approx(1.0) and all(shares(figures) > 0)
    # of noise alone, most is the runs'
    assert share_of(figures)["runs"] == pytest.approx(2 / 3, abs=0.05)
    assert list(shares(np.ones(SHAPE))) == [0.0] * len(EFFECTS)


def noisy(chance: np.random.Generator, *parts: Figures) -> Figures:
    """The parts, and what one run has for all schemes, and for one."""
    common = chance.normal(size=(*SHAPE[:3], 1, SHAPE[4]))
    return sum(parts, 0.7 * common + 0.7 * chance.normal(size=SHAPE))


@pytest.mark.slow
def test_what_is_there_is_seen_and_nothing_else() -> None:
    """Paths, moments and schemes differ, directions and orders do not: twenty times."""
    chance = np.random.default_rng(3)
    parts = (4 * along(PATH), along(PATH, DIRECTION, MOMENT, seed=4), 0.5 * along(SCHEME))
    seen = dict.fromkeys(EFFECTS, 0)
    for _ in range(20):
        for effect in effects(noisy(chance, *parts), chance, 100):
            seen[effect.name] += effect.is_seen
    assert min(seen[name] for name in ("path", "time", "scheme")) >= 19
    assert max(seen[name] for name in ("direction", "scheme by path", "scheme by direction", "scheme by time")) <= 4
    assert seen["runs"] == 0


@pytest.mark.slow
def test_labels_without_meaning_show_nothing() -> None:
    chance = np.random.default_rng(5)
    seen = [[one.is_seen for one in effects(chance.normal(size=SHAPE), chance, 100)] for _ in range(20)]
    assert np.sum(seen) <= 20 * 7 * 0.1


@pytest.mark.slow
def test_intervals_hold_what_other_runs_have() -> None:
    chance = np.random.default_rng(6)
    parts = (4 * along(PATH), along(PATH, DIRECTION, MOMENT, seed=4), 0.5 * along(SCHEME))
    others = np.mean([shares(noisy(chance, *parts)) for _ in range(300)], axis=0)
    held = []
    for _ in range(20):
        found = effects(noisy(chance, *parts), chance, 100)
        held.append([one.low <= other <= one.high for one, other in zip(found, others, strict=True)])
    assert np.mean(held) > 0.85 and np.mean(held, axis=0).min() >= 0.7


def test_gaps_are_filled_or_their_scheme_is_left_out() -> None:
    figures = np.random.default_rng(7).normal(size=SHAPE)
    figures[0, 0, 0, 1, 0] = math.nan
    figures[1, 1, 2, 4] = math.nan
    found = balanced(figures)
    assert (found.schemes, found.filled) == ([0, 1, 2, 3, 5], 1) and not np.isnan(found.figures).any()
    assert found.figures[0, 0, 0, 1, 0] == pytest.approx(figures[0, 0, 0, 1, 1:].mean())
    assert balanced(np.full(SHAPE, math.nan)).schemes == []


def test_the_same_chance_gives_the_same_effects() -> None:
    figures = np.random.default_rng(8).normal(size=SHAPE)
    one, two = (effects(figures, np.random.default_rng(9), 20)[:-1] for _ in range(2))
    assert one == two
