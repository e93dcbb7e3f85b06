# SPDX-License-Identifier: MIT
"""Export: rules serve what the policy serves, the tree's loss is reported, and an answer to "why this profile"."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.explain import explain
from configtron.learner.export import EXPORT_LEAF, export, relabelled
from configtron.learner.table_policy import TablePolicy
from configtron.learner.tree import grow, tree_columns
from configtron.model.errors import BadInput
from configtron.model.nearest import nearest
from configtron.model.nouns import Context
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)


def learned(name: str, sessions: int = 4000) -> TablePolicy:
    setting = Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM)
    found = policy(name, setting)
    lived(found, TENSOR, sessions)
    return found


def likeliest(made: TablePolicy):  # type: ignore[no-untyped-def]
    return made.likeliest()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def thompson() -> TablePolicy:
    return learned("thompson")


def test_an_agents_lookup_serves_the_policys_likeliest(thompson: TablePolicy) -> None:
    contexts, _ = clients(TENSOR, 200, seed=4)
    done = export(thompson, contexts)
    held = {(rule.class_id, rule.site): rule.profile for rule in done.rules}
    row, _ = thompson.where(contexts)
    likely = likeliest(thompson)[row]
    for i in range(200):
        context = contexts.row(i)
        found = nearest(thompson.cells.classes_.nouns(), context)  # type: ignore[attr-defined]
        assert found is not None and held[found.id, context.site] == TENSOR.grid.profiles[likely[i]]


def test_the_trees_words_are_what_it_does(thompson: TablePolicy) -> None:
    contexts, condition = clients(TENSOR, 1500, seed=4)
    done = export(thompson, contexts)
    columns = tree_columns(contexts.points(), contexts.site, len(SITES))
    served = [TENSOR.grid.profiles[at] for at in done.tree.predict(columns)]
    for i in range(0, 1500, 50):
        context = contexts.row(i)
        names = {n: getattr(context, n) for n in ("bandwidth_kbps", "rtt_ms", "loss")}
        (matching,) = [profile for text, profile, _ in done.tree_rules if spoken(text, names, context.site)]
        assert matching == served[i]
    assert sum(share for *_, share in done.tree_rules) == pytest.approx(1.0)
    rules_ms = TENSOR.lookup(condition, likeliest(thompson)[thompson.where(contexts)[0]], contexts.site)
    tree_ms = TENSOR.lookup(condition, done.tree.predict(columns), contexts.site)
    assert np.median(tree_ms / rules_ms) - 1.0 <= 0.015


def spoken(text: str, numbers: dict[str, float], site: str) -> bool:
    for part in [] if text == "always" else text.split(" and "):
        name, sign, bound = part.split(" ")
        if name == "site":
            holds = (site == bound) == (sign == "==")
        else:
            holds = (numbers[name] <= float(bound)) == (sign == "<=")
        if not holds:
            return False
    return True


def test_a_leaf_takes_what_is_fastest_not_what_is_most_frequent() -> None:
    columns, label = np.zeros((10, 3)), np.array([0] * 6 + [1] * 4)
    expected = np.array([[7.0, 7.01]] * 6 + [[7.5, 7.0]] * 4)
    tree = grow(columns, label, (), least_leaf=5)
    assert tree.predict(columns[:1])[0] == 0
    assert relabelled(tree, columns, expected).predict(columns[:1])[0] == 1


def test_larger_leaves_are_fewer_and_cost_more(thompson: TablePolicy) -> None:
    contexts, _ = clients(TENSOR, 1500, seed=4)
    fine, coarse = export(thompson, contexts), export(thompson, contexts, least_leaf=20 * EXPORT_LEAF)
    columns = tree_columns(contexts.points(), contexts.site, len(SITES))
    cost = thompson.cost(np.ones(len(TENSOR.grid), dtype=np.bool_))  # type: ignore[attr-defined]
    row = thompson.where(contexts)[0]
    took = [cost[row, done.tree.predict(columns)].mean() for done in (fine, coarse)]
    assert len(coarse.tree_rules) < len(fine.tree_rules) and took[1] > took[0]


def test_a_policy_that_searches_cells_is_exported_as_what_it_serves() -> None:
    """Leaves of single cells serve each cell's likeliest; the pooled expectations would have it otherwise."""
    made, (contexts, _) = learned("mab_nc"), clients(TENSOR, 1500, seed=4)
    done = export(made, contexts, least_leaf=1)
    row, likely = made.where(contexts)[0], likeliest(made)
    served = done.tree.predict(tree_columns(contexts.points(), contexts.site, len(SITES)))
    assert (served == likely[row]).mean() > 0.98
    pooled = made.expected_ln().argmin(axis=1)  # type: ignore[attr-defined]
    assert (pooled[row] == likely[row]).mean() < 0.6


def test_what_has_no_classes_has_no_rules() -> None:
    contexts, _ = clients(TENSOR, 10)
    with pytest.raises(BadInput, match="no classes"):
        export(learned("default", 10), contexts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thompson", "configtron", "mab_nc", "offline", "bo", "default"])
def test_every_kind_of_policy_can_say_why(name: str, thompson: TablePolicy) -> None:
    asked = Context(bandwidth_kbps=4000.0, rtt_ms=80.0, loss=0.005, site="shop", prefix="192.0.3.0/24")
    explanation = explain(thompson if name == "thompson" else learned(name, 1200), asked)
    assert explanation.choices and 0.0 < sum(choice.share for choice in explanation.choices) <= 1.0 + 1e-9
    assert [choice.share for choice in explanation.choices] == sorted(
        (c.share for c in explanation.choices), reverse=True
    )
    if name == "thompson":
        assert explanation.class_id and explanation.distance is not None and explanation.runner_up_distance is not None
        assert explanation.distance <= explanation.runner_up_distance and explanation.runner_up != explanation.class_id
        assert {effect.knob for effect in explanation.effects} <= {knob.name for knob in TENSOR.grid.knobs}
        assert any(effect.excess > 0.02 for effect in explanation.effects), "nothing it changed is expected to help"


def test_an_unknown_client_is_reported(thompson: TablePolicy) -> None:
    explanation = explain(thompson, Context(site="shop"))
    assert not explanation.class_id and "unknown" in explanation.reason and explanation.choices[0].arm == "default"
