# SPDX-License-Identifier: MIT
"""A policy's start from the first outcomes of a log: its classes, their bounds on divergence, the knobs' effects.

Page load times of a log are of many clients under many profiles. Three things are removed before a class, a bound or a
knob is judged: the effects of sites and profiles, the noise of single loads (`repeated.py`), and a client's place in
its class (`class_spread.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from configtron.learner.chance import seeded
from configtron.learner.class_spread import no_slopes
from configtron.learner.classes import BASE, Classes, choose_k, fit, fit_by_device, mean_spread, points_of
from configtron.learner.columns import Codes, Floats
from configtron.learner.evolve import FALSE_ALARM, Divergence
from configtron.learner.logged import Logged
from configtron.learner.relevance import Relevance, relevance
from configtron.learner.repeated import SIGMAS_PER_MAD, Repeats, repeats
from configtron.learner.tally import Tally, no_tally
from configtron.learner.warmstart import FIRST_NOISE_LN
from configtron.model.grid import Grid

# The features of classes: those that decide page load times, or bandwidth, round trip and loss alone.
AUTO, FEW = "auto", "few"
# Where the generator of `relevance` begins: of its own, so that a test without a finding changes no decision.
DEALING = 41
# How far members of one class may differ, the noise of their loads apart: as one load is first taken to spread. It does
# not follow the noise that is measured, or quieter pages would make for more classes of the same clients.
ALIKE_LN = FIRST_NOISE_LN
# Regressions, each on the residuals of the last: the second moves noise by a hundredth, a third would move nothing.
PASSES = 2
# Loads further off, in deviations by their median, count as so far: one bad moment is no effect of a knob.
FAR_SIGMAS = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Beginning:
    """Classes made offline, and the noise that repeated loads of the same outcomes show.

    spread_ln: how far members of a class differ in ln(ms), noise apart, where their number was chosen by that; else 0
    relevance: which features beyond bandwidth, round trip and loss classes live over
    """

    classes: Classes
    repeats: Repeats
    spread_ln: float = 0.0
    relevance: Relevance = field(default_factory=Relevance)

    def divergence(self) -> Divergence:
        """Return the bound for a split: members that differ by more than the rule allows them and their loads'
        noise."""
        return divergence_of(self.repeats)


def divergence_of(found: Repeats) -> Divergence:
    """Return a bound on the spread of single loads in a class, members' differences plus noise; and on the chance of a
    split where all want the same."""
    return Divergence(float(np.hypot(ALIKE_LN, found.variance**0.5)), false_alarm=FALSE_ALARM)


def beginning(
    logged: Logged,
    k: int | None,
    rng: np.random.Generator,
    *,
    by_device: bool = False,
    grid: Grid | None = None,
    features: str = "auto",
) -> Beginning:
    """Return the offline start: k classes of these clients, or as many as keep their members alike (None).

    The rule wants page load times under one configuration; a log has many, so each one's mean difference to its sites
    is subtracted. by_device: as many classes for every device of which there are outcomes enough, and for any client.
    grid: holds all profiles; features: "auto" for those beyond bandwidth, round trip and loss that decide anything
    (`relevance.py`; none without a grid), "few" for none.
    """
    found, configuration = Relevance(), logged.decisions.configuration
    seen = logged.contexts
    if grid is not None and features == AUTO and (seen.numbers or seen.names or len(seen.devices)):
        of_grid, chance = logged.on(grid).configuration, seeded(DEALING)
        found = relevance(logged.contexts, of_grid, np.log(logged.plt_ms), grid, chance)
    axes = tuple(axis for axis in found.axes if not (by_device and axis[0] == "device"))
    points = points_of(logged.contexts, axes)
    known = ~np.isnan(points[:, :BASE]).any(axis=1)
    site = np.where(logged.contexts.site < 0, len(logged.contexts.sites), logged.contexts.site)
    log_ms = np.log(logged.plt_ms)
    noise, spread_ln = repeats(logged.contexts.prefix, site, configuration, log_ms), 0.0
    if k is not None or not known.any():
        classes = fit(points, k or 1, rng, axes)
    else:
        rest = log_ms[known] - _means(site[known], log_ms[known])
        alike = log_ms[known] - _means(configuration[known], rest)
        bounds = {"sigma_ln": ALIKE_LN, "noise_ln": noise.variance**0.5}
        classes = choose_k(points[known], alike, site[known], rng, **bounds, axes=axes)
        spread_ln = mean_spread(classes)
    if by_device:
        classes = fit_by_device(logged.contexts, len(classes), rng, axes=axes)
    return Beginning(classes, noise, spread_ln, found)


def tally_of(logged: Logged, classes: Classes, grid: Grid) -> Tally:
    """Return the logged loads, by class and site, as at the class's centroid. Errors: `BadInput` for a profile outside
    the grid."""
    sites = len(logged.contexts.sites)
    site = np.where(logged.contexts.site < 0, sites, logged.contexts.site)
    network = classes.of(logged.contexts)
    row = np.where(network < 0, -1, network * (sites + 1) + site)
    nothing = no_tally(len(classes) * (sites + 1), len(grid))
    configuration, log_ms = logged.on(grid).configuration, np.log(logged.plt_ms)
    known = np.flatnonzero(row >= 0)
    away = np.nan_to_num(classes.points(logged.contexts)[known] - classes.centroid[network[known]])
    log_ms[known] = at_centroids(log_ms[known], row[known], configuration[known], network[known], away)
    return nothing.plus(row, configuration, log_ms)


def at_centroids(log_ms: Floats, row: Codes, configuration: Codes, network: Codes, away: Floats) -> Floats:
    """Return ln(ms), (n,), less the effect of the client's place in its class, Huber-clipped where far off.

    away (n, d) from the centroid. The regression is on the residuals of rows and configurations, so it takes no
    configuration's effect away.
    """
    if not len(log_ms):
        return log_ms
    found = log_ms
    for _ in range(PASSES):
        rest = found - _means(row, found)
        rest = rest - _means(configuration, rest)
        apart = np.stack([axis - _means(row, axis) for axis in away.T], axis=1)
        slopes = no_slopes(int(network.max()) + 1, away.shape[1]).plus(network, apart, rest).slopes()
        found = found - (away * slopes[network]).sum(axis=1)
    rest = found - _means(row, found)
    rest = rest - _means(configuration, rest)
    far = FAR_SIGMAS * SIGMAS_PER_MAD * float(np.median(np.abs(rest)))
    drawn: Floats = found - (rest - np.clip(rest, -far, far))
    return drawn


def _means(group: Codes, values: Floats) -> Floats:
    """Return (n,) the mean of each value's group."""
    count = np.maximum(np.bincount(group), 1)
    found: Floats = (np.bincount(group, weights=values) / count)[group]
    return found
