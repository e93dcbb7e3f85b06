# SPDX-License-Identifier: MIT
"""The linear model's features of a configuration and of a cell, by rules that know no knob by name.

A configuration's features are differences to the default's, so the model's value is directly the excess over Default,
in ln(ms), and zero for Default itself. Ordered knobs (numbers above 0, more than two) enter by their binary logarithm,
its square and its inverse power; names, and numbers without a logarithm, by one-hot; two knobs together by the products
of their first-order features.

A cell's features are its class's centroid, up to second order, its site, and the textbook's limits on a transport's
gain there: how many round trips a load takes (its level over the round trip, learned, so a heavy page is distinguished
from a light one unseen), their inverse, which is the share of the time that one round trip saved is; how far the pipe
is above the window that this loss allows (Mathis et al. 1997), and above some packets. (A slope of its own for every
site was tried as well: it trebles the work, and learns more slowly.) Prior standard deviations stand beside the
features: they state how large an effect is plausible.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from configtron.learner.columns import Floats
from configtron.model.characteristics import BY_NAME
from configtron.model.grid import Grid
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Axis, Profile, Value

# A knob alone moves page load times by a third at most times; shape terms and pairs by less. In ln(ms) per feature.
KNOB_LN, SHAPE_LN, PAIR_LN = 0.3, 0.2, 0.12
# How strongly an effect may depend on the network, its squares and products, the site, the textbook's features: shares
# of the effect.
NETWORK_SHARE, CURVE_SHARE, SITE_SHARE, TEXTBOOK_SHARE = 0.6, 0.3, 0.6, 0.5
# Round trips of a load where nothing was seen, ln: a dozen. Loads that an opinion from other cells is worth.
USUAL_ROUNDS_LN, OPINION_LOADS = 2.5, 3.0
# No load takes less than a handshake and a request; and where it takes a thousand round trips, more of them change
# nothing. Beyond, the features' squares would believe a guess the more the further it goes astray.
LEAST_ROUNDS_LN, MOST_ROUNDS_LN = 0.7, 7.0
# Precision, in loads, that a slope of round trips over networks and sites is zero: there to keep it finite.
SLOPE_LOADS = 0.3
# Packets in flight that a loss allows: 0.87 / sqrt(loss), with delayed acknowledgements.
MATHIS = 0.87
# Bits in a packet of a full-sized segment; kbit/s times ms are bits.
PACKET_BITS = 12_000.0
# ln(packets) above which a pipe is large (20) and very large (150): slow start ends in between.
LARGE_PIPES_LN = (3.0, 5.0)
# Columns of a cell that bandwidth, round trip and loss give (`network_features`); the sites' come next.
NETWORK_COLUMNS = 10
# Centre and scale of ln(kbit/s), ln(ms), ln(loss + floor): 5 Mbit/s, 80 ms, 0.5 %, and the spread of clients.
CENTRE_LN, SCALE_LN = (8.5, 4.4, -5.0), (1.3, 0.8, 1.0)


# The usual value of a characteristic, in its unit, and the spread of clients, ln.
USUAL = {
    "min_rtt_ms": (60.0, 0.8), "jitter_ms": (5.0, 1.0), "delivery_kbps": (5000.0, 1.3), "queue_ms": (40.0, 1.3),
    "loss_run": (2.0, 0.8), "window_bytes": (1e6, 1.5), "delivery_share": (0.8, 0.5), "ack_gap_ms": (3.0, 1.0),
    "reordering": (3.0, 0.8),
}  # fmt: skip
# The spread of categories' coordinates (`relevance.py`); how strongly an effect may depend on a further coordinate.
CATEGORY_SPREAD, AXIS_SHARE = 0.5, 0.4


def configuration_features(grid: Grid) -> tuple[Floats, Floats]:
    """Return (configurations, f) features and (f,) prior standard deviations in ln(ms)."""
    columns, prior, first = _columns(grid, grid.profiles)
    for one, two in combinations(range(len(first)), 2):
        pairs = [a * b for a in first[one] for b in first[two] if (a * b).any()]
        columns, prior = columns + pairs, prior + [PAIR_LN] * len(pairs)
    return np.stack(columns, axis=1), np.array(prior)


def features_of(grid: Grid, profiles: Sequence[Profile]) -> Floats:
    """Return (n, f) the same features of any profiles, whatever values their knobs have; a knob that one does not name
    is at its default. NaN rows: settings that have no features here, as names that none of the grid's knobs has."""
    columns, _, first = _columns(grid, profiles)
    _, _, here = _columns(grid, grid.profiles)
    for one, two in combinations(range(len(first)), 2):
        pairs = ((i, j) for i in range(len(first[one])) for j in range(len(first[two])))
        columns += [first[one][i] * first[two][j] for i, j in pairs if (here[one][i] * here[two][j]).any()]
    found = np.stack(columns, axis=1)
    free = {knob.name: knob.default for knob in grid.knobs}
    known = {name: knob.default for name, knob in KNOBS.items()}
    for at, profile in enumerate(profiles):
        # A knob that the grid lacks must be at its default.
        if any(name not in free and value != known.get(name) for name, value in profile.settings):
            found[at] = np.nan
    return found


