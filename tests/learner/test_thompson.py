# SPDX-License-Identifier: MIT
"""Thompson sampling: the guardrail holds, exploration dies down, a warm start is heard and can be overruled."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from configtron.learner import policy
from configtron.learner.policies.thompson import Thompson, ThompsonOptions
from configtron.learner.setting import Setting
from configtron.learner.shared_model import ModelOptions
from configtron.learner.state import decode, encode
from configtron.learner.templates import templates
from configtron.model.tensor import Tensor
from tests.support.worlds import SITES, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(bent=0.03), small_tensor(seed=9, bent=0.06)
CLASSES = small_classes(TENSOR)


def thompson(warm: Tensor | None = None, **more: Any) -> Thompson:
    """more: fields of `Setting`, `ModelOptions` or `ThompsonOptions`."""
    model: dict[str, Any] = {"candidates": None if warm is None else templates(warm, 16)}
    setting, options = dict[str, Any](), dict[str, Any]()
    for name, value in more.items():
        kinds = ((setting, Setting), (model, ModelOptions), (options, ThompsonOptions))
        next(given for given, kind in kinds if name in {field.name for field in fields(kind)})[name] = value
    rng = np.random.default_rng(3)
    made = Setting(TENSOR.grid, SITES, CLASSES, rng, warm=warm, **setting)
    return Thompson(made, ThompsonOptions(model=ModelOptions(**model), **options))


def served_excess(one: Thompson) -> np.ndarray:
    """Upper-confidence excess over Default of what is served, by the policy's own model, for each row and slot."""
    model = one.model.model()
    mean = model.mean()
    excess = mean - mean[:, one.grid.default, None]
    return np.take_along_axis(excess, one.served_.configuration, axis=1)


def test_the_guardrail_serves_nothing_that_is_likely_slower() -> None:
    guarded, free = thompson(allowance=0.0, guard_ln=0.0), thompson(guard_ln=None)
    for one in (guarded, free):
        lived(one, TENSOR, 1000)
    assert (served_excess(guarded) <= 1e-9).all() and (served_excess(free) > 0.02).any()


def test_nothing_known_nothing_allowed_is_default() -> None:
    one = thompson(allowance=0.0, guard_ln=0.0)
    assert one.served_.probabilities(len(TENSOR.grid))[:, TENSOR.grid.default] == pytest.approx(1.0)
    some = thompson(allowance=0.25, budget=None)
    away = 1.0 - some.served_.probabilities(len(TENSOR.grid))[:, TENSOR.grid.default].mean()
    assert 0.1 < away <= 0.26


def test_before_anything_is_known_few_sessions_try_one_knob_at_a_time() -> None:
    default, positions = TENSOR.grid.default, TENSOR.grid.positions
    for every in (0, 500, 10_000):
        one = thompson(update_every=every)
        share = one.served_.probabilities(len(TENSOR.grid))
        assert np.allclose(share.sum(axis=1), 1.0)
        tried = np.flatnonzero(share.max(axis=0) > 0)
        assert ((positions[tried] != positions[default]).sum(axis=1) <= 1).all()
        assert 0.005 < 1.0 - share[:, default].mean() < 0.1, every


def test_a_large_batch_is_not_left_to_few_draws() -> None:
    kinds = {every: (thompson(update_every=every).served_.probabilities(len(TENSOR.grid)) > 0).sum(axis=1).mean()
             for every in (100, 10_000)}  # fmt: skip
    assert kinds[10_000] > 1.3 * kinds[100]


def test_default_is_measured_in_every_cell() -> None:
    # Without a budget: within one, a warm start that no load has proven leaves most sessions to Default.
    one = thompson(WARM, budget=None)
    share = one.served_.probabilities(len(TENSOR.grid))[:, TENSOR.grid.default]
    assert (share >= 0.01 - 1e-12).all() and share.min() < 0.02


@pytest.mark.slow
def test_exploration_dies_down() -> None:
    one = thompson(budget=None)
    likeliest = []
    for seed in range(4):
        lived(one, TENSOR, 2000, seed=seed)
        likeliest.append(one.served_.probabilities(len(TENSOR.grid)).max(axis=1)[:-1].mean())
    # One update's draws move it by as much as two thousand loads do: three later ones together.
    assert np.mean(likeliest[1:]) > likeliest[0] + 0.02


