"""Export: any policy over classes as rules that an agent can look up, and what it costs to do so.

Question   What is the shortest list of rules that serves nearly as well as the policy?
Method     Each cell's most likely configuration is the rule for its class and site: nothing is lost but exploration. A
           decision tree over clients is grown from it; each of its leaves then takes the configuration with the lowest
           expected page load time over the leaf's clients, which is not always the most frequent label.
Stop when  a leaf would hold fewer than `least_leaf` clients.
Reads as   class -> profile rules, tree rules in words, and the loss of each against the policy, by its own
           expectations.
Fails as   `BadInput` for a policy that has no classes.
Differs    CT's agent holds class -> configuration; the tree is what an operator can read and audit.
Source     CT sections 3 and 4; Breiman et al. 1984.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.errors import BadInput
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.policy import TablePolicy
from configtron.learner.tree import Tree, grow, tree_columns
from configtron.nouns import Profile

# Clients in a leaf: fewer than CT's 80, since a leaf here is only read and looked up, never learned from.
EXPORT_LEAF = 20


@dataclass(frozen=True, slots=True)
class Rule:
    """One class and site's profile. weight: how much of the cell's sessions had it already; site "": any other."""

    class_id: str
    site: str
    profile: Profile
    weight: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Expected excess of what was exported over the policy itself, as shares of page load time, over clients."""

    median: float
    p95: float
    mean: float


@dataclass(frozen=True, slots=True)
class Export:
    """Rules by class, the tree, its rules in words (condition, profile, share of clients), and both losses."""

    rules: tuple[Rule, ...]
    tree: Tree
    tree_rules: tuple[tuple[str, Profile, float], ...]
    rules_loss: Loss
    tree_loss: Loss


def export(policy: TablePolicy, contexts: Contexts, *, least_leaf: int = EXPORT_LEAF) -> Export:
    """The policy as rules. contexts: clients as they come, for the tree to be grown and graded on. Errors:
    `BadInput`."""
    if not isinstance(policy, ClassPolicy):
        raise BadInput(f"policy {policy.name!r} has no classes to write rules for")
    expected = policy.expected_ln()
    table = policy.served_.probabilities(len(policy.grid))
    row, _ = policy.where(contexts)
    known = row >= 0
    if not known.any():
        raise BadInput("no client with bandwidth, round trip and loss to grow the rules' tree on")
    row, columns = row[known], _columns(policy, contexts)[known]
    single = greedy(policy)
    tree = relabelled(grow(columns, single[row], policy.sites, least_leaf=least_leaf), columns, expected[row])
    mixed = (table * expected).sum(axis=1)[row]
    return Export(
        _rules(policy, single, table),
        tree,
        _tree_rules(policy, tree, columns),
        loss(expected[row, single[row]] - mixed),
        loss(expected[row, tree.predict(columns)] - mixed),
    )


def greedy(policy: TablePolicy) -> Codes:
    """(R,) each row's most likely configuration."""
    found: Codes = policy.served_.probabilities(len(policy.grid)).argmax(axis=1)
    return found


def relabelled(tree: Tree, columns: Floats, expected_ln: Floats) -> Tree:
    """The same tree, each leaf with the configuration that is expected to be fastest over its clients.

    columns (n, features); expected_ln (n, configurations).
    """
    leaf = tree.leaf(columns)
    label, share = tree.label.copy(), tree.share.copy()
    for node in np.unique(leaf):
        here = expected_ln[leaf == node]
        label[node] = here.mean(axis=0).argmin()
        share[node] = float((here.argmin(axis=1) == label[node]).mean())
    return replace(tree, label=label, share=share)


def _columns(policy: ClassPolicy, contexts: Contexts) -> Floats:
    return tree_columns(contexts.points(), policy.site_codes(contexts), len(policy.sites))


def _rules(policy: ClassPolicy, single: Codes, table: Floats) -> tuple[Rule, ...]:
    width = len(policy.sites) + 1
    names = (*policy.sites, "")
    return tuple(
        Rule(
            policy.class_ids_[row // width],
            names[row % width],
            policy.grid.profiles[configuration],
            float(table[row, configuration]),
        )
        for row, configuration in enumerate(single)
    )


def _tree_rules(policy: ClassPolicy, tree: Tree, columns: Floats) -> tuple[tuple[str, Profile, float], ...]:
    leaf, count = np.unique(tree.leaf(columns), return_counts=True)
    share = dict(zip(leaf.tolist(), (count / count.sum()).tolist(), strict=True))
    return tuple((text, policy.grid.profiles[at], share.get(node, 0.0)) for node, (text, at, _) in tree.leaves())


def loss(excess_ln: Floats) -> Loss:
    """From (n,) differences of expected ln(ms), one a client."""
    shares = np.expm1(excess_ln)
    return Loss(float(np.median(shares)), float(np.percentile(shares, 95)), float(shares.mean()))
