"""ConfigTron's ensemble keeps to the paper's numbers, and each of its readings is an argument that matters."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.cells import DONE, SEARCH, Stop, observed_best, shrunk_best
from configtron.learner.columns import ARMS
from configtron.learner.engines.grid import GridEngine
from configtron.learner.ensemble import Ensemble
from configtron.learner.sim.noise import Noise
from configtron.learner.tally import no_tally
from configtron.learner.tree import Tree, grow, tree_columns
from tests.learner.worlds import SITES, clients, small_classes, small_tensor

TENSOR = small_tensor()
CLASSES = small_classes(TENSOR)
ENGINE = GridEngine(TENSOR.grid)


def run(sessions: int = 3000, **more):  # type: ignore[no-untyped-def]
    policy = Ensemble(TENSOR.grid, SITES, np.random.default_rng(7), CLASSES, update_every=100, engine=ENGINE, **more)
    contexts, condition = clients(TENSOR, sessions)
    factors = Noise().factors(sessions, np.random.default_rng(5))
    arms = []
    for start in range(0, sessions, 100):
        rows = slice(start, start + 100)
        chosen = policy.choose_many(contexts[rows])
        ms = TENSOR.lookup(condition[rows], chosen.configuration, contexts.site[rows])
        policy.observe_many(contexts[rows], chosen, ms * factors[rows])
        arms += [ARMS[arm] for arm in chosen.arm]
    return policy, arms


def test_a_search_ends_by_the_papers_rule() -> None:
    policy, arms = run()
    tested = (policy.tally_.count > 0).sum(axis=1)
    done, searching = policy.searches_.phase == DONE, policy.searches_.phase == SEARCH
    assert done.any() and (tested[done] >= 7).all() and (policy.searches_.gain[done] < 0.05).all()
    assert ((tested[searching] < 7) | (policy.searches_.gain[searching] >= 0.05)).all()
    first, later = arms[:600], arms[-600:]
    assert first.count("lhc") > 100 and later.count("lhc") == 0
    assert first.count("gp") > later.count("gp") and later.count("tree") > first.count("tree")
    assert 0.05 < later.count("epsilon") / 600 < 0.15


@pytest.mark.parametrize(
    ("more", "gone"),
    [({"use_gp": False}, {"lhc", "gp"}), ({"use_tree": False}, {"tree"}), ({"epsilon": 0.0}, {"epsilon"})],
)
def test_an_arm_can_be_left_out(more, gone) -> None:  # type: ignore[no-untyped-def]
    _, arms = run(1500, **more)
    assert not gone & set(arms)


def test_seven_are_tested_however_little_is_expected() -> None:
    policy, _ = run(2000, stop=Stop(7, 100.0), epsilon=0.0, use_tree=False)
    tested = (policy.tally_.count > 0).sum(axis=1)
    done = policy.searches_.phase == DONE
    assert done.any() and (tested[done] == 7).all() and (tested[~done] < 7).all()


def test_a_looser_stop_tests_less() -> None:
    strict, loose = (run(1500, stop=Stop(7, gain))[0] for gain in (0.001, 0.5))
    assert (loose.searches_.phase == DONE).sum() > (strict.searches_.phase == DONE).sum()


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
    rules = ours.rules()
    assert len(rules) == theirs.get_n_leaves() and any("site == shop" in text for text, _, _ in rules)
    assert all(0 < share <= 1 for _, _, share in rules)
    split = int(ours.feature[0])
    at_bound = np.tile(columns[:1], (2, 1))
    at_bound[0, split] = ours.threshold[0]
    at_bound[1, split] = np.nextafter(ours.threshold[0], np.inf)
    leaves = ours.leaf(at_bound)
    assert under(ours, int(ours.left[0]), int(leaves[0])) and under(ours, int(ours.right[0]), int(leaves[1]))


def under(tree: Tree, node: int, leaf: int) -> bool:
    """Whether a leaf hangs below a node."""
    if node == leaf:
        return True
    below = (int(tree.left[node]), int(tree.right[node]))
    return below[0] >= 0 and any(under(tree, child, leaf) for child in below)


def test_the_tree_seeds_cells_that_saw_nothing() -> None:
    policy, _ = run(400, stop=Stop(4, 1.0))
    fresh = ~policy.tally_.count.any(axis=1)
    assert policy.tree_ is not None and fresh.any()
    assert (policy.searches_.testing[fresh] == policy.tree_.predict(policy._cell_columns())[fresh]).all()