@pytest.mark.slow
def test_a_warm_start_helps_at_once_and_a_wrong_one_is_overcome() -> None:
    wrong = replace(WARM, median_ms=(1e7 / WARM.median_ms).astype(np.float32))
    first, last, served = {}, {}, {}
    for name, warm, sessions in (("cold", None, 500), ("warm", WARM, 6000), ("wrong", wrong, 12_000)):
        one = policy("thompson", Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 250, warm))
        contexts, condition, chosen, _ = lived(one, TENSOR, sessions, batch=250)
        away = TENSOR.lookup(condition, chosen.configuration, contexts.site) / TENSOR.best_ms[condition, contexts.site]
        served[name] = len(one.model.candidates_)  # type: ignore[attr-defined]
        first[name], last[name] = np.median(away[:500]), np.median(away[-2000:])
    # Within the budget a warm start helps as soon as some of its own choices have come back, not before.
    assert first["warm"] < first["cold"] and last["warm"] < 1.1
    assert last["wrong"] < first["wrong"] - 0.1 and last["wrong"] < 1.15
    assert served["wrong"] == len(TENSOR.grid) > served["warm"], "templates of a world that is not this one"


@pytest.mark.slow
def test_what_is_solved_once_is_not_kept_too_long() -> None:
    """What features predict moves with every look, and an earlier state that is restored predicts as it did then."""
    one = thompson(part_at=0)
    lived(one, TENSOR, 500)
    early, state = one.model.model().shared(), one.save()
    lived(one, TENSOR, 1500, seed=2)
    assert (one.model.model().shared() != early).any()
    one.restore(state)
    assert (one.model.model().shared() == early).all()


def test_the_noise_that_weighs_loads_is_found_anew_when_loads_have_grown_and_is_saved() -> None:
    """Until then a restored policy weighs as the saved one does; a state of before it was saved still loads."""
    one, again, earlier = (thompson(part_at=0) for _ in range(3))
    lived(one, TENSOR, 7500)
    assert one.model.noise_ln_ != one.cells.noise_ln()
    again.restore(one.save())
    state = decode(one.save())
    del state["own"]["noise_ln_"]
    earlier.restore(encode(state))
    assert earlier.model.noise_ln_ == one.cells.noise_ln()
    for each in (one, again):
        lived(each, TENSOR, 500, seed=2)
    assert one.save() == again.save()
    lived(one, TENSOR, 2000, seed=3)
    assert one.model.noise_ln_ != again.model.noise_ln_


def cut(log_ms_off: float = 0.0) -> Thompson:
    """A policy that cut its classes, after 1500 loads; a tenth of the last 500 may be off by some ln(ms)."""
    one = thompson(WARM, part_at=1000)
    lived(one, TENSOR, 1000)
    contexts, _, chosen, ms = lived(thompson(WARM, part_at=0), TENSOR, 500, seed=2)
    where = one.where(contexts)
    off = np.exp(log_ms_off * (np.arange(500) % 10 == 0))
    one.observe_many(contexts, replace(chosen, row=where[0], network=where[1]), ms * off)
    return one


@pytest.mark.slow
def test_classes_are_cut_twice_and_nothing_is_lost() -> None:
    one = cut()
    # Loads far off count less than whole; more than the noise's own tail has, none does.
    assert len(one.cells.classes_) > 3 * len(CLASSES) and 0.98 * 1500 < one.cells.tally_.count.sum() <= 1500
    assert one.served_.weight.shape[0] == one.cells.rows == len(one.cells.tally_.count)
    before, again = len(one.cells.classes_), thompson(WARM, part_at=1000)
    again.restore(one.save())
    for each in (one, again):
        lived(each, TENSOR, 1500, seed=3)
    finer = len(one.cells.classes_)
    assert finer > before and one.save() == again.save()
    lived(one, TENSOR, 1500, seed=4)
    assert len(one.cells.classes_) == finer, "after twice as many loads for the last time"
    assert (one.cells.recent_.network == one.cells.classes_.assign(one.cells.recent_.point)).all()


@pytest.mark.slow
def test_a_far_load_counts_as_far_as_loads_go() -> None:
    usual, late, further = (
        one.cells.tally_.total.sum() / one.cells.tally_.count.sum() for one in (cut(), cut(3.0), cut(6.0))
    )
    assert 0.2 < (late - usual) * 1500 / 50 < 2.0, "e-folds that three e-folds of bad luck were taken for, on average"
    assert further < late + 0.01, "and further off no more"


def test_loads_are_as_at_the_centroid_they_belong_to_now() -> None:
    """A class of a wide network is cut; its slopes say by how much each part differs; levels must not mix."""
    one = thompson(WARM, part_at=1000)
    one.model.slopes_ = replace(one.model.slopes_, cross=one.model.slopes_.cross + np.array([-60.0, 0.0, 0.0]))
    before, slope = one.cells.classes_, one.model.slopes_.slopes()
    lived(one, TENSOR, 500)
    seen = one.cells.recent_
    one.cells.classes_ = replace(before, centroid=before.centroid + np.array([0.5, 0.0, 0.0]))
    moved = one.model._moved(seen, one.cells._reassigned(seen), before)
    stayed = moved.network == seen.network
    assert stayed.any() and slope[:, 0].max() < 0
    expected = 0.5 * one.model.slopes_.slopes()[seen.network[stayed], 0]
    assert np.allclose((moved.log_ms - seen.log_ms)[stayed], expected) and (expected < 0).all()
