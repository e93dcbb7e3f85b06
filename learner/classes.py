# SPDX-License-Identifier: MIT
"""Network classes: clients that behave alike, under names that stay.

Question   Which clients may share one model of page load times?
Method     k-means over (ln bandwidth, ln round trip, ln loss), each scaled by its interquartile range, and over further
           features that decide page load times (`relevance.py`); k is the smallest for which members' page load times
           spread within a class by at most one sigma of a single load. An unknown coordinate beyond the first three
           takes the mean of its class's members, until that moves no member (k-POD).
Stop when  no larger k is allowed or the spread is within its bound.
Reads as   centroids and scales; a client is of the class whose centroid is nearest (`configtron/model/nearest.py`).
Fails as   class -1 for a client with unknown bandwidth, round trip or loss. Where none has all three there is one
           class, of every client (`Classes.everyone`).
Differs    CT bounds the spread by "one standard deviation of the mean" without its unit: here of ln(ms), the site's
           mean removed, against the standard deviation of repeated loads. Then members differ no more than one
           member differs from itself.
Source     CT section 4; Arthur and Vassilvitskii 2007 (k-means++, as in scikit-learn); Chi, Chi and Baraniuk 2016
           (k-POD: k-means where some coordinates are missing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Contexts, Floats, conditions_of
from configtron.learner.features import CENTRE_LN
from configtron.learner.state import keep
from configtron.model.errors import BadInput
from configtron.model.nouns import Axis, NetworkClass
from configtron.model.tensor import Tensor

# The interquartile range of a normal distribution, in standard deviations: makes the scale comparable to those.
IQR_PER_SIGMA = 1.349
Flags = npt.NDArray[np.bool_]

# Coordinates that every client must have: bandwidth, round trip, loss.
BASE = 3
# Times that unknown coordinates are set to their class's present centroid: beyond, hardly a member changes class.
REFILLED = 5
# Points up to which a table of points x classes costs less than a pass for each class.
FEW = 64
# A feature that hardly varies must not be blown up to matter: a tenth of an e-fold counts as one scale.
LEAST_SCALE_LN = 0.1
# Numbers of classes that the one-sigma rule tries: up to some 150 outcomes a class of the ten thousand it is given.
ALLOWED_K = (4, 6, 8, 12, 16, 20, 24, 32, 48, 64)
# Why there is one class where no client has all three coordinates.
NO_CONTEXTS = "no network contexts: one class"
# Contexts of a device from which classes are made for it alone: some ten a class.
LEAST_OF_DEVICE = 200


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """K classes.

    centroid, scale: (K, 3 + axes) in `nearest.point`'s coordinates; count, spread: (K,) members, of ln(ms)
    devices: the device of each class, (K,), "" for any client; empty where no class asks for a device.
    axes: the coordinates of points beyond bandwidth, round trip and loss (`NetworkClass.axes`)
    """

    ids: tuple[str, ...]
    centroid: Floats
    scale: Floats
    count: Floats
    spread: Floats
    devices: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def everyone(self) -> bool:
        """Return whether one class holds every client, because no network was known: it is infinitely wide."""
        return bool(np.isinf(self.scale).all())

    def points(self, contexts: Contexts) -> Floats:
        """Return (n, 3 + axes): where these classes see contexts; NaN where a feature is unknown, and for a class of
        everyone its middle."""
        found = points_of(contexts, self.axes)
        return np.where(np.isnan(found), self.centroid, found) if self.everyone else found

    def filled(self, network: Codes, points: Floats) -> Floats:
        """Return (n, 3 + axes) points; unknown coordinates beyond the first three are the centroid's."""
        if not self.axes:
            return points
        return np.where(np.isnan(points), self.centroid[np.maximum(network, 0)], points)

    def of(self, contexts: Contexts) -> Codes:
        """Return (n,) class of each context; -1 where a feature is unknown. The rule of `nearest.nearest`."""
        points = self.points(contexts)
        if not self.devices:
            return self.assign(points)
        found = np.full(len(points), -1, dtype=np.int64)
        device = contexts.device if len(contexts.device) else np.full(len(points), -1)
        for code in np.unique(device):
            mine, name = device == code, contexts.devices[code] if code >= 0 else ""
            found[mine] = self.assign(points[mine], self._open_to(name))
        return found

    def _open_to(self, device: str) -> list[int]:
        own = [k for k, whose in enumerate(self.devices) if device and whose == device]
        return own or [k for k, whose in enumerate(self.devices) if not whose]

    def again(self, network: Codes, points: Floats) -> Codes:
        """Return (n,) nearest class now for members of these classes; each stays among the classes of its device."""
        if not self.devices:
            return np.where(network < 0, -1, self.assign(points))
        found = network.copy()
        for name in set(self.devices):
            alike = [k for k, whose in enumerate(self.devices) if whose == name]
            mine = np.isin(network, alike)
            found[mine] = self.assign(points[mine], alike)
        return found

    def assign(self, points: Floats, among: list[int] | None = None) -> Codes:
        """Return (n, 3 + axes) -> (n,) nearest class, perhaps among some only; -1 where one of the first three is
        unknown."""
        if len(points) <= FEW:
            return self._assign_few(points, np.arange(len(self.ids)) if among is None else np.array(among))
        best = np.zeros(len(points), dtype=np.int64)
        columns = [np.ascontiguousarray(points[:, axis]) for axis in range(points.shape[1])]
        least = np.full(len(points), np.inf)
        for k in range(len(self.ids)) if among is None else among:
            square = [((x - c) / s) ** 2 for x, c, s in zip(columns, self.centroid[k], self.scale[k], strict=True)]
            away = sum(square[:BASE]) + sum(np.nan_to_num(one) for one in square[BASE:])
            nearer = away < least
            best[nearer] = k
            least[nearer] = away[nearer]
        best[np.isinf(least)] = -1
        return best

    def _assign_few(self, points: Floats, among: Codes) -> Codes:
        """Return the same, all classes at once: the same sums in the same order, hence the same bits."""
        x, c, s = points[:, None, :], self.centroid[among], self.scale[among]
        square = ((x - c) / s) ** 2
        away = square[..., 0] + square[..., 1] + square[..., 2]
        for axis in range(BASE, points.shape[1]):
            away = away + np.nan_to_num(square[..., axis])
        away = np.where(np.isnan(away), np.inf, away)
        nearest = away.argmin(axis=1)
        found: Codes = np.where(np.isinf(away.min(axis=1)), -1, among[nearest])
        return found

    def nouns(self) -> tuple[NetworkClass, ...]:
        """Return the classes as an agent takes them."""
        return tuple(
            NetworkClass(
                name,
                tuple(map(float, self.centroid[k])),
                tuple(map(float, self.scale[k])),
                int(self.count[k]),
                float(self.spread[k]),
                self.devices[k] if self.devices else "",
                self.axes,
            )
            for k, name in enumerate(self.ids)
        )


