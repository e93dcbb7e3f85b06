# SPDX-License-Identifier: MIT
"""A decision tree per site: from bandwidth, round trip and loss to the configuration to use.

Question   Can a handful of rules say which configuration a network should have, and what do they cost where they err?
Method     CART with entropy over the conditions, each labelled with its fastest configuration. How good it is is asked
           of conditions that it has not seen: leave one out, grow the tree on the others, let it choose for the one.
           Of 97 configurations many are as fast as the best, and such a tree has a leaf for nearly every condition; a
           second tree, for people to read, has labels from a cover: the fewest configurations, taken greedily, of which
           each condition has one within `NEAR` of its best (HotCloud's golden templates), and of those the one taken
           first. The cover too is made without the condition that is asked.
Reads as   hits: the tree's choice is the fastest; regret: its page load time over the fastest's, less one. Beside them
           the same of the default and of one configuration for all, chosen on the others too.
Differs    from HotCloud's C4.5, which splits by gain ratio; on three numbers it asks much the same. Its accuracy is not
           reported; one counted on the conditions that a tree was grown on would be near one whatever the tree knows.
Source     Breiman et al., Classification and Regression Trees; HC section 3; CT section 4 (entropy, no depth limit)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from configtron.model.errors import Missing
from configtron.studies.tensors.comparison import NEAR
from configtron.studies.tensors.improvement import Codes, Floats, MeasuredCells

FEATURES = ("bandwidth_kbps", "rtt_ms", "loss")
# What a choice is made by; the last two are not trees.
EVERY, COVER, ONE, DEFAULT = "tree, every configuration", "tree, a cover", "one for all", "default"
# A tree of fewer conditions has nothing to leave out.
LEAST = 4


class TreeChoice(NamedTuple):
    """How one way of choosing does on conditions it has not seen: (conditions,) chosen and regret."""

    way: str
    chosen: Codes
    regret: Floats
    hits: float


class TreeRule(NamedTuple):
    """A leaf of the tree over all conditions: what it asks, which configuration it gives, for how many of them."""

    asks: str
    configuration: int
    conditions: int


def features(cells: MeasuredCells) -> Floats:
    """(conditions, 3)."""
    tensor = cells.tensor
    return np.stack([tensor.bandwidth_kbps, tensor.rtt_ms, tensor.loss], axis=1)


def askable(cells: MeasuredCells, site: int) -> Codes:
    """Conditions that a tree can be asked about: with three numbers, and with something that loads the site.

    A played trace has no one rate.
    """
    there = np.isfinite(features(cells)).all(axis=1) & np.isfinite(cells.ms[:, :, site]).any(axis=1)
    found: Codes = np.flatnonzero(there)
    return found


def labels(ms: Floats) -> Codes:
    """(conditions,): the fastest configuration of (conditions, configurations)."""
    found: Codes = ms.argmin(axis=1).astype(np.int64)
    return found


def covered(ms: Floats) -> Codes:
    """(conditions,): of the fewest that are near the best everywhere between them, the first that is near there."""
    near = ms <= ms.min(axis=1, keepdims=True) * (1 + NEAR)
    open_still, cover = np.ones(len(ms), dtype=bool), list[int]()
    while open_still.any():
        cover.append(int(near[open_still].sum(axis=0).argmax()))
        open_still &= ~near[:, cover[-1]]
    # the fastest of them would be luck again where several are near
    found: Codes = np.array(cover, dtype=np.int64)[near[:, cover].argmax(axis=1)]
    return found


def one_for_all(ms: Floats) -> Codes:
    """(conditions,): the configuration with the least mean of page load time over the best, the same for all."""
    slower = np.where(np.isfinite(ms), ms, np.nanmax(ms[np.isfinite(ms)])) / ms.min(axis=1, keepdims=True)
    return np.full(len(ms), int(slower.mean(axis=0).argmin()), dtype=np.int64)


def unseen(cells: MeasuredCells, site: int) -> list[TreeChoice]:
    """Each way of choosing, on each condition without it; none with too few. Errors: `Missing` without scikit-learn."""
    some = askable(cells, site)
    if len(some) < LEAST:
        return []
    ms, asked = cells.ms[some, :, site], features(cells)[some]
    ways: Sequence[tuple[str, Callable[[Floats], Codes]]] = ((EVERY, labels), (COVER, covered), (ONE, one_for_all))
    found = [_choice(way, _leave_one_out(ms, asked, label), ms) for way, label in ways]
    return [*found, _choice(DEFAULT, np.full(len(ms), cells.default, dtype=np.int64), ms)]


def _leave_one_out(ms: Floats, asked: Floats, label: Callable[[Floats], Codes]) -> Codes:
    chosen = []
    for out in range(len(ms)):
        others = np.arange(len(ms)) != out
        tree = _grown(asked[others], label(ms[others]))
        chosen.append(int(tree.predict(asked[out : out + 1])[0]))
    return np.array(chosen, dtype=np.int64)


def _choice(way: str, chosen: Codes, ms: Floats) -> TreeChoice:
    best = ms.min(axis=1)
    taken = ms[np.arange(len(ms)), chosen]
    return TreeChoice(way, chosen, taken / best - 1, float((taken == best).mean()))


def rules(cells: MeasuredCells, site: int) -> list[TreeRule]:
    """The leaves of the cover's tree over all conditions, where there are enough. Errors: `Missing`."""
    some = askable(cells, site)
    if len(some) < LEAST:
        return []
    asked, label = features(cells)[some], covered(cells.ms[some, :, site])
    grown = _grown(asked, label)
    tree, classes = grown.tree_, grown.classes_
    found: list[TreeRule] = []

    def walk(node: int, low: Floats, high: Floats) -> None:
        if tree.children_left[node] == tree.children_right[node]:
            at = int(classes[int(tree.value[node][0].argmax())])
            found.append(TreeRule(_asked(low, high), at, int(tree.n_node_samples[node])))
            return
        feature, edge = int(tree.feature[node]), float(tree.threshold[node])
        walk(int(tree.children_left[node]), low, _with(high, feature, edge))
        walk(int(tree.children_right[node]), _with(low, feature, edge), high)

    walk(0, np.full(len(FEATURES), -np.inf), np.full(len(FEATURES), np.inf))
    return found


def _with(edges: Floats, feature: int, edge: float) -> Floats:
    """A branch's bounds: deeper in the tree they only become narrower."""
    changed = edges.copy()
    changed[feature] = edge
    return changed


def _asked(low: Floats, high: Floats) -> str:
    """A leaf's bounds in words: above low, at most high."""
    asks = []
    for name, least, most in zip(FEATURES, low, high, strict=True):
        if np.isfinite(least) and np.isfinite(most):
            asks.append(f"{least:.4g} < {name} <= {most:.4g}")
        elif np.isfinite(least) or np.isfinite(most):
            asks.append(f"{name} > {least:.4g}" if np.isfinite(least) else f"{name} <= {most:.4g}")
    return " and ".join(asks) or "always"


def _grown(asked: Floats, label: Codes) -> Any:
    """CART; of equal splits the first one, whatever the order of features drawn."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError as error:
        raise Missing(f"scikit-learn: {error}; run: pip install 'configtron[learn]'") from error
    with warnings.catch_warnings():
        # that nearly every condition has a label of its own is what is asked, and reported
        warnings.simplefilter("ignore", UserWarning)
        return DecisionTreeClassifier(criterion="entropy", random_state=0).fit(asked, label)
