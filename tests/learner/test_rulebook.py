"""A policy as one profile a class and one class a prefix: the class's best, and what it costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from configtron.errors import BadInput
from configtron.learner import Setting, policy
from configtron.learner.columns import Contexts
from configtron.learner.rulebook import present, rulebook
from tests.learner.worlds import clients, lived, small_classes, small_tensor

TENSOR = small_tensor()
CLASSES = small_classes(TENSOR)


def taught(name: str = "mab_nc"):  # type: ignore[no-untyped-def]
    made = policy(name, Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2), 500, TENSOR, TENSOR))
    lived(made, TENSOR, 6000)
    return made


def test_a_class_gets_what_is_fastest_over_its_sites() -> None:
    """Held against the long way round: every class's clients, site by site."""
    made, (contexts, _) = taught(), clients(TENSOR, 2000, 5)
    book = rulebook(made, contexts)
    expected, row = made.expected_ln(), made.where(contexts)[0]
    network = made.where(contexts)[1]
    for k, (name, named, share) in enumerate(book.classes):
        cells = row[network == k]
        relative = np.exp(expected[cells] - expected[cells][:, [TENSOR.grid.default]])
        best = TENSOR.grid.profiles[int(relative.mean(axis=0).argmin())]
        set_ = dict(book.profiles[named].settings) if named else {}
        default = dict(TENSOR.grid.profiles[TENSOR.grid.default].settings)
        assert {**default, **set_} == dict(best.settings) and name == made.class_ids_[k]
        assert share == pytest.approx((network == k).mean())
        assert all(default[knob] != value for knob, value in set_.items())


def test_names_are_those_that_tune_takes() -> None:
    book = rulebook(taught(), clients(TENSOR, 500)[0])
    assert book.profiles and all(re.fullmatch(r"learned[A-Za-z0-9-]{1,24}", name) for name in book.profiles)
    assert set(book.prefixes.values()) <= set(book.profiles)


def test_the_loss_is_against_the_policy() -> None:
    """One profile for all sites costs something; for clients of one site it costs nothing but exploration."""
    made, (contexts, _) = taught("thompson"), clients(TENSOR, 2000, 5)
    several = rulebook(made, contexts).loss
    one_site = contexts[np.flatnonzero(contexts.site == 0)]
    single = rulebook(made, one_site).loss
    assert several.p95 > max(single.p95, 0.0) and single.mean <= 0.0 and single.mean < several.mean


def test_a_prefix_is_where_its_clients_are() -> None:
    made = taught()
    far = Contexts(np.array([1e5, 1e5, 2e2]), np.array([10.0, 11.0, 500.0]), np.zeros(3), np.zeros(3, np.int64),
                   TENSOR.sites, np.zeros(3, np.int64), ("192.0.2.0/24",))  # fmt: skip
    book = rulebook(made, far)
    named = {class_id: name for class_id, name, _ in book.classes}
    median = made.classes_.ids[int(made.classes_.of(far[1:2])[0])]
    assert book.prefixes.get("192.0.2.0/24", "") == named[median]
    assert median != made.classes_.ids[int(made.classes_.of(far[2:])[0])]
    assert present(far).bandwidth_kbps == 1e5 and present(far).rtt_ms == 11.0 and present(far, "shop").site == "shop"
    unknown = Contexts(*(np.array([np.nan]) for _ in range(3)), np.array([-1]), (), np.array([0]), ("192.0.2.0/24",))
    assert present(unknown).rtt_ms is None
    with pytest.raises(BadInput, match="no client"):
        rulebook(made, unknown)
    with pytest.raises(BadInput, match="no classes"):
        rulebook(policy("default", Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2))), far)
