"""Network classes that follow their members: split where members diverge, under names that stay.

Question   Do the members of a class still behave alike, and if not, which two classes are they?
Method     Over the latest outcomes: the spread of ln(ms) within a class, the mean of each site and configuration taken
           away. Above the bound, the members' points are parted by 2-means; the split is made if both halves are large
           enough and the parting itself lowers the spread by at least `LEAST_DROP`.
Stop when  every class was looked at once.
Reads as   classes with the same ids in the same places, one more at the end for each split: a half keeps its parent's
           name if it keeps the majority. A name is never used again.
Fails as   no split, where members differ but not by where they are: noise is not another network.
Differs    from CT, which says classes "evolve" and not how.
Source     CT section 4.

`parted` asks nothing: every class is cut into as many as its members make up, for a learner that shares between classes
what it learns, and to whom a fine class therefore costs little (docs/design/0022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep

# A split must explain some of the spread, not only make two smaller classes: a tenth of it.
LEAST_DROP = 0.1


@keep
@dataclass(frozen=True, slots=True)
class Divergence:
    """When members have diverged. spread_ln: bound on the spread of ln(ms) in a class; least_members: of each half."""

    spread_ln: float
    least_members: int = 100


def remainders(row: Codes, configuration: Codes, log_ms: Floats) -> Floats:
    """(n,) ln(ms) less the mean of its row and configuration, NaN where that mean is of one load only; as wide as loads
    are about the true mean, of however few theirs was made."""
    _, group = np.unique(np.stack((row, configuration)), axis=1, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    mean = np.bincount(group, weights=log_ms) / count
    wider = np.sqrt(count / np.maximum(count - 1, 1))
    return np.where(count[group] > 1, (log_ms - mean[group]) * wider[group], np.nan)


def split(
    classes: Classes, network: Codes, points: Floats, rest: Floats, bound: Divergence, rng: np.random.Generator
) -> Classes:
    """Classes after every split that is due. network (n,), points (n, 3), rest (n,) of the latest outcomes."""
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
        centres = [points[mine][halves == side].mean(axis=0) for side in (0, 1)]
        stays = int(sizes.argmax())
        classes = _with(
            classes, k, centres[stays], centres[1 - stays][None], sizes[[stays, 1 - stays]].astype(np.float64)
        )
    return classes


def parted(classes: Classes, network: Codes, points: Floats, least_members: int, rng: np.random.Generator) -> Classes:
    """Classes, each cut by k-means into one for every `least_members` members. network (n,), points (n, 3)."""
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
    """(n,) which of k clusters each is in; of fewer, where points are too often the same (round trips in whole ms)."""
    from sklearn.cluster import KMeans

    k = min(k, len(np.unique(points, axis=0)))
    means = KMeans(k, n_init=2, random_state=int(rng.integers(2**31))).fit(points)
    labels: Codes = means.labels_.astype(np.int64)
    return labels


def _with(classes: Classes, k: int, stays: Floats, leaves: Floats, counts: Floats) -> Classes:
    """Class k at `stays` (3,), new ones at `leaves` (m, 3); counts (1 + m,) members of each."""
    new = len(leaves)
    centroid = np.concatenate((classes.centroid, leaves))
    centroid[k] = stays
    count = np.concatenate((classes.count, counts[1:]))
    count[k] = counts[0]
    scale = np.concatenate((classes.scale, np.repeat(classes.scale[k][None], new, axis=0)))
    spread = np.concatenate((classes.spread, np.zeros(new)))
    born = 1 + max(int(name.removeprefix("nc")) for name in classes.ids)
    devices = (*classes.devices, *(classes.devices[k],) * new) if classes.devices else ()
    return Classes((*classes.ids, *(f"nc{born + at}" for at in range(new))), centroid, scale, count, spread, devices)