def points_of(contexts: Contexts, axes: tuple[Axis, ...]) -> Floats:
    """Return (n, 3 + axes) coordinates, NaN where one is unknown."""
    base = contexts.points()
    return np.column_stack((base, *(contexts.axis(axis) for axis in axes))) if axes else base


def fit(points: Floats, k: int, rng: np.random.Generator, axes: tuple[Axis, ...] = ()) -> Classes:
    """Return k classes (fewer, if there are fewer distinct points), by bandwidth, slowest first; one of everyone if no
    point is known. points (n, 3 + axes)."""
    from sklearn.cluster import KMeans

    known = points[~np.isnan(points[:, :BASE]).any(axis=1)]
    if not len(known):
        centroid, count = np.array([[*CENTRE_LN, *np.zeros(len(axes))]]), np.array([float(len(points))])
        return Classes(("nc0",), centroid, np.full_like(centroid, np.inf), count, np.zeros(1), axes=axes)
    if axes:
        known, missing = _with_medians(known)
    low, high = np.percentile(known, (25, 75), axis=0)
    scale = np.maximum((high - low) / IQR_PER_SIGMA, LEAST_SCALE_LN)
    scaled = known / scale
    k = min(k, len(np.unique(scaled, axis=0)))
    means = KMeans(k, n_init=4, random_state=int(rng.integers(2**31))).fit(scaled)
    for _ in range(REFILLED if axes and missing.any() else 0):
        scaled = np.where(missing, means.cluster_centers_[means.labels_], scaled)
        means = KMeans(k, init=means.cluster_centers_, n_init=1).fit(scaled)
    order = np.lexsort(means.cluster_centers_.T[::-1])
    count = np.bincount(means.labels_, minlength=k)[order]
    ids = tuple(f"nc{at}" for at in range(k))
    centroid = means.cluster_centers_[order] * scale
    return Classes(ids, centroid, np.tile(scale, (k, 1)), count.astype(np.float64), np.zeros(k), axes=axes)