def _columns(grid: Grid, profiles: Sequence[Profile]) -> tuple[list[Floats], list[float], list[list[Floats]]]:
    """Return columns of single knobs over these profiles, their prior deviations, and by knob those of first order."""
    columns: list[Floats] = []
    prior: list[float] = []
    first: list[list[Floats]] = []
    settings = [dict(profile.settings) for profile in profiles]
    for knob in grid.knobs:
        default = knob.values[int(grid.column(knob.name)[grid.default])]
        given = [one.get(knob.name, default) for one in settings]
        if len(knob.values) > 2 and all(isinstance(value, int | float) and value > 0 for value in knob.values):
            used = np.unique(grid.column(knob.name))
            middle = float(np.log2(np.array([knob.values[at] for at in used], dtype=np.float64)).mean())
            mine = [one - base for one, base in zip(_shapes(given, middle), _shapes([default], middle), strict=True)]
            prior += [KNOB_LN, SHAPE_LN, SHAPE_LN]
            columns, first = columns + mine, [*first, mine[:1]]
        else:
            there = np.array([np.nan if value not in knob.values else 0.0 for value in given])
            others = [value for value in knob.values if value != default]
            mine = [there + np.array([float(value == other) for value in given]) for other in others]
            prior += [KNOB_LN] * len(mine)
            columns, first = columns + mine, [*first, mine]
    return columns, prior, first


def _shapes(given: Sequence[Value | None], middle: float) -> tuple[Floats, Floats, Floats]:
    """Return (n,) each: binary logarithm, its square, its inverse power; NaN for a value without one."""
    value = np.array([one if isinstance(one, int | float) and one > 0 else np.nan for one in given], dtype=np.float64)
    power = np.log2(value)
    return power / 2.0, (power - middle) ** 2 / 4.0, 2.0 * 2.0**-power


def network_features(centroid: Floats) -> Floats:
    """Return (classes, 10): one, and bandwidth, round trip and loss of `nearest.point`'s coordinates, scaled, up to
    second order."""
    z = (centroid[:, :3] - np.array(CENTRE_LN)) / np.array(SCALE_LN)
    products = np.stack([z[:, a] * z[:, b] for a, b in combinations(range(3), 2)], axis=1)
    return np.concatenate((np.ones((len(z), 1)), z, z**2 - 1.0, products), axis=1)


def axis_features(centroid: Floats, axes: tuple[Axis, ...]) -> Floats:
    """Return (classes, m) features of the coordinates beyond the first three: each scaled, its square, its products
    with bandwidth, round trip and loss; of a category its coordinate alone; and a textbook's two: how far the pipe is
    above the window that the client advertised, and how many round trips the queue holds. An unknown coordinate is
    taken to be usual."""
    z = (centroid[:, :3] - np.array(CENTRE_LN)) / np.array(SCALE_LN)
    columns: list[Floats] = []
    for at, (name, _) in enumerate(axes, 3):
        if name not in USUAL:
            columns.append(np.nan_to_num(centroid[:, at]) / CATEGORY_SPREAD)
            continue
        usual, spread = USUAL[name]
        known = np.where(np.isnan(centroid[:, at]), BY_NAME[name].ln(usual), centroid[:, at])
        own = (known - BY_NAME[name].ln(usual)) / spread
        columns += [own, own**2 - 1.0, *(own * z[:, base] for base in range(3))]
        if name == "window_bytes":
            columns.append(np.maximum(centroid[:, 0] + centroid[:, 1] - np.log(8.0) - known, 0.0))
        if name == "queue_ms":
            columns.append(known - centroid[:, 1])
    return np.stack(columns, axis=1) if columns else np.zeros((len(centroid), 0))


def cell_features(centroid: Floats, rounds_ln: Floats, axes: tuple[Axis, ...] = ()) -> tuple[Floats, Floats]:
    """Return (classes x (sites + 1), q) features and (q,) prior shares.

    centroid: (classes, 3 + axes), `nearest.point`'s coordinates; rounds_ln: (classes, sites + 1) ln of the round trips
    that a load takes under Default. The last site of each class is "any other": it has no place of its own.
    """
    places = rounds_ln.shape[1]
    place = np.eye(places)[:, :-1]
    plain = np.concatenate(
        (np.repeat(network_features(centroid), places, axis=0), np.tile(place, (len(centroid), 1))), axis=1
    )
    textbook = _textbook(np.repeat(centroid, places, axis=0), rounds_ln.ravel())
    shares = [1.0] + [NETWORK_SHARE] * 3 + [CURVE_SHARE] * 6 + [SITE_SHARE] * (places - 1)
    shares += [TEXTBOOK_SHARE] * textbook.shape[1]
    if not axes:
        return np.concatenate((plain, textbook), axis=1), np.array(shares)
    further = np.repeat(axis_features(centroid, axes), places, axis=0)
    return np.concatenate((plain, textbook, further), axis=1), np.array(shares + [AXIS_SHARE] * further.shape[1])


