"""Thompson sampling: the guardrail holds, exploration dies down, a warm start is heard and can be overruled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from configtron.learner import Setting, policy
from configtron.learner.sim.tensor import Tensor
from configtron.learner.templates import templates
from configtron.learner.thompson import Thompson
from tests.learner.worlds import SITES, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(bent=0.03), small_tensor(seed=9, bent=0.06)
CLASSES = small_classes(TENSOR)


def thompson(warm: Tensor | None = None, **more: object) -> Thompson:
    candidates = None if warm is None else templates(warm, 16)
    return Thompson(
        TENSOR.grid,
        SITES,
        np.random.default_rng(3),
        CLASSES,
        update_every=500,
        warm=warm,
        candidates=candidates,
        **more,
    )


def served_excess(one: Thompson) -> np.ndarray:
    """Upper-confidence excess over Default of what is served, by the policy's own model, for each row and slot."""
    model = one.model()
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
    assert (one.served_.configuration == TENSOR.grid.default).all() and (one.served_.explore == 0.02).all()
    some = thompson(allowance=0.25, guard_ln=0.0)
    away = (some.served_.configuration != TENSOR.grid.default).mean()
    assert 0.1 < away <= 0.25


def test_default_is_measured_in_every_cell() -> None:
    one = thompson(WARM)
    share = one.served_.probabilities(len(TENSOR.grid))[:, TENSOR.grid.default]
    assert (share >= 0.02 - 1e-12).all() and share.min() < 0.03


def test_exploration_dies_down() -> None:
    one = thompson()
    likeliest = []
    for seed in range(4):
        lived(one, TENSOR, 2000, seed=seed)
        likeliest.append(one.served_.probabilities(len(TENSOR.grid)).max(axis=1)[:-1].mean())
    assert likeliest[-1] > likeliest[0] + 0.03


def test_a_warm_start_helps_at_once_and_a_wrong_one_is_overcome() -> None:
    wrong = replace(WARM, median_ms=(1e7 / WARM.median_ms).astype(np.float32))
    first, last, served = {}, {}, {}
    for name, warm, sessions in (("cold", None, 500), ("warm", WARM, 2500), ("wrong", wrong, 12_000)):
        one = policy("thompson", Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 250, warm))
        contexts, condition, chosen, _ = lived(one, TENSOR, sessions, batch=250)
        away = TENSOR.lookup(condition, chosen.configuration, contexts.site) / TENSOR.best_ms[condition, contexts.site]
        served[name] = len(one.candidates_)  # type: ignore[attr-defined]
        first[name], last[name] = np.median(away[:500]), np.median(away[-2000:])
    assert first["warm"] < first["cold"] and last["warm"] < 1.1
    assert last["wrong"] < first["wrong"] - 0.1 and last["wrong"] < 1.15
    assert served["wrong"] == len(TENSOR.grid) > served["warm"], "templates of a world that is not this one"