def _with_medians(points: Floats) -> tuple[Floats, Flags]:
    """Return (n, d) with medians (0 where all are unknown) in place of NaN, and where those were."""
    missing = np.isnan(points)
    known = [column[~np.isnan(column)] for column in points.T]
    middle = np.array([np.median(column) if len(column) else 0.0 for column in known])
    return np.where(missing, middle, points), missing


def fit_by_device(
    contexts: Contexts,
    k: int,
    rng: np.random.Generator,
    *,
    least_members: int = LEAST_OF_DEVICE,
    axes: tuple[Axis, ...] = (),
) -> Classes:
    """Return k classes for every device that at least `least_members` contexts have, and k for any client."""
    points = points_of(contexts, axes)
    known = ~np.isnan(points[:, :BASE]).any(axis=1)
    parts, devices = [fit(points, k, rng, axes)], [""]
    for code, name in enumerate(contexts.devices):
        mine = known & (contexts.device == code)
        if mine.sum() >= least_members:
            parts, devices = [*parts, fit(points[mine], k, rng, axes)], [*devices, name]
    whose = tuple(name for part, name in zip(parts, devices, strict=True) for _ in part.ids)
    names = ("centroid", "scale", "count", "spread")
    centroid, scale, count, spread = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Classes(tuple(f"nc{at}" for at in range(len(whose))), centroid, scale, count, spread, whose, axes)


def spreads(classes: Classes, points: Floats, log_ms: Floats, site: Codes) -> Floats:
    """Return (K,) the standard deviation of members' ln(ms) less each site's mean within the class."""
    code = classes.assign(points)
    width = int(site.max()) + 1 if len(site) else 1
    at = code * width + site
    size = len(classes) * width
    count = np.maximum(np.bincount(at, minlength=size), 1)
    mean = np.bincount(at, weights=log_ms, minlength=size) / count
    rest = (log_ms - mean[at]) ** 2
    members = np.maximum(np.bincount(code, minlength=len(classes)), 1)
    found: Floats = np.sqrt(np.bincount(code, weights=rest, minlength=len(classes)) / members)
    return found


def choose_k(
    points: Floats,
    log_ms: Floats,
    site: Codes,
    rng: np.random.Generator,
    *,
    sigma_ln: float,
    noise_ln: float = 0.0,
    candidates: tuple[int, ...] = ALLOWED_K,
    axes: tuple[Axis, ...] = (),
) -> Classes:
    """Return classes by the one-sigma rule: the smallest candidate k whose mean spread, by members, is at most
    `sigma_ln`.

    points (n, 3 + axes), log_ms (n,) under one configuration (Default), site (n,). The largest candidate, if none
    passes. noise_ln: the spread of single loads by themselves, which is subtracted (0 for medians).
    """
    found = None
    for k in candidates:
        found = fit(points, k, rng, axes)
        spread = np.sqrt(np.maximum(spreads(found, points, log_ms, site) ** 2 - noise_ln**2, 0.0))
        found = replace(found, spread=spread)
        if mean_spread(found) <= sigma_ln:
            break
    if found is None:
        raise BadInput("network classes: no number of classes was allowed")
    return found


def mean_spread(classes: Classes) -> float:
    """Return the spread of ln(ms) within classes, weighted by members, which `choose_k` bounds."""
    return float(np.average(classes.spread, weights=np.maximum(classes.count, 1e-9)))


def of_tensor(tensor: Tensor, rng: np.random.Generator, *, sigma_ln: float) -> Classes:
    """Return the offline start: classes over a tensor's conditions, k by the one-sigma rule under Default."""
    conditions, sites = len(tensor.names), len(tensor.sites)
    each = np.repeat(np.arange(conditions), sites)
    site, axes = np.tile(np.arange(sites), conditions), axes_of(tensor)
    points = points_of(conditions_of(tensor), axes)[each]
    default = np.full(len(each), tensor.grid.default)
    log_ms = np.log(tensor.lookup(each, default, site))
    seen = ~np.isnan(log_ms)
    return choose_k(points[seen], log_ms[seen], site[seen], rng, sigma_ln=sigma_ln, axes=axes)


def axes_of(tensor: Tensor) -> tuple[Axis, ...]:
    """Return every characteristic of a tensor's conditions as an axis, if it differs among them."""
    numbers = tensor.characteristics
    return tuple((name, ()) for name, column in numbers.items() if len(np.unique(column[~np.isnan(column)])) > 1)
