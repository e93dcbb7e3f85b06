"""What the linear model sees of a configuration and of a cell, by rules that know no knob by name.

A configuration's features are differences to the default's, so the model's value is directly the excess over Default,
in ln(ms), and zero for Default itself. Ordered knobs (numbers, more than two) enter by their binary logarithm, its
square and its inverse power; names by one-hot; two knobs together by the products of their first-order features.

A cell's features are its class's centroid, up to second order, its site, and the site's heaviness times the
centroid's: a heavy page loses more on a slow network, whichever page it is. (A slope of its own for every site was
tried as well: it trebles the work, and learns more slowly.)
Prior standard deviations stand beside the features: they say how large an effect is plausible.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.grid import Grid

# A knob alone moves page load times by a third at most times; shape terms and pairs by less. In ln(ms) per feature.
KNOB_LN, SHAPE_LN, PAIR_LN = 0.3, 0.2, 0.12
# How strongly an effect may depend on the network, its squares and products, the site, its heaviness by network:
# shares of the effect.
NETWORK_SHARE, CURVE_SHARE, SITE_SHARE, HEAVY_SHARE = 0.6, 0.3, 0.6, 0.35
# Loads that an earlier opinion of a site's heaviness is worth; a site's level is known to a tenth after as many.
HEAVY_LOADS = 10.0
# Centre and scale of ln(kbit/s), ln(ms), ln(loss + floor): 5 Mbit/s, 80 ms, 0.5 %, and what clients spread by.
CENTRE_LN, SCALE_LN = (8.5, 4.4, -5.0), (1.3, 0.8, 1.0)


def configuration_features(grid: Grid) -> tuple[Floats, Floats]:
    """(configurations, f) features and (f,) prior standard deviations in ln(ms)."""
    columns: list[Floats] = []
    prior: list[float] = []
    first: list[list[Floats]] = []
    for knob in grid.knobs:
        position = grid.column(knob.name)
        if len(knob.values) > 2 and all(isinstance(value, int | float) for value in knob.values):
            power = np.log2(np.array(knob.values, dtype=np.float64))[position]
            middle = float(power[np.unique(position, return_index=True)[1]].mean())
            shapes = (power / 2.0, (power - middle) ** 2 / 4.0, 2.0 * 2.0**-power)
            mine = [shape - shape[grid.default] for shape in shapes]
            prior += [KNOB_LN, SHAPE_LN, SHAPE_LN]
            columns, first = columns + mine, [*first, mine[:1]]
        else:
            others = [value for value in range(len(knob.values)) if value != position[grid.default]]
            mine = [(position == value).astype(np.float64) for value in others]
            prior += [KNOB_LN] * len(mine)
            columns, first = columns + mine, [*first, mine]
    for one, two in combinations(first, 2):
        pairs = [a * b for a in one for b in two if (a * b).any()]
        columns, prior = columns + pairs, prior + [PAIR_LN] * len(pairs)
    return np.stack(columns, axis=1), np.array(prior)


def cell_features(centroid: Floats, heaviness: Floats) -> tuple[Floats, Floats]:
    """(classes x (sites + 1), q) features and (q,) prior shares.

    centroid: (classes, 3), `nearest.point`'s coordinates; heaviness: (sites,) e-folds that a site takes longer than its
    like. The last site of each class is "any other": it has the network's features only.
    """
    sites = len(heaviness)
    z = (centroid - np.array(CENTRE_LN)) / np.array(SCALE_LN)
    products = np.stack([z[:, a] * z[:, b] for a, b in combinations(range(3), 2)], axis=1)
    shape = np.concatenate((z, z**2 - 1.0), axis=1)
    network = np.concatenate((np.ones((len(z), 1)), shape, products), axis=1)
    place = np.concatenate((np.eye(sites), np.zeros((1, sites))))
    heavy = np.tile(np.append(heaviness, 0.0), len(z))[:, None] * np.repeat(shape, sites + 1, axis=0)
    rows = np.concatenate((np.repeat(network, sites + 1, axis=0), np.tile(place, (len(z), 1)), heavy), axis=1)
    shares = [1.0] + [NETWORK_SHARE] * 3 + [CURVE_SHARE] * 6 + [SITE_SHARE] * sites + [HEAVY_SHARE] * 6
    return rows, np.array(shares)


def heaviness(level_ln: Floats, loads: Floats, before: Floats) -> Floats:
    """(sites,) e-folds that a site takes longer than its like, about zero on average.

    level_ln (classes, sites): expected ln(ms) of Default, NaN where nothing was seen; loads (classes, sites) it rests
    on; before (sites,): what was thought, worth `HEAVY_LOADS` loads. Classes' own levels are fitted along and dropped.
    """
    weight = np.where(np.isnan(level_ln), 0.0, loads)
    level = np.nan_to_num(level_ln)
    of_class = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    normal = np.diag(weight.sum(axis=0)) - weight.T @ of_class + HEAVY_LOADS * np.eye(len(before))
    right = (weight * level).sum(axis=0) - of_class.T @ (weight * level).sum(axis=1) + HEAVY_LOADS * before
    found: Floats = np.linalg.solve(normal, right)
    centred: Floats = found - found.mean()
    return centred
