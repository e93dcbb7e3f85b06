# SPDX-License-Identifier: MIT
"""Test whether logged propensities depend on the context as the logger's choices did, and fit them if not.

Question   Does the configuration that was drawn depend on the context in a way that its propensity does not know?
Method     Sessions are halved by prefix. On one half a tree is grown of which configuration was drawn by network, site
           and time; its leaves' shares, shrunk to the overall shares, are the fitted propensities of the other half.
           Where the logged propensities are right, the ratio fitted / logged of the draws has a mean of at most 1 for
           any fit, so the product over prefixes (of the mean within each, as draws of one prefix may hang together)
           exceeds 1000 at most once in 1000 logs: an e-value, exact for any number of configurations and contexts, with
           nothing to correct for their multiplicity. The mean of both halves' products is one as well. Propensities may
           be wrong by one factor per configuration in every context, which another test finds
           (`log:weights-above-one`): the tree must beat propensities that are corrected by that factor, too.
Stop when  both halves are fitted.
Reads as   ln of the e-value, and (n,) fitted propensities, each of a tree that never saw the session's prefix.
Fails as   dependence that the tree does not find (an interaction of many things, or too few sessions): not flagged.
           Fitted propensities are as coarse as leaves: dependence on the context within a leaf stays.
Differs    CT logs no propensities.
Source     Wasserman, Ramdas and Balakrishnan 2020 (split likelihood ratio); Breiman et al. 1984 (CART).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.features import CENTRE_LN

# ln of the e-value from which logged propensities are rejected: at most one correct log in a thousand.
LN_FLAG = float(np.log(1000.0))
# Fewest sessions in a leaf, and most leaves: a configuration that is drawn once in a hundred should be in each leaf.
LEAF_SESSIONS, MOST_LEAVES = 150, 12
# Pseudo-draws by which a configuration's share in a leaf is shrunk to its overall share: else one draw, or none, would
# decide its weight.
PRIOR_DRAWS = 2.0
# Least propensity that a ratio is taken of.
LEAST = 1e-12
# Websites that a tree may split by: the most frequent.
MOST_SITES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """ln_e: ln of the e-value against the logged propensities; propensity: (n,) fitted, of the draws."""

    ln_e: float
    propensity: Floats

    @property
    def flagged(self) -> bool:
        """Return whether the logged propensities are not those of their contexts."""
        return self.ln_e >= LN_FLAG


def fitted(contexts: Contexts, configuration: Codes, propensity: Floats, cluster: Codes, half: Codes) -> Fitted:
    """Fit n sessions' propensities, each by the other half, and test the logged ones. cluster, half: (n,) codes; no
    cluster is in both halves. An infinite propensity (a draw that does not count) stays."""
    counted, width = np.isfinite(propensity), int(configuration.max(initial=0)) + 1
    drawn = np.where(counted, configuration, configuration + width)
    # The propensity of a draw that does not count is unknown; 1 is its upper bound.
    known = np.where(counted, propensity, 1.0)
    features, found = _features(contexts), propensity.copy()
    against_logged, against_shares = [], []
    for side in (0, 1):
        mine, other = np.flatnonzero(half == side), np.flatnonzero(half != side)
        if len(mine) == 0 or len(other) < 2 * LEAF_SESSIONS:
            return Fitted(-np.inf, propensity)
        shares = _shares(features, drawn, mine, other)
        found[mine] = np.where(counted[mine], shares, np.inf)
        factor = np.bincount(drawn[other], weights=1.0 / known[other], minlength=2 * width) / len(other)
        against_logged.append(_ln_e(shares / known[mine], cluster[mine]))
        against_shares.append(_ln_e(shares / np.maximum(known * factor[drawn], LEAST)[mine], cluster[mine]))
    return Fitted(min(_mean_ln(against_logged), _mean_ln(against_shares)), found)


def _ln_e(ratio: Floats, cluster: Codes) -> float:
    """Return the ln of the product over clusters of the mean ratio of each."""
    _, group = np.unique(cluster, return_inverse=True)
    return float(np.log(np.bincount(group, weights=ratio) / np.bincount(group)).sum())


def _mean_ln(both: list[float]) -> float:
    one, other = both
    return float(np.logaddexp(one, other) - np.log(2.0))


def _features(contexts: Contexts) -> Floats:
    """Return (n, 4 + sites): network, time, site; an unknown number is the usual one."""
    points = contexts.points()
    points = np.where(np.isnan(points), np.array(CENTRE_LN), points)
    often = np.bincount(contexts.site[contexts.site >= 0], minlength=len(contexts.sites))
    sites = np.argsort(-often, kind="stable")[:MOST_SITES]
    time = np.arange(len(points))[:, None] / max(len(points), 1)
    return np.concatenate((points, time, contexts.site[:, None] == sites[None, :]), axis=1)


def _shares(features: Floats, drawn: Codes, mine: Codes, other: Codes) -> Floats:
    """Return (mine,) the probability of each session's draw, by a tree grown on the others."""
    from sklearn.tree import DecisionTreeClassifier

    width = int(drawn.max()) + 1
    tree = DecisionTreeClassifier(min_samples_leaf=LEAF_SESSIONS, max_leaf_nodes=MOST_LEAVES, random_state=0)
    tree.fit(features[other], drawn[other])
    leaf, here = tree.apply(features[other]), tree.apply(features[mine])
    # Add one draw of each configuration (Laplace): none has a share of 0.
    every = np.bincount(drawn[other], minlength=width) + 1.0
    every /= every.sum()
    leaves = tree.tree_.node_count
    count = np.bincount(leaf * width + drawn[other], minlength=leaves * width).reshape(leaves, width)
    table = (count + PRIOR_DRAWS) / (count.sum(axis=1, keepdims=True) + PRIOR_DRAWS / every)
    table /= table.sum(axis=1, keepdims=True)
    found: Floats = table[here, drawn[mine]]
    return found
