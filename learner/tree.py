# SPDX-License-Identifier: MIT
"""A decision tree over clients, as columns: grown by scikit-learn, walked and saved by us.

Question   Which configuration does a client's bandwidth, round trip, loss and site call for?
Method     CART, entropy, on (ln kbit/s, ln ms, ln(loss + floor), one column per site); the label is a configuration.
Stop when  a leaf would hold fewer than `least_leaf` sessions, or is pure.
Reads as   a leaf per client, a configuration and its share per leaf; rules in words by `rules`.
Fails as   nothing; without a client whose network is known, sites alone decide.
Differs    CT states "80 as the minimum number of leaf nodes": read as at least 80 samples in a leaf. scikit-learn's own
           `predict` is not used: with hundreds of labels it spends its time on probabilities that are not used.
Source     Breiman et al. 1984; CT section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep
from configtron.model.nearest import LOSS_FLOOR

# CT section 5.
LEAST_LEAF, LEAST_SPLIT = 80, 2
FEATURES = ("bandwidth_kbps", "rtt_ms", "loss")


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Nodes as columns: left, right (-1: leaf), feature, threshold; label and share of the label in each node."""

    left: Codes
    right: Codes
    feature: Codes
    threshold: Floats
    label: Codes
    share: Floats
    sites: tuple[str, ...]

    def leaf(self, columns: Floats) -> Codes:
        """Return (n,) the leaf each client comes to; columns as from `tree_columns`."""
        node = np.zeros(len(columns), dtype=np.int64)
        rows = np.arange(len(columns))
        while len(rows):
            rows = rows[self.left[node[rows]] >= 0]
            here = node[rows]
            below = columns[rows, self.feature[here]] <= self.threshold[here]
            node[rows] = np.where(below, self.left[here], self.right[here])
        return node

    def predict(self, columns: Floats) -> Codes:
        """Return (n,) configurations."""
        found: Codes = self.label[self.leaf(columns)]
        return found

    def rules(self) -> list[tuple[str, int, float]]:
        """Return every leaf as (condition in words, configuration, share), left to right."""
        return [rule for _, rule in self.leaves()]

    def leaves(self) -> list[tuple[int, tuple[str, int, float]]]:
        """Return the same with each leaf's node."""
        found: list[tuple[int, tuple[str, int, float]]] = []
        todo: list[tuple[int, tuple[str, ...]]] = [(0, ())]
        while todo:
            node, path = todo.pop()
            if self.left[node] < 0:
                text = " and ".join(path) or "always"
                found.append((node, (text, int(self.label[node]), float(self.share[node]))))
                continue
            below, above = self._words(int(self.feature[node]), float(self.threshold[node]))
            todo.append((int(self.right[node]), (*path, above)))
            todo.append((int(self.left[node]), (*path, below)))
        return found

    def _words(self, feature: int, threshold: float) -> tuple[str, str]:
        if feature >= len(FEATURES):
            site = self.sites[feature - len(FEATURES)]
            return f"site != {site}", f"site == {site}"
        bound = float(np.exp(threshold)) - (LOSS_FLOOR if FEATURES[feature] == "loss" else 0.0)
        return f"{FEATURES[feature]} <= {bound:.6g}", f"{FEATURES[feature]} > {bound:.6g}"


def tree_columns(points: Floats, site: Codes, sites: int) -> Floats:
    """Return the tree's columns (n, 3 + sites). points (n, 3 + axes), of which the first three count; site (n,), codes
    >= `sites` are any other."""
    return np.concatenate((points[:, :3], site[:, None] == np.arange(sites)[None, :]), axis=1)


def grow(
    columns: Floats,
    label: Codes,
    sites: tuple[str, ...],
    *,
    weight: Floats | None = None,
    least_leaf: int = LEAST_LEAF,
    least_split: int = LEAST_SPLIT,
    seed: int = 0,
) -> Tree:
    """Return a tree, clients with unknown features left out; over sites alone where none has all. There is a client."""
    from sklearn.tree import DecisionTreeClassifier

    known = ~np.isnan(columns).any(axis=1)
    if not known.any():
        columns, known = np.nan_to_num(columns), ~known
    least = max(1, min(least_leaf, int(known.sum())))
    cart = DecisionTreeClassifier(
        criterion="entropy", min_samples_split=least_split, min_samples_leaf=least, random_state=seed
    )
    cart.fit(columns[known], label[known], None if weight is None else weight[known])
    nodes, values = cart.tree_, cart.tree_.value[:, 0, :]
    best = values.argmax(axis=1)
    return Tree(
        nodes.children_left.astype(np.int64),
        nodes.children_right.astype(np.int64),
        nodes.feature.astype(np.int64),
        # scikit-learn compares in single precision; so the bound is kept as it compares.
        nodes.threshold.astype(np.float64),
        cart.classes_[best].astype(np.int64),
        values.max(axis=1) / values.sum(axis=1),
        sites,
    )
