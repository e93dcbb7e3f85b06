# SPDX-License-Identifier: MIT
"""A policy as one profile a class and one class a prefix: the class's best, and what it costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.columns import Contexts
from configtron.learner.driver_support import met, reached, tied_configurations, unreached
from configtron.learner.rulebook import present, rulebook
from configtron.model.errors import BadInput
from configtron.model.nouns import Value
from tests.support.worlds import clients, lived, small_classes, small_tensor

TENSOR = small_tensor()
CLASSES = small_classes(TENSOR)


def taught(name: str = "mab_nc"):  # type: ignore[no-untyped-def]
    made = policy(name, Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2), 500, TENSOR, TENSOR))
    lived(made, TENSOR, 6000)
    return made


def whole(book, k: int) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """All settings of a class's profile, defaults and all."""
    named = book.classes[k][1]
    default = dict(TENSOR.grid.profiles[TENSOR.grid.default].settings)
    return default | (dict(book.profiles[named].settings) if named else {})


@pytest.mark.slow
def test_a_class_gets_what_is_fastest_over_its_sites() -> None:
    """Where a model says so. Held against the long way round: every class's clients, site by site."""
    made, (contexts, _) = taught("thompson"), clients(TENSOR, 2000, 5)
    book = rulebook(made, contexts)
    expected, (row, network) = made.expected_ln(), made.where(contexts)
    default = dict(TENSOR.grid.profiles[TENSOR.grid.default].settings)
    for k, (name, named, share) in enumerate(book.classes):
        if not (network == k).any():
            continue
        cells = row[network == k]
        relative = np.exp(expected[cells] - expected[cells][:, [TENSOR.grid.default]]).mean(axis=0)
        # Configurations that the model cannot distinguish tie: either is best.
        assert relative[book.by_class[k]] == pytest.approx(relative.min(), rel=1e-12)
        best = TENSOR.grid.profiles[book.by_class[k]]
        assert whole(book, k) == dict(best.settings) and name == made.class_ids_[k]
        assert share == pytest.approx((network == k).mean())
        assert not named or all(default[knob] != value for knob, value in book.profiles[named].settings)


def test_a_class_gets_what_most_of_its_clients_are_served() -> None:
    """Where every cell is searched on its own, its clients vote; nothing is carried from one cell to another."""
    made, (contexts, _) = taught(), clients(TENSOR, 2000, 5)
    book, (row, network) = rulebook(made, contexts), made.where(contexts)
    for k in range(len(book.classes)):
        votes = np.bincount(made.likeliest()[row[network == k]], minlength=len(TENSOR.grid))
        assert votes[book.by_class[k]] == votes.max() > 0
        assert whole(book, k) == dict(TENSOR.grid.profiles[book.by_class[k]].settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_values_that_no_driver_reaches_stay_at_their_default(name: str) -> None:
    def takes(knob: str, value: Value) -> bool:
        return knob == "tcp_congestion_control" or (knob == "initcwnd" and value != 1)

    among = reached(TENSOR.grid, takes)
    made, (contexts, _) = taught(name), clients(TENSOR, 2000, 5)
    every, book = rulebook(made, contexts), rulebook(made, contexts, among=among)
    assert set(unreached(TENSOR.grid, takes)) == {"pacing", "tcp_autocorking", "http_version"}
    used = {knob for profile in every.profiles.values() for knob, _ in profile.settings}
    assert used - {"tcp_congestion_control", "initcwnd"}, "nothing unreached was wanted: the test is empty"
    for profile in book.profiles.values():
        assert all(takes(knob, value) for knob, value in profile.settings)
    assert among[book.by_class].all() and not among[every.by_class].all()
    if name == "thompson":
        # the best of those within reach, not the best of all with its other knobs put back
        row, network = made.where(contexts)
        cost = made.cost(among)
        total = np.array([cost[row[network == k]].sum(axis=0) for k in range(len(book.classes))])
        ours = total[np.arange(len(total)), book.by_class]
        assert ours == pytest.approx(total.min(axis=1), rel=1e-12), "or a tie of the best"
        assert (book.by_class != tied_configurations(TENSOR.grid, among)[every.by_class]).any()


def test_the_nearest_within_reach_shares_most_settings() -> None:
    grid = TENSOR.grid
    among = reached(grid, lambda knob, _: knob != "http_version")
    found, column = tied_configurations(grid, among), grid.column("http_version")
    away = (grid.positions != grid.positions[found]).sum(axis=1)
    assert (found[among] == np.flatnonzero(among)).all() and (away[~among] == 1).all()
    assert (column[found] == column[grid.default]).all()


def test_names_are_those_that_tune_takes() -> None:
    book = rulebook(taught(), clients(TENSOR, 500)[0])
    assert book.profiles and all(re.fullmatch(r"learned[A-Za-z0-9-]{1,24}", name) for name in book.profiles)
    assert set(book.prefixes.values()) <= set(book.profiles)


def test_a_prefix_is_where_its_clients_are() -> None:
    made = taught()
    far = Contexts(np.array([1e5, 1e5, 2e2]), np.array([10.0, 11.0, 500.0]), np.zeros(3), np.zeros(3, np.int64),
                   TENSOR.sites, np.zeros(3, np.int64), ("192.0.2.0/24",))  # fmt: skip
    book = rulebook(made, far)
    named = {class_id: name for class_id, name, _ in book.classes}
    median = made.cells.classes_.ids[int(made.cells.classes_.of(far[1:2])[0])]
    assert book.prefixes.get("192.0.2.0/24", "") == named[median]
    assert median != made.cells.classes_.ids[int(made.cells.classes_.of(far[2:])[0])]
    assert present(far).bandwidth_kbps == 1e5 and present(far).rtt_ms == 11.0 and present(far, "shop").site == "shop"
    unknown = Contexts(*(np.array([np.nan]) for _ in range(3)), np.array([-1]), (), np.array([0]), ("192.0.2.0/24",))
    assert present(unknown).rtt_ms is None
    with pytest.raises(BadInput, match="no client"):
        rulebook(made, unknown)
    with pytest.raises(BadInput, match="no classes"):
        rulebook(policy("default", Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2))), far)


def test_values_that_were_never_loaded_are_not_met() -> None:
    grid = TENSOR.grid
    loads = np.where(grid.column("initcwnd") == 0, 0.0, 50.0)
    assert met(grid, loads)[grid.default] and not met(grid, loads)[(grid.column("initcwnd") == 0)].any()
    assert met(grid, loads)[grid.column("initcwnd") != 0].all() and met(grid, np.zeros(len(grid))).sum() == 1
