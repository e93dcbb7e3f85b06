# SPDX-License-Identifier: MIT
"""ConfigTron's ensemble keeps to the paper's numbers, and each of its readings is an argument that matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from configtron.learner.class_cells import ClassCells
from configtron.learner.classes import Classes
from configtron.learner.columns import ARM, ARMS
from configtron.learner.policies.ensemble import RANDOMNESS, Ensemble, EnsembleOptions, unbounded
from configtron.learner.searches import DONE, FIRST, SEARCH, Stop, observed_best, shrunk_best
from configtron.learner.setting import Setting
from configtron.learner.tally import no_tally
from configtron.learner.tree import Tree, grow, tree_columns
from configtron.model.errors import BadInput
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR = small_tensor()
CLASSES = small_classes(TENSOR)


def setting() -> Setting:
    return Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(7), update_every=100)


def run(
    sessions: int = 3000, made: Ensemble | None = None, stop: Stop | None = None, **more: Any
) -> tuple[Any, list[str]]:
    policy = made or Ensemble(setting(), EnsembleOptions(**more), stop=stop)
    return policy, [ARMS[arm] for arm in lived(policy, TENSOR, sessions, batch=100)[2].arm]


def test_a_search_ends_by_the_papers_rule() -> None:
    policy, arms = run()
    tested = (policy.cells.tally_.count > 0).sum(axis=1)
    done, searching = policy.search.searches_.phase == DONE, policy.search.searches_.phase == SEARCH
    assert done.any() and (tested[done] >= 7).all() and (policy.search.searches_.gain[done] < 0.05).all()
    assert ((tested[searching] < 7) | (policy.search.searches_.gain[searching] >= 0.05)).all()
    first, later = arms[:600], arms[-600:]
    assert first.count("lhc") > 100 and later.count("lhc") <= 5
    assert first.count("gp") > later.count("gp") and later.count("tree") > first.count("tree")
    assert 0.05 < later.count("epsilon") / 600 < 0.15


def test_the_operators_bound_is_one_on_all_sessions_that_test() -> None:
    searching = {"lhc", "gp"}
    _, arms = run(600)
    share = sum(arm in searching for arm in arms) / 600
    assert 0.6 * RANDOMNESS < share < 1.4 * RANDOMNESS
    assert arms[:100].count("default") > 60, "what does not test gets Default while nothing is known"
    _, harsh = run(600, unbounded(setting()))
    assert set(harsh[:100]) == {"lhc"}


def test_the_bound_bounds_the_share_of_each_configuration() -> None:
    policy, _ = run(1500, randomness=0.1, epsilon=0.3)
    served = policy.served_.probabilities(len(TENSOR.grid))
    assert np.allclose(served.sum(axis=1), 1.0)
    assert (served.max(axis=1) >= 0.9 - 1e-9).all()


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_degree_of_randomness_is_a_share(share: float) -> None:
    with pytest.raises(BadInput, match="degree of randomness"):
        run(100, randomness=share)


@pytest.mark.parametrize(
    ("more", "gone"),
    [({"use_gp": False}, {"lhc", "gp"}), ({"use_tree": False}, {"tree"}), ({"epsilon": 0.0}, {"epsilon"})],
)
def test_an_arm_can_be_left_out(more: dict[str, Any], gone: set[str]) -> None:
    assert not gone & set(run(1500, **more)[1])


def test_seven_are_tested_however_little_is_expected() -> None:
    policy, _ = run(2000, stop=Stop(7, 100.0), epsilon=0.0, use_tree=False)
    tested = (policy.cells.tally_.count > 0).sum(axis=1)
    done = policy.search.searches_.phase == DONE
    assert done.any() and (tested[done] == 7).all() and (tested[~done] < 7).all()


def test_one_lucky_load_does_not_win_the_shrunken_label() -> None:
    tally = no_tally(1, 3)
    rows = np.zeros(21, dtype=np.int64)
    configuration = np.array([0] * 10 + [1] * 10 + [2])
    tally = tally.plus(rows, configuration, np.array([7.0] * 10 + [6.9] * 10 + [6.85]))
    assert observed_best(tally, 0)[0] == 2 and shrunk_best(tally, 0)[0] == 1
    assert observed_best(no_tally(2, 3), 1).tolist() == shrunk_best(no_tally(2, 3), 1).tolist() == [1, 1]


def test_the_tree_is_scikit_learns() -> None:
    from sklearn.tree import DecisionTreeClassifier

    contexts, _ = clients(TENSOR, 1500)
    columns = tree_columns(contexts.points(), contexts.site, len(SITES))
    label = CLASSES.assign(contexts.points()) + 10 * (contexts.site == 1)
    ours = grow(columns, label, SITES)
    theirs = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=80, random_state=0).fit(columns, label)
    fresh, _ = clients(TENSOR, 800, seed=9)
    columns = tree_columns(fresh.points(), fresh.site, len(SITES)).astype(np.float32).astype(np.float64)
    assert (ours.predict(columns) == theirs.predict(columns)).all()
    rules, split = ours.rules(), int(ours.feature[0])
    assert len(rules) == theirs.get_n_leaves() and any("site == shop" in text for text, _, _ in rules)
    assert all(0 < share <= 1 for _, _, share in rules)
    at_bound = np.tile(columns[:1], (2, 1))
    at_bound[:, split] = ours.threshold[0], np.nextafter(ours.threshold[0], np.inf)
    left, right = ours.leaf(at_bound)
    assert under(ours, int(ours.left[0]), int(left)) and under(ours, int(ours.right[0]), int(right))


def under(tree: Tree, node: int, leaf: int) -> bool:
    """Whether a leaf hangs below a node."""
    if node == leaf:
        return True
    below = (int(tree.left[node]), int(tree.right[node]))
    return below[0] >= 0 and any(under(tree, child, leaf) for child in below)


def test_the_tree_seeds_cells_that_saw_nothing() -> None:
    policy, _ = run(400, stop=Stop(4, 1.0))
    fresh = ~policy.cells.tally_.count.any(axis=1)
    assert policy.tree_ is not None and fresh.any()
    assert (policy.search.searches_.testing[fresh] == policy.tree_.predict(policy._cell_columns())[fresh]).all()


# The class that is cut.
LEAVES = 1


class Parted(ClassCells):
    """Cells whose class `LEAVES` is cut across its round trips at the next update, as a split would."""

    cutting = False

    def _evolved(self, now, updates):  # type: ignore[no-untyped-def]
        if not self.cutting:
            return self.classes_
        self.cutting, old, k = False, self.classes_, LEAVES
        mine = now.point[now.network == k]
        far = mine[:, 1] > np.median(mine[:, 1])
        centroid = np.concatenate((old.centroid, mine[far].mean(axis=0)[None]))
        centroid[k] = mine[~far].mean(axis=0)
        scale, size = np.concatenate((old.scale, old.scale[k : k + 1])), len(old) + 1
        return Classes((*old.ids, f"nc{len(old)}"), centroid, scale, np.ones(size), np.zeros(size))


def before_and_after(**more: Any) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """An ensemble that has grown a tree after the update that splits a class; its tree, tally and searches, and its
    classes' names before that."""
    policy: Any = Ensemble(setting(), EnsembleOptions(**more))
    policy.cells.__class__ = Parted
    lived(policy, TENSOR, 3000, batch=100)
    before = (policy.tree_, (policy.cells.tally_, policy.search.searches_), policy.cells.classes_.ids)
    policy.cells.cutting = True
    lived(policy, TENSOR, 100, seed=2, batch=100)
    return policy, *before


