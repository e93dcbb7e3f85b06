# SPDX-License-Identifier: MIT
"""Warm starts from any tensor: other sites, other grids, gaps, conditions without rates; nonsense is found out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.features import configuration_features, features_of
from configtron.learner.policies.thompson import Thompson
from configtron.learner.templates import templates, templates_of
from configtron.learner.tensor_mapping import filled, mapped
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Profile
from configtron.model.tensor import Tensor
from tests.support.worlds import SITES, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(conditions=80, bent=0.03), small_tensor(seed=9, conditions=80, bent=0.06)
CLASSES = small_classes(TENSOR)


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


def gappy(tensor: Tensor, share: float = 0.5) -> Tensor:
    gone = np.random.default_rng(4).random(tensor.median_ms.shape) < share
    return replace(tensor, median_ms=np.where(gone, np.float32(np.nan), tensor.median_ms))


def other_sites(tensor: Tensor) -> Tensor:
    return replace(tensor, sites=tuple(f"elsewhere{at}" for at in range(len(tensor.sites))))


def unrated(tensor: Tensor) -> Tensor:
    kbps = tensor.bandwidth_kbps.copy()
    kbps[:20] = np.nan
    return replace(tensor, bandwidth_kbps=kbps)


def made(warm: Tensor | None, grid: Grid = TENSOR.grid, **more: float | None) -> Thompson:
    setting = Setting(grid, SITES, CLASSES, np.random.default_rng(3), 250, warm)
    found = policy("thompson", replace(setting, **more))  # type: ignore[arg-type]
    assert isinstance(found, Thompson)
    return found


def test_features_are_by_value_and_not_by_place() -> None:
    features, _ = configuration_features(TENSOR.grid)
    assert (features_of(TENSOR.grid, TENSOR.grid.profiles) == features).all()
    between = features_of(TENSOR.grid, [Profile("", (("initcwnd", value),)) for value in (10, 14, 16)])
    away = np.linalg.norm(between, axis=1)
    assert away[0] == 0 and 0 < away[1] < away[2]
    strange = [Profile("", (("tcp_congestion_control", "prague"),)), Profile("", (("tcp_rmem", 5),))]
    assert np.isnan(features_of(TENSOR.grid, strange)).any(axis=1).all()


def test_what_cannot_be_used_is_counted_in_one_line() -> None:
    assert mapped(WARM, TENSOR.grid, SITES).left_out == ""
    assert mapped(other_sites(WARM), TENSOR.grid, SITES).left_out == "the names of 3 of 3 sites (taken for any other)"
    assert mapped(unrated(WARM), TENSOR.grid, SITES).left_out.startswith("20 of 80 conditions")
    assert "cells (not measured)" in mapped(gappy(WARM), TENSOR.grid, SITES).left_out
    less = mapped(WARM, fewer_knobs(TENSOR).grid, SITES)
    assert less.left_out.startswith(f"{168 - len(fewer_knobs(TENSOR).grid)} of 168 configurations")
    with pytest.raises(BadInput, match="no condition has a bandwidth"):
        mapped(replace(WARM, rtt_ms=np.full(80, np.nan)), TENSOR.grid, SITES)
    alone = WARM.over(WARM.grid.only([WARM.grid.default]))
    with pytest.raises(BadInput, match="fewer than two"):
        mapped(alone, TENSOR.grid, SITES)


def test_gaps_are_filled_near_what_was_there() -> None:
    whole = np.log(WARM.median_ms.astype(np.float64)).transpose(0, 2, 1).reshape(-1, 168)
    gone = np.random.default_rng(4).random(whole.shape) < 0.5
    found = filled(np.where(gone, np.nan, whole))
    assert (found[~gone] == whole[~gone]).all() and np.sqrt(((found - whole)[gone] ** 2).mean()) < 0.12
    assert filled(whole) is whole


def test_templates_are_those_of_a_whole_tensor_and_of_ones_own_grid() -> None:
    assert (templates_of(mapped(WARM, TENSOR.grid, SITES), TENSOR.grid, 16) == templates(WARM, 16)).all()  # type: ignore[comparison-overlap,union-attr]
    held = templates_of(mapped(gappy(WARM), TENSOR.grid, SITES), TENSOR.grid, 16)
    assert held is not None and len(set(held) & set(templates(WARM, 16))) >= 4
    less = fewer_knobs(TENSOR).grid
    ours = templates_of(mapped(WARM, less, SITES), less, 16)
    assert ours is not None and ours[0] == less.default and ours.max() < len(less)


def first_excess(warm: Tensor | None, sessions: int = 1000) -> float:
    """Mean ln(ms) over the best of the first sessions, without a budget: by what is believed, proven or not."""
    one = made(warm, budget=None)
    contexts, condition, chosen, _ = lived(one, TENSOR, sessions, batch=250)
    took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
    return float(np.log(took / TENSOR.best_ms[condition, contexts.site]).mean())


@pytest.mark.slow
@pytest.mark.parametrize("foreign", [other_sites, other_values, fewer_knobs, gappy, unrated])
def test_any_tensor_helps_from_the_first_session(foreign) -> None:  # type: ignore[no-untyped-def]
    cold = first_excess(None)
    assert first_excess(foreign(WARM)) < 0.9 * cold


@pytest.mark.slow
def test_nonsense_is_found_out_and_costs_no_more_than_chance() -> None:
    nonsense = np.random.default_rng(2).permuted(WARM.median_ms, axis=1)
    one = made(replace(WARM, median_ms=nonsense))
    # Within the budget few loads put it to the test at first.
    lived(one, TENSOR, 8000, batch=250)
    assert one.model.distrusted and len(one.model.candidates_) == len(TENSOR.grid)
    late: dict[str, list[float]] = {"cold": [], "nonsense": []}
    for seed in (3, 5):
        for name, warm in (("cold", None), ("nonsense", replace(WARM, median_ms=nonsense))):
            found = policy("thompson", Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(seed), 250, warm))
            contexts, condition, chosen, _ = lived(found, TENSOR, 8000, seed=seed, batch=250)
            took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
            late[name].append(np.log(took / TENSOR.best_ms[condition, contexts.site])[7000:].mean())
    assert np.mean(late["nonsense"]) < np.mean(late["cold"]) + 0.02


@pytest.mark.slow
def test_a_saved_policy_goes_on_alike() -> None:
    one, again = made(other_values(gappy(WARM))), made(other_values(gappy(WARM)))
    lived(one, TENSOR, 1000, batch=250)
    again.restore(one.save())
    for each in (one, again):
        lived(each, TENSOR, 500, seed=3, batch=250)
    assert one.save() == again.save()
