"""What the linear model sees of a configuration and of a cell, by rules that know no knob by name.

A configuration's features are differences to the default's, so the model's value is directly the excess over Default,
in ln(ms), and zero for Default itself. Ordered knobs (numbers, more than two) enter by their binary logarithm, its
square and its inverse power; names by one-hot; two knobs together by the products of their first-order features.

A cell's features are its class's centroid, up to second order, and its site. A site's own slope over the network was
tried: three times the work, and nothing gained that the cell's residual does not give.
Prior standard deviations stand beside the features: they say how large an effect is plausible.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from configtron.learner.columns import Floats
from configtron.learner.grid import Grid

# A knob alone moves page load times by a third at most times; shape terms and pairs by less. In ln(ms) per feature.
KNOB_LN, SHAPE_LN, PAIR_LN = 0.3, 0.2, 0.12
# How strongly an effect may depend on the network, its squares and products, and the site. Shares of the effect.
NETWORK_SHARE, CURVE_SHARE, SITE_SHARE = 0.6, 0.3, 0.6
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


def cell_features(centroid: Floats, sites: int) -> tuple[Floats, Floats]:
    """(classes x (sites + 1), q) features and (q,) prior shares; centroid: (classes, 3), `nearest.point`'s coordinates.

    The last site of each class is "any other": it has the network's features only.
    """
    z = (centroid - np.array(CENTRE_LN)) / np.array(SCALE_LN)
    ones = np.ones((len(z), 1))
    products = np.stack([z[:, a] * z[:, b] for a, b in combinations(range(3), 2)], axis=1)
    network = np.concatenate((ones, z, z**2 - 1.0, products), axis=1)
    place = np.concatenate((np.eye(sites), np.zeros((1, sites))))
    rows = np.concatenate((np.repeat(network, sites + 1, axis=0), np.tile(place, (len(z), 1))), axis=1)
    return rows, np.array([1.0] + [NETWORK_SHARE] * 3 + [CURVE_SHARE] * 6 + [SITE_SHARE] * sites)
