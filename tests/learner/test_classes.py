# SPDX-License-Identifier: MIT
"""Network classes: one rule for agent and learner, and k by the one-sigma rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.classes import choose_k, fit, fit_by_device, of_tensor, spreads
from configtron.learner.columns import Contexts
from configtron.model.errors import BadInput
from configtron.model.nearest import nearest
from configtron.model.nouns import Context
from tests.support.worlds import clients, small_classes, small_tensor


def test_agent_and_learner_agree_on_the_nearest() -> None:
    tensor = small_tensor()
    classes = small_classes(tensor)
    contexts, _ = clients(tensor, 300, noise=0.5)
    nouns = classes.nouns()
    found = [nearest(nouns, contexts.row(i)) for i in range(300)]
    assert [noun.id for noun in found if noun] == [classes.ids[k] for k in classes.assign(contexts.points())]


def test_devices_have_classes_of_their_own() -> None:
    tensor = small_tensor()
    contexts, _ = clients(tensor, 900, noise=0.5)
    device = np.random.default_rng(2).integers(-1, 3, 900)
    contexts = replace(contexts, device=device, devices=("phone", "desktop", "rare"))
    rare = np.flatnonzero(device == 2)[30:]
    device[rare] = 0
    classes = fit_by_device(contexts, 4, np.random.default_rng(1), least_members=100)
    assert set(classes.devices) == {"", "phone", "desktop"} and len(set(classes.ids)) == 12
    code, nouns = classes.of(contexts), classes.nouns()
    found = [nearest(nouns, contexts.row(i)) for i in range(900)]
    assert [noun.id for noun in found if noun] == [classes.ids[k] for k in code]
    whose = np.array(classes.devices)[code]
    assert set(whose[device == 0]) == {"phone"} and set(whose[device == 2]) == set(whose[device == -1]) == {""}
    assert (classes.again(code, contexts.points()) == code).all()
    alone = replace(contexts, device=np.zeros(0, dtype=np.int64), devices=())
    assert set(np.array(classes.devices)[classes.of(alone)]) == {""}


def test_unknown_features_are_of_no_class() -> None:
    classes = small_classes(small_tensor())
    columns = [np.array([np.nan, 5000.0]), np.array([50.0, 50.0]), np.array([0.0, 0.0])]
    assert list(classes.assign(Contexts(*columns, np.zeros(2, dtype=np.int64), ("a",)).points()) >= 0) == [False, True]
    assert nearest(classes.nouns(), Context(rtt_ms=50.0, loss=0.0)) is None


@pytest.mark.slow
def test_k_is_the_smallest_that_is_tight_enough() -> None:
    tensor = small_tensor(conditions=60)
    contexts, condition = clients(tensor, 2000, noise=0.0)
    log_ms = np.log(tensor.lookup(condition, np.full(2000, tensor.grid.default), contexts.site))
    sizes = []
    for sigma in (10.0, 0.3, 0.1):
        rng = np.random.default_rng(1)
        classes = choose_k(contexts.points(), log_ms, contexts.site, rng, sigma_ln=sigma, candidates=(2, 8, 16, 32))
        sizes.append(len(classes))
        mean = np.average(spreads(classes, contexts.points(), log_ms, contexts.site), weights=classes.count)
        assert mean <= sigma or len(classes) == 32
    assert sizes[0] == 2 and sizes == sorted(sizes) and sizes[1] < sizes[2]


def test_no_points_no_classes() -> None:
    with pytest.raises(BadInput, match="need a client with bandwidth"):
        fit(np.full((3, 3), np.nan), 2, np.random.default_rng(1))
    assert len(fit(np.zeros((5, 3)), 4, np.random.default_rng(1))) == 1


def test_classes_start_from_a_tensor() -> None:
    tensor = small_tensor(conditions=60)
    wide, tight = (of_tensor(tensor, np.random.default_rng(1), sigma_ln=sigma) for sigma in (0.6, 0.15))
    assert len(wide) < len(tight) and wide.count.sum() == 180 and (tight.spread >= 0).all()


def test_few_clients_are_of_the_classes_that_many_are_of() -> None:
    """One by one and as a column are two ways to the same bits, ties, unknown features and a choice of classes too."""
    rng = np.random.default_rng(8)
    points = rng.normal(size=(300, 3))
    points[7, 1], points[11] = np.nan, np.nan
    classes = fit(points, 12, rng)
    tied = replace(classes, centroid=np.repeat(classes.centroid[:6], 2, axis=0))
    for these in (classes, tied):
        for among in (None, [3, 5, 8]):
            alone = np.concatenate([these.assign(points[at : at + 1], among) for at in range(300)])
            assert (alone == these.assign(points, among)).all() and alone[7] == alone[11] == -1
