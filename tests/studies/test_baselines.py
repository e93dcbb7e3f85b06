# SPDX-License-Identifier: MIT
"""What makes each baseline the one it is called."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.cell_best import cell_best
from configtron.learner.columns import ARMS, Contexts
from configtron.learner.searches import DONE, observed_best
from configtron.learner.table_policy import TablePolicy
from tests.support.worlds import SITES, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(bent=0.03), small_tensor(seed=9, bent=0.06)
CLASSES = small_classes(TENSOR)


def made(name: str) -> TablePolicy:
    return policy(name, Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 100, WARM, TENSOR))


def arms(of: TablePolicy, sessions: int, seed: int = 1) -> dict[str, int]:
    _, _, decisions, _ = lived(of, TENSOR, sessions, seed)
    return {ARMS[code]: int((decisions.arm == code).sum()) for code in np.unique(decisions.arm)}


def test_the_bandit_explores_a_tenth_and_else_takes_its_best() -> None:
    bandit = made("mab_nc")
    first, later = arms(bandit, 300), arms(bandit, 3000, seed=2)
    assert 0.05 < later["epsilon"] / 3000 < 0.15 and first["default"] > later.get("default", 0)
    best = observed_best(bandit.cells.tally_, TENSOR.grid.default)  # type: ignore[attr-defined]
    assert (bandit.served_.configuration[:, 0] == best).all()


def test_a_search_ends_on_what_it_saw_best_and_cherrypick_sooner() -> None:
    done = {}
    for name in ("bo_nc", "cherrypick_nc"):
        one = made(name)
        arms(one, 4000)
        over = one.search.searches_.phase == DONE  # type: ignore[attr-defined]
        best = observed_best(one.cells.tally_, TENSOR.grid.default)  # type: ignore[attr-defined]
        assert over.any() and (one.served_.configuration[over, 0] == best[over]).all()
        tested = (one.cells.tally_.count > 0).sum(axis=1)  # type: ignore[attr-defined]
        done[name] = tested[over].mean()
        assert tested[over].min() >= (7 if name == "bo_nc" else 6)
    assert done["cherrypick_nc"] < done["bo_nc"]


def test_brute_force_tries_all_before_it_settles() -> None:
    brute = made("brute_nc")
    arms(brute, 5000)
    tally, table = brute.cells.tally_, brute.served_  # type: ignore[attr-defined]
    left = (tally.count == 0).any(axis=1)
    assert left.any() and not left.all()
    assert (tally.count[left][table.weight[left] > 0] == 0).all(), "an open row serves what it has not tried"
    best = observed_best(tally, TENSOR.grid.default)
    assert (table.weight[~left].argmax(axis=1) == best[~left]).all()


def test_a_client_goes_back_to_what_served_it_best() -> None:
    reuse = made("reuse")
    arms(reuse, 6000)
    mean, kept = reuse.cells.tally_.mean(), reuse.kept_  # type: ignore[attr-defined]
    rows = np.flatnonzero(reuse.cells.tally_.count.sum(axis=1) > 20)  # type: ignore[attr-defined]
    own = mean[rows, kept[rows]]
    assert len(rows) > 20
    # What is kept is near its best, or has just been moved on to and is unknown.
    assert ((own - np.nanmin(mean[rows], axis=1) <= 0.1) | np.isnan(own)).all()
    assert len(set(kept[rows].tolist())) > 3


def test_the_offline_model_is_the_emulators_word() -> None:
    offline = made("offline")
    columns = (WARM.bandwidth_kbps, WARM.rtt_ms, WARM.loss)
    network = CLASSES.assign(Contexts(*columns, np.zeros(len(WARM.names), dtype=np.int64), SITES).points())
    best, _ = cell_best(WARM, network, len(CLASSES))
    table = offline.served_.configuration[:, 0].reshape(len(CLASSES), len(SITES) + 1)
    held = np.unique(network)
    assert (table[held, :-1] == best[held]).all() and (table[:, -1] == TENSOR.grid.default).all()
    before = offline.save()
    arms(offline, 500)
    assert (offline.served_.configuration[:, 0] == table.ravel()).all() and offline.updates_ == 0 and before


def test_what_a_pair_showed_itself_counts() -> None:
    bandit = made("mab_nc")
    arms(bandit, 3000)
    tally, expected = bandit.cells.tally_, bandit.expected_ln()  # type: ignore[attr-defined]
    well = tally.count >= 30
    assert well.any() and np.abs(expected - tally.mean())[well].max() < 0.05


@pytest.mark.slow
def test_linucb_hopes_and_squarecb_spreads() -> None:
    hopeful, spread = made("linucb"), made("squarecb")
    model = hopeful.model.model()  # type: ignore[attr-defined]
    sure = model.draws(200, np.random.default_rng(1), 1.0).var(axis=1)
    some = hopeful.model.candidates_  # type: ignore[attr-defined]
    rows = np.arange(hopeful.cells.rows)  # type: ignore[attr-defined]
    picks = hopeful.served_.configuration[:, 0]
    greedy = some[model.mean()[:, some].argmin(axis=1)]
    # Where it leaves the best mean, it is for something less sure.
    left = picks != greedy
    assert left.any() and (sure[rows, picks][left] > sure[rows, greedy][left]).mean() > 0.9
    weight = spread.served_.weight
    assert np.allclose(weight.sum(axis=1), 1.0) and (weight > 0).all()
    best = spread.served_.expected_ms[:-1]
    # before classes are cut, and there are many more of them to learn of
    arms(spread, 1500)
    after = spread.served_.weight.max(axis=1).mean()
    assert after > weight.max(axis=1).mean() and best.shape[1] == weight.shape[1]
