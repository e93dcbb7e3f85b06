# SPDX-License-Identifier: MIT
"""How much of a figure's variance is the path's, the direction's, the moment's, the scheme's and chance's. Pure.

Question   Does a scheme's performance vary by path, by direction and over time, and how much of it is that?
Method     Analysis of variance of a balanced design: path x direction x moment x scheme x run. Directions are nested in
           paths and moments in directions, since a moment of one path is no moment of another. The sums of squares of
           path, direction, moment, scheme, the scheme's interaction with each of the three, and runs add up to the
           whole; a share is one of them over the whole. An interaction says that the order of the schemes changes.
           Interval: runs are drawn anew, with replacement, within each path, direction and moment, all schemes of a run
           together (bootstrap, 2.5 to 97.5 %). Null: labels are shuffled among what they could belong to, each as a
           whole with all below it: runs among the moments of a direction, moments among a path's directions,
           directions among paths, and the schemes of a run. A share of the null is what labels without meaning
           explain, of an interaction too.
Reads as   `VarianceShare`: share, interval, the null's mean and its 97.5 % quantile. An effect is there when its share
           is above that quantile, a test by permutation; the interval says how far other runs would move the share.
Fails as   a run without a figure takes the mean of its place's other runs, and is counted; a scheme that has no figure
           at some place is left out, and is named: the design stays balanced.
Differs    from Pantheon, which shows the three in plots and states them in words. Runs that are drawn twice make places
           differ by more and runs by less: of the draws' distribution only the deviations from its mean are used, and
           those of n runs are too small by (n - 1) / n, in squares.
Source     Fisher 1925, chapter 7; Efron 1979; Pantheon (Yan and others 2018), section 3
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The order of the axes, and of the shares.
PATH, DIRECTION, MOMENT, SCHEME, RUN = range(5)
EFFECTS = ("path", "direction", "time", "scheme", "scheme by path", "scheme by direction", "scheme by time", "runs")
# Enough for ends of an interval of 95 %: ten draws lie beyond each.
DRAWS = 400
ENDS = (2.5, 97.5)
# Squares of logarithms: less than this is the rounding of equal figures.
TINY = 1e-12

Figures = NDArray[np.float64]


class VarianceShare(NamedTuple):
    """One share of the variance: 0 to 1; its interval; what labels without meaning have."""

    name: str
    share: float
    low: float
    high: float
    null: float
    null_high: float

    @property
    def is_seen(self) -> bool:
        """Whether it is more than labels without meaning have."""
        return self.share > self.null_high


class Balanced(NamedTuple):
    """Figures without gaps; the places in the schemes' axis that are left, and how many runs were filled in."""

    figures: Figures
    schemes: list[int]
    filled: int


def balanced(figures: Figures) -> Balanced:
    """Fill what is missing (NaN) by the mean of the other runs; leave out schemes that lack all runs somewhere."""
    absent = np.isnan(figures)
    schemes = [n for n in range(figures.shape[SCHEME]) if not absent[:, :, :, n].all(axis=-1).any()]
    kept, absent = figures[:, :, :, schemes], absent[:, :, :, schemes]
    if not schemes:
        return Balanced(kept, [], 0)
    means = np.nanmean(kept, axis=RUN, keepdims=True)
    return Balanced(np.where(absent, means, kept), schemes, int(absent.sum()))


def shares(figures: Figures) -> Figures:
    """Return the shares of `EFFECTS`, which add up to 1; zeros where nothing varies."""
    return _over(_sums(figures), figures)


def _over(sums: Figures, figures: Figures) -> Figures:
    whole = float(((figures - figures.mean()) ** 2).sum())
    return sums / whole if whole > TINY else np.zeros(len(sums))


def _sums(figures: Figures) -> Figures:
    """Return the sums of squares of `EFFECTS`."""
    places, size = figures.mean(axis=RUN), figures.shape[RUN]
    by_scheme = places.mean(axis=(PATH, DIRECTION, MOMENT))
    own = places - places.mean(axis=SCHEME, keepdims=True) - by_scheme + by_scheme.mean()
    between = float(((by_scheme - by_scheme.mean()) ** 2).sum()) * figures.size / len(by_scheme)
    runs = float(((figures - places[..., None]) ** 2).sum())
    main = _nested(places.mean(axis=SCHEME)[..., None], size * len(by_scheme))
    return np.array([*main, between, *_nested(own, size), runs])


def _nested(means: Figures, size: int) -> tuple[float, float, float]:
    """Return the sums of squares of path, of direction within path, of moment within direction: over the last axis."""
    by_direction = means.mean(axis=MOMENT)
    by_path = by_direction.mean(axis=DIRECTION)
    directions, moments = means.shape[DIRECTION], means.shape[MOMENT]
    return (
        size * moments * directions * float(((by_path - by_path.mean(axis=0)) ** 2).sum()),
        size * moments * float(((by_direction - by_path[:, None]) ** 2).sum()),
        size * float(((means - by_direction[:, :, None]) ** 2).sum()),
    )


def effects(figures: Figures, chance: np.random.Generator, draws: int = DRAWS) -> list[VarianceShare]:
    """Return every effect with its interval and its null; runs have none."""
    found = shares(figures)
    drawn = np.array([shares(_drawn(figures, chance)) for _ in range(draws)])
    null = np.array([_null(figures, chance) for _ in range(draws)])
    wider = np.sqrt(figures.shape[RUN] / max(figures.shape[RUN] - 1, 1))
    low, high = np.clip(found + (np.percentile(drawn, ENDS, axis=0) - drawn.mean(axis=0)) * wider, 0, 1)
    rows = (found, low, high, null.mean(axis=0), np.percentile(null, ENDS[1], axis=0))
    return [VarianceShare(name, *map(float, row)) for name, row in zip(EFFECTS, np.transpose(rows), strict=True)]


def _drawn(figures: Figures, chance: np.random.Generator) -> Figures:
    """Runs drawn anew at each place."""
    shape = list(figures.shape)
    shape[SCHEME] = 1
    return np.take_along_axis(figures, chance.integers(shape[RUN], size=shape), axis=RUN)


def _null(figures: Figures, chance: np.random.Generator) -> Figures:
    """Return the share of each effect when its own labels mean nothing."""
    units = np.moveaxis(figures, SCHEME, -1)
    order = np.argsort(chance.random(units.shape), axis=-1)
    renamed = np.moveaxis(np.take_along_axis(units, order, axis=-1), -1, SCHEME)
    levels = [_over(_sums(_exchanged(units, at, chance)), figures) for at in (PATH, DIRECTION, MOMENT)]
    main, inter = ([one[first + at] for at, one in enumerate(levels)] for first in (PATH, SCHEME + 1))
    return np.array([*main, _over(_sums(renamed), figures)[SCHEME], *inter, np.nan])


def _exchanged(units: Figures, level: int, chance: np.random.Generator) -> Figures:
    """Exchange what is one level below among the members of a level; the last axis is a run's schemes."""
    above, below = units.shape[:level], units.shape[level + 2 :]
    blocks = units.reshape(*above, -1, *below)
    order = np.argsort(chance.random(blocks.shape[: level + 1]), axis=-1)
    order = order.reshape(*order.shape, *[1] * len(below))
    return np.moveaxis(np.take_along_axis(blocks, order, axis=level).reshape(units.shape), -1, SCHEME)