def _textbook(point: Floats, rounds_ln: Floats) -> Floats:
    """Return (cells, 15) features from round trips, loss and pipe. point (cells, 3 + axes), rounds_ln (cells,)."""
    z = (point[:, :3] - np.array(CENTRE_LN)) / np.array(SCALE_LN)
    rounds = rounds_ln - USUAL_ROUNDS_LN
    # One round trip's share of the load, times three: about one at the least there is, a handshake and a request.
    share = 3.0 * np.exp(-rounds_ln)
    pipe_ln = point[:, 0] + point[:, 1] - np.log(PACKET_BITS)
    above = pipe_ln - np.log(MATHIS) + 0.5 * point[:, 2]
    limited, either = np.maximum(above, 0.0), 1.0 / (1.0 + np.exp(-2.0 * above))
    by_network = [rounds * z[:, 0], rounds * z[:, 1], rounds * z[:, 2]]
    by_share = [share, share * z[:, 0], share * z[:, 1], share * z[:, 2], share * limited]
    large = [np.maximum(pipe_ln - bound, 0.0) / 2.0 for bound in LARGE_PIPES_LN]
    columns = [rounds, rounds**2 - 1.0, *by_network, limited, limited * rounds, either, *by_share, *large]
    return np.stack(columns, axis=1)


def rounds_of(centroid: Floats, level_ln: Floats, loads: Floats, before: tuple[Floats, Floats] | None = None) -> Floats:
    """Return (classes, sites + 1) ln of the round trips that a load takes, for every cell, seen or not.

    level_ln (classes, sites + 1): expected ln(ms) of Default, NaN where nothing was seen; loads (classes, sites + 1) it
    rests on; before: the sums (`rounds_sums`) of an emulated tensor. Cells with loads are drawn to a regression over
    all cells by `OPINION_LOADS`.
    """
    x = _rounds_columns(centroid, level_ln.shape[1])
    square, cross = _sums(x, centroid, level_ln, loads)
    if before is not None:
        square, cross = square + before[0], cross + before[1]
    slope = np.linalg.solve(square + SLOPE_LOADS * np.eye(len(cross)), cross)
    opinion = (x @ slope).reshape(level_ln.shape)
    weight = np.where(np.isnan(level_ln), 0.0, loads)
    mixed = USUAL_ROUNDS_LN + opinion + weight / (weight + OPINION_LOADS) * (_rounds(centroid, level_ln) - opinion)
    found: Floats = np.clip(mixed, LEAST_ROUNDS_LN, MOST_ROUNDS_LN)
    return found


def rounds_sums(centroid: Floats, level_ln: Floats, loads: Floats) -> tuple[Floats, Floats]:
    """Return sums of the regression of round trips over networks and sites, each cell as often as it was loaded."""
    return _sums(_rounds_columns(centroid, level_ln.shape[1]), centroid, level_ln, loads)


def _sums(x: Floats, centroid: Floats, level_ln: Floats, loads: Floats) -> tuple[Floats, Floats]:
    """Return the sums of the regression on these columns (cells, .)."""
    weight = np.where(np.isnan(level_ln), 0.0, loads).ravel()
    return x.T @ (weight[:, None] * x), x.T @ (weight * _rounds(centroid, level_ln).ravel())


def _rounds(centroid: Floats, level_ln: Floats) -> Floats:
    """Return (classes, places) ln of round trips as seen, less the usual ones; anything where nothing was seen."""
    seen: Floats = np.clip(np.nan_to_num(level_ln) - centroid[:, 1:2], LEAST_ROUNDS_LN, MOST_ROUNDS_LN)
    return seen - USUAL_ROUNDS_LN


def _rounds_columns(centroid: Floats, places: int) -> Floats:
    """Return (classes x places, .): the network, the site, and each site's slopes over the network."""
    network, place = np.repeat(network_features(centroid), places, axis=0), np.tile(np.eye(places), (len(centroid), 1))
    place[:, -1] = 0.0
    slopes = (place[:, :-1, None] * network[:, None, 1:4]).reshape(len(network), -1)
    return np.concatenate((network, place[:, :-1], slopes), axis=1)
