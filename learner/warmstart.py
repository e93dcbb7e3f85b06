# SPDX-License-Identifier: MIT
"""The prior from an emulated tensor before the first real load: effects, their spread, the round trips of loads.

Question   Which facts of an emulator hold although its networks are other networks, and its strengths are wrong?
Method     Every condition is a class of its own, known exactly and counted as few loads. From it: evidence about the
           shared effects; the round trips that loads take; and, most of all, covariances. The part of each cell's
           effects that features leave unexplained is split into its mean over sites (a class's own) and the rest (a
           cell's own). Mostly it is few directions: a hidden queue decides on pacing, windows and controls at once.
           Knowing the directions, some dozen loads place a class in them.
Stop when  computed, once.
Reads as   `WarmStart`: evidence, sums, spread.
Fails as   `plain_spread`, where there is no tensor: every feature by itself.
Differs    CT starts from no emulator.
Source     Efron and Morris 1975 (a prior's spread from many alike); Laird and Ware 1982.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.classes import points_of
from configtron.learner.columns import Codes, Floats, conditions_of
from configtron.learner.features import NETWORK_COLUMNS, SITE_SHARE, cell_features, rounds_sums
from configtron.learner.linear import Evidence, Spread, evidence, sufficient_statistics
from configtron.learner.tensor_mapping import Mapped, filled
from configtron.model.nouns import Axis

# Spread of one load around its cell's and configuration's mean, until repeats have shown it.
FIRST_NOISE_LN = 0.25
# Loads that a tensor's page load times under Default count as, all together, where round trips are judged: some hundred
# real loads are better evidence than an emulator.
ROUNDS_LOADS = 300.0
# A class's and a cell's own effects where no tensor shows them: shares of a feature's prior deviation.
CLASS_SHARE, CELL_SHARE = 0.3, 0.1
# Directions in which no emulated condition differs may yet differ in the world: share of a feature's prior deviation.
LEAST_SHARE = 0.01
# Ridge that keeps a cell's effects finite where the grid leaves two features alike; a hundredth of one configuration.
RIDGE = 0.01
# Of the regression of effects over cells, in cells: there to keep it finite.
CELL_RIDGE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """evidence: of shared effects, worth the stated loads; rounds: as `features.rounds_sums`; spread: of own ones."""

    evidence: Evidence
    rounds: tuple[Floats, Floats]
    spread: Spread


def plain_spread(knob_sd_ln: Floats) -> Spread:
    """Return own effects of every feature by itself."""
    return Spread(np.diag((CLASS_SHARE * knob_sd_ln) ** 2), np.diag((CELL_SHARE * knob_sd_ln) ** 2))


def emulated(warm: Mapped, knob_sd_ln: Floats, loads: float, sites: int, axes: tuple[Axis, ...] = ()) -> WarmStart:
    """Return a tensor's prior for a policy of so many sites, all of it together counting as `loads` page loads;
    unmeasured cells show nothing.

    knob_sd_ln (f,) as from `features.configuration_features`.
    """
    log_ms, features = warm.log_ms().transpose(0, 2, 1).reshape(-1, len(warm.tensor.grid)), warm.features
    measured = ~np.isnan(log_ms)
    points, level = _levels(warm, axes)
    rounds_ln = level - points[:, 1:2]
    usual = np.where(np.isnan(rounds_ln), np.nanmean(rounds_ln), rounds_ln)
    found, share = cell_features(points, np.concatenate((usual, usual[:, :1]), axis=1), axes)
    inner = np.arange(len(found)).reshape(len(points), -1)[:, :-1].ravel()
    cells, share = _placed(found[inner], share, warm.place, sites)
    spread = _spread(warm, filled(log_ms), cells, share, knob_sd_ln)
    weight = loads / max(int(measured.sum()), 1) * measured / FIRST_NOISE_LN**2
    shown = evidence(sufficient_statistics(weight, np.nan_to_num(log_ms), features, len(warm.place), spread), cells)
    # Round trips by place: a site that is none of the policy's counts as any other.
    places = np.full((len(points), sites + 1), np.nan)
    for at in np.unique(warm.place):
        some = level[:, warm.place == at]
        known = ~np.isnan(some)
        total, count = np.where(known, some, 0.0).sum(axis=1), known.sum(axis=1)
        places[:, at] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    counted = np.full((1, sites + 1), ROUNDS_LOADS / level.size)
    return WarmStart(shown, rounds_sums(points, places, counted), spread)


def _placed(cells: Floats, share: Floats, place: Codes, sites: int) -> tuple[Floats, Floats]:
    """Return cells' features (n, .) and prior shares, with a column for each of the policy's sites in place of the
    tensor's. place (tensor's sites,)."""
    network, mine = NETWORK_COLUMNS, np.eye(sites + 1)[place, :-1]
    row = np.tile(mine, (len(cells) // len(place), 1))
    after = network + len(place)
    found = np.concatenate((cells[:, :network], row, cells[:, after:]), axis=1)
    return found, np.concatenate((share[:network], np.full(sites, SITE_SHARE), share[after:]))


def _spread(warm: Mapped, log_ms: Floats, cells: Floats, share: Floats, knob_sd_ln: Floats) -> Spread:
    """Return covariances of the effects' residuals on `cells` (n, q), n = conditions x sites; of conditions without
    gaps."""
    features, sites = warm.features, len(warm.place)
    full = (~np.isnan(log_ms)).all(axis=1).reshape(-1, sites).all(axis=1)
    if full.sum() < 2 * features.shape[1]:
        return plain_spread(knob_sd_ln)
    rows = np.repeat(full, sites)
    excess, g = log_ms[rows] - log_ms[rows][:, [warm.base]], cells[rows]
    effects = np.linalg.solve(features.T @ features + RIDGE * np.eye(features.shape[1]), features.T @ excess.T).T
    explained = g @ np.linalg.solve(g.T @ g + CELL_RIDGE * np.diag(1.0 / share**2), g.T @ effects)
    rest = (effects - explained).reshape(int(full.sum()), sites, -1)
    of_class = rest.mean(axis=1)
    of_cell = (rest - of_class[:, None]).reshape(len(g), -1)
    # The regression has taken a freedom of the conditions for each of its columns.
    free = max(len(of_class) - g.shape[1], len(of_class) // 2)
    least = np.diag((LEAST_SHARE * knob_sd_ln) ** 2)
    return Spread(of_class.T @ of_class / free + least, of_cell.T @ of_cell / len(of_cell) + least)


def _levels(warm: Mapped, axes: tuple[Axis, ...]) -> tuple[Floats, Floats]:
    """Return (conditions, 3 + axes) points of classes; (conditions, sites) ln(ms) under the one nearest to Default."""
    return points_of(conditions_of(warm.tensor), axes), warm.log_ms()[:, warm.base, :]