def test_a_class_that_is_split_off_begins_with_the_trees_word() -> None:
    policy, tree, _, ids = before_and_after()
    width, before = len(SITES) + 1, len(ids) * (len(SITES) + 1)
    first = policy.search.searches_.first[before:]
    assert tree is not None and len(first) == width and (first[:, -1] == -1).all()
    members = policy.cells.recent_.point[policy.cells.recent_.network == len(ids)]
    for site in range(width):
        columns = tree_columns(members, np.full(len(members), site), len(SITES))
        votes = np.bincount(tree.predict(columns), minlength=len(TENSOR.grid))
        seeded = first[site][first[site] >= 0]
        assert seeded[0] == votes.argmax() and 1 <= len(seeded) <= 3
        assert (votes[seeded] > 0).all() and (np.diff(votes[seeded]) <= 0).all()
    waiting = (policy.search.searches_.phase == FIRST) & (np.arange(policy.cells.rows) >= before)
    assert (policy.served_.arm[waiting, 0] == ARM["tree"]).all()
    plain, *_ = before_and_after(seed_by_tree=False)
    assert (plain.search.searches_.first[before:] >= 0).all(), "without the tree: a hypercube"


def test_what_members_saw_goes_with_them_and_other_classes_stay_what_they_were() -> None:
    policy, _, (tally, searches), ids = before_and_after()
    width = len(SITES) + 1
    parent = np.arange(LEAVES * width, (LEAVES + 1) * width)
    assert policy.cells.classes_.ids[: len(ids)] == ids and len(policy.cells.classes_) == len(ids) + 1
    assert policy.cells.tally_.count.sum() == tally.count.sum() + 100, "no load is lost"
    new, moved = policy.cells.tally_.count[len(ids) * width :].sum(), tally.count[parent].sum()
    assert 0.05 * moved < new < 0.95 * moved
    # Clients of others that are nearer to the new centroid go there, too; none comes, but this update's 100.
    others = np.setdiff1d(np.arange(len(ids) * width), parent)
    kept = policy.cells.tally_.count[others].sum() / tally.count[others].sum()
    assert 0.9 < kept <= 1.1
    assert (policy.search.searches_.first[others] == searches.first[others]).all()
    assert (policy.search.searches_.phase[others] >= searches.phase[others]).all(), "no search begins again"
