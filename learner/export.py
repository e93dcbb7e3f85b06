# SPDX-License-Identifier: MIT
"""Export: any policy over classes as rules that an agent can look up.

Question   What is the shortest list of rules that serves nearly as well as the policy?
Method     Each cell's most likely configuration is the rule for its class and site: nothing is lost but exploration. A
           decision tree over clients is grown from it; each of its leaves then takes the configuration of the lowest
           `TablePolicy.cost` over the leaf's clients: the fastest one by the expectation of a policy with a model over
           all cells, which is not always the most frequent label; the one served most, of any other policy.
Stop when  a leaf would hold fewer than `least_leaf` clients.
Reads as   class -> profile rules, tree rules in words. `rule_cost.py` estimates their cost, on other clients.
Fails as   `BadInput` for a policy that has no classes.
Differs    CT's agent holds class -> configuration; an operator can read and audit the tree.
Source     CT sections 3 and 4; Breiman et al. 1984.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.class_cells import classed
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.table_policy import TablePolicy
from configtron.learner.tree import Tree, grow, tree_columns
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile

# Clients in a leaf: fewer than CT's 80, since a leaf here is only read and looked up, never learned from.
EXPORT_LEAF = 20


@dataclass(frozen=True, slots=True)
class ClassRule:
    """One class and site's profile. weight: how much of the cell's sessions had it already; site "": any other."""

    class_id: str
    site: str
    profile: Profile
    weight: float


@dataclass(frozen=True, slots=True)
class Export:
    """Rules by class, the tree, its rules in words (condition, profile, share of clients)."""

    rules: tuple[ClassRule, ...]
    tree: Tree
    tree_rules: tuple[tuple[str, Profile, float], ...]


def export(policy: TablePolicy, contexts: Contexts, *, least_leaf: int = EXPORT_LEAF) -> Export:
    """Return the policy as rules. contexts: clients as they come, for the tree to be grown on. Errors: `BadInput`."""
    classed(policy)
    row, _ = policy.where(contexts)
    known = row >= 0
    if not known.any():
        raise BadInput("no client with bandwidth, round trip and loss to grow the rules' tree on")
    row, columns = row[known], columns_of(policy, contexts)[known]
    single = policy.likeliest()
    cost = policy.cost(np.ones(len(policy.grid), dtype=np.bool_))
    tree = relabelled(grow(columns, single[row], policy.sites, least_leaf=least_leaf), columns, cost[row])
    table = policy.served_.probabilities(len(policy.grid))
    return Export(_rules(policy, single, table), tree, _tree_rules(policy, tree, columns))


def columns_of(policy: TablePolicy, contexts: Contexts) -> Floats:
    """Return the tree's columns of those clients."""
    return tree_columns(contexts.points(), policy.site_codes(contexts), len(policy.sites))


def relabelled(tree: Tree, columns: Floats, cost: Floats) -> Tree:
    """Return the same tree, each leaf with the configuration that costs its clients least.

    columns (n, features); cost (n, configurations).
    """
    leaf = tree.leaf(columns)
    label, share = tree.label.copy(), tree.share.copy()
    for node in np.unique(leaf):
        here = cost[leaf == node]
        label[node] = here.mean(axis=0).argmin()
        share[node] = float((here.argmin(axis=1) == label[node]).mean())
    return replace(tree, label=label, share=share)


def _rules(policy: TablePolicy, single: Codes, table: Floats) -> tuple[ClassRule, ...]:
    width = len(policy.sites) + 1
    names = (*policy.sites, "")
    return tuple(
        ClassRule(
            policy.class_ids_[row // width],
            names[row % width],
            policy.grid.profiles[configuration],
            float(table[row, configuration]),
        )
        for row, configuration in enumerate(single)
    )


def _tree_rules(policy: TablePolicy, tree: Tree, columns: Floats) -> tuple[tuple[str, Profile, float], ...]:
    leaf, count = np.unique(tree.leaf(columns), return_counts=True)
    share = dict(zip(leaf.tolist(), (count / count.sum()).tolist(), strict=True))
    return tuple((text, policy.grid.profiles[at], share.get(node, 0.0)) for node, (text, at, _) in tree.leaves())
