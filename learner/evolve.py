# SPDX-License-Identifier: MIT
"""Network classes that follow their members: split where members diverge, under names that stay.

Question   Do the members of a class still behave alike, and if not, which two classes are they?
Method     Over the latest outcomes, by two rules. `split`: the spread of ln(ms) within a class, the mean of each site
           and configuration taken away. Above the bound, the members' points are parted by 2-means; the split is made
           if both halves are large enough and the parting itself lowers the spread by at least `LEAST_DROP`.
           `split_by_wants`, where that splits nothing: a class of members that load alike fast on the whole, and of
           which two halves want different configurations (`split_test.py`).
Stop when  every class was looked at once.
Reads as   classes with the same ids in the same places, one more at the end for each split: a half keeps its parent's
           name if it keeps the majority. A name is never used again.
Fails as   no split, where members differ but not by where they are: noise is not another network.
Differs    from CT, whose classes "evolve" by no stated rule.
Source     CT section 4.

`parted` has no test: every class is cut into as many as its members make up, for a learner that shares one model
between classes, so that a fine class costs little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Floats
from configtron.learner.split_test import likeliest
from configtron.learner.state import keep

# A split must explain some of the spread, not only make two smaller classes: a tenth of it.
LEAST_DROP = 0.1
# A class is looked at with every update, at outcomes that are mostly those of the last look: with 20 classes and a
# hundred updates this leaves at most a fifth of a split where there is nothing to split, before overlaps are counted.
# It is of each look, and is not spent over a life: of two thousand updates at most four, each into halves alike.
FALSE_ALARM = 1e-4


@keep
@dataclass(frozen=True, slots=True)
class Divergence:
    """When members have diverged. spread_ln: bound on the spread of ln(ms) in a class; least_members: of each half.

    false_alarm  chance, at each look at a class, of parting one whose members want the same; 0: that rule is off
    gain_ln      the least gain of members by configurations of their own, mean over the class, ln(ms): less is not
                 worth the loads that two classes take to find theirs
    """

    spread_ln: float
    least_members: int = 100
    false_alarm: float = 0.0
    gain_ln: float = 0.02


def remainders(row: Codes, configuration: Codes, log_ms: Floats) -> Floats:
    """Return (n,) ln(ms) less the mean of its row and configuration, NaN where that mean is of one load only; as wide
    as loads are about the true mean, of however few theirs was made."""
    _, group = np.unique(np.stack((row, configuration)), axis=1, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    mean = np.bincount(group, weights=log_ms) / count
    wider = np.sqrt(count / np.maximum(count - 1, 1))
    return np.where(count[group] > 1, (log_ms - mean[group]) * wider[group], np.nan)


def split(
    classes: Classes, network: Codes, points: Floats, rest: Floats, bound: Divergence, rng: np.random.Generator
) -> Classes:
    """Return classes after every split that is due. network, rest (n,), points (n, 3 + axes), known, of latest
    outcomes."""
    for k in range(len(classes)):
        mine = (network == k) & ~np.isnan(rest)
        if mine.sum() < 2 * bound.least_members or rest[mine].std() <= bound.spread_ln:
            continue
        halves = _clusters(points[mine] / classes.scale[k], 2, rng)
        sizes = np.bincount(halves, minlength=2)
        if sizes.min() < bound.least_members:
            continue
        within = np.concatenate([rest[mine][halves == side] - rest[mine][halves == side].mean() for side in (0, 1)])
        if within.std() > (1.0 - LEAST_DROP) * rest[mine].std():
            continue
        classes = _in_two(classes, k, points[mine], halves)
    return classes


def split_by_wants(
    classes: Classes,
    network: Codes,
    points: Floats,
    loads: tuple[Codes, Codes, Floats],
    values: Floats,
    bound: Divergence,
) -> Classes:
    """Return classes after every split that halves' own best configurations call for. network (n,), points (n, 3 +
    axes); loads: row, configuration, ln(ms), (n,) each; values: `split_test.values_of` the grid."""
    row, configuration, log_ms = loads
    for k in range(len(classes)):
        mine = np.flatnonzero((network == k) & (row >= 0))
        if len(mine) < 2 * bound.least_members:
            continue
        loaded = (row[mine], configuration[mine], log_ms[mine])
        scaled = points[mine] / classes.scale[k]
        found = likeliest(scaled, *loaded, values, least=bound.least_members, gain_ln=bound.gain_ln)
        if found is not None and found.chance <= bound.false_alarm:
            classes = _in_two(classes, k, points[mine], found.half)
    return classes


def _in_two(classes: Classes, k: int, points: Floats, half: Codes) -> Classes:
    """Return class k parted: its points (m, 3), half (m,) 0 or 1; the larger half keeps the name."""
    sizes = np.bincount(half, minlength=2)
    centres = [points[half == side].mean(axis=0) for side in (0, 1)]
    stays = int(sizes.argmax())
    counts = sizes[[stays, 1 - stays]].astype(np.float64)
    return _with(classes, k, centres[stays], centres[1 - stays][None], counts)


def parted(classes: Classes, network: Codes, points: Floats, least_members: int, rng: np.random.Generator) -> Classes:
    """Return classes, each cut by k-means into one for every `least_members` members. network (n,), points (n, 3 +
    axes)."""
    found = classes
    for k in range(len(classes)):
        mine = points[network == k]
        parts = len(mine) // least_members
        if parts < 2:
            continue
        label = _clusters(mine / classes.scale[k], parts, rng)
        sizes = np.bincount(label)
        order = np.argsort(-sizes, kind="stable")
        centres = np.stack([mine[label == part].mean(axis=0) for part in order])
        found = _with(found, k, centres[0], centres[1:], sizes[order].astype(np.float64))
    return found


def _clusters(points: Floats, k: int, rng: np.random.Generator) -> Codes:
    """Return (n,) which of k clusters each is in; of fewer, where points are too often the same (round trips in whole
    ms)."""
    from sklearn.cluster import KMeans

    k = min(k, len(np.unique(points, axis=0)))
    means = KMeans(k, n_init=2, random_state=int(rng.integers(2**31))).fit(points)
    labels: Codes = means.labels_.astype(np.int64)
    return labels


def _with(classes: Classes, k: int, stays: Floats, leaves: Floats, counts: Floats) -> Classes:
    """Return class k at `stays` (3 + axes,), new ones at `leaves` (m, 3 + axes); counts (1 + m,) members of each."""
    new = len(leaves)
    centroid = np.concatenate((classes.centroid, leaves))
    centroid[k] = stays
    count = np.concatenate((classes.count, counts[1:]))
    count[k] = counts[0]
    scale = np.concatenate((classes.scale, np.repeat(classes.scale[k][None], new, axis=0)))
    spread = np.concatenate((classes.spread, np.zeros(new)))
    born = 1 + max(int(name.removeprefix("nc")) for name in classes.ids)
    devices = (*classes.devices, *(classes.devices[k],) * new) if classes.devices else ()
    ids = (*classes.ids, *(f"nc{born + at}" for at in range(new)))
    return Classes(ids, centroid, scale, count, spread, devices, classes.axes)
