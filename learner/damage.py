# SPDX-License-Identifier: MIT
"""The bound on damage: which configurations a class may get without harming other flows on the bottleneck.

Question   By which configurations do neighbouring flows lose no more bytes than the page itself has, or little more?
Method     A PLT-tensor has for each of its conditions, configurations and sites how many bytes the neighbours lost for
           each byte of the page (1.0 is the page's own size; upper ends of intervals where it has them). Near a
           class are the conditions that belong to it, or lie within `REACH` of its centroid in the class's own scale.
           The greatest damage of a configuration under these conditions (`high_of`: over sites) must be within the
           bound (default `BOUND`).
           Where no such condition has neighbours, or the configuration was not measured there, only configurations that
           need no measurement pass (`unmeasured`): a congestion control that shares a queue with cubic as cubic does,
           no large burst, no more connections than browsers open.
Stop when  every class has its configurations. Default is among them, unless it was measured above the bound and another
           one is within it.
Reads as   (classes, configurations) whether a class may be served a configuration; a policy keeps to it
           (`table_policy.py`).
Fails as   `BadInput` for a tensor without damage, or a bound below 1.
Differs    from CT, whose objective is load time alone; and from a guard by names: six paced cubic connections harm more
           than bbr over one where the buffer holds a quarter of the pipe, and nothing harms where it holds eight.
Source     Ware et al., HotNets 2019 (harm, not fairness); Hock et al., ICNP 2017 (bbr at shallow buffers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts, Floats, conditions_of
from configtron.learner.driver_support import Mask, find_substitutes
from configtron.learner.serving_table import Served
from configtron.learner.state import keep
from configtron.model.congestion import FAIR
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Profile, Value
from configtron.model.tensor import Tensor

# Bytes that neighbours may lose for each byte of the page, unless stated otherwise: a quarter more than it needs.
BOUND = 1.25
# Below it no page could be loaded at all.
LEAST_BOUND = 1.0
# Least half of an interval: loads without chance repeat bit for bit, which is no certainty.
LEAST_HALF = 0.02
# Distance from a class's centroid, in standard deviations of clients: a quarter of a class's members are as near.
REACH = 1.0
# Congestion controls that share a queue with cubic as cubic does, or yield to it (RFC 9438, 5.1; Mo et al. 1999).
FAIR_CONTROLS = FAIR
# Segments in one burst (Table 1 of the paper ends there); the connections that browsers open to an origin over
# HTTP/1.1, and over h2.
MOST_BURST, MOST_CONNECTIONS = 30.0, 6
CONNECTIONS = {"http/1.1": 6, "h2": 1}


def unmeasured(settings: Mapping[str, Value]) -> bool:
    """Return whether a configuration may be served where its damage to neighbours was not measured."""
    window = settings.get("initcwnd", 0)
    burst = float(window) if isinstance(window, int | float) and settings.get("pacing") != "fq" else 0.0
    own = settings.get("connections", CONNECTIONS.get(str(settings.get("http_version", "")), 1))
    return (
        settings.get("tcp_congestion_control", "cubic") in FAIR_CONTROLS
        and burst <= MOST_BURST
        and isinstance(own, int)
        and own <= MOST_CONNECTIONS
    )


@keep
@dataclass(frozen=True, slots=True, eq=False)
class DamageBound:
    """Measured damage, and the bound on it.

    bound     bytes lost by neighbours for each byte of the page
    numbers   the measured conditions: bandwidth_kbps, rtt_ms, loss and characteristics, (conditions,) each
    high      (conditions, configurations) upper end of the neighbours' loss (`high_of`); NaN: not measured
    harmless  (configurations,) whether it may be served where it was not measured
    """

    bound: float
    numbers: dict[str, Floats]
    high: Floats
    harmless: Mask
    default: int

    def allowed(self, classes: Classes) -> Mask:
        """Return (classes, configurations) whether a class may be served a configuration. Each has one."""
        return np.stack([self.within(near) for near in self._near(classes)])

    def most(self, classes: Classes) -> Floats:
        """Return (classes, configurations) the greatest measured damage near each class; NaN where none was
        measured."""
        near = self._near(classes)
        some = np.where(near[:, :, None], self.high[None], np.nan)
        most = np.where(np.isnan(some), -np.inf, some).max(axis=1, initial=-np.inf)
        return np.where(np.isfinite(most), most, np.nan)

    def _near(self, classes: Classes) -> Mask:
        """Return (classes, conditions) which measured conditions are near each class."""
        points = classes.points(self._conditions())
        network = classes.assign(points)
        found = np.zeros((len(classes), len(points)), dtype=np.bool_)
        for k in range(len(classes)):
            away = np.nan_to_num((points - classes.centroid[k]) / classes.scale[k])
            found[k] = (network == k) | ((away**2).sum(axis=1) <= REACH**2)
        return found

    def within(self, near: Mask) -> Mask:
        """Return (configurations,) whether each may be served to clients of those conditions (conditions,)."""
        some = self.high[near]
        most = np.where(np.isnan(some), -np.inf, some).max(axis=0, initial=-np.inf)
        measured = np.isfinite(most)
        found = np.where(measured, most <= self.bound, self.harmless)
        if not measured[self.default] or not found.any():
            found[self.default] = True
        return found

    def harmless_somewhere(self) -> Mask:
        """Return (configurations,) whether neighbours lost no more than the bound in at least one measured condition:
        such a configuration is judged class by class, by measurements, and not by its congestion control's name."""
        found: Mask = np.where(np.isnan(self.high), np.inf, self.high).min(axis=0, initial=np.inf) <= self.bound
        return found

    def everywhere(self) -> Mask:
        """Return (configurations,) whether each may be served to every client: for policies without classes."""
        return self.within(np.ones(len(self.high), dtype=np.bool_))

    def _conditions(self) -> Contexts:
        base = (self.numbers["bandwidth_kbps"], self.numbers["rtt_ms"], self.numbers["loss"])
        further = {name: column for name, column in self.numbers.items() if name not in BASE}
        return Contexts(*base, np.zeros(len(self.high), dtype=np.int64), (), numbers=further)


NONE = "none"
BASE = ("bandwidth_kbps", "rtt_ms", "loss")


def bound_of(text: str) -> float | None:
    """Parse a bound as it is typed; None for "none". Errors: `BadInput`."""
    if text == NONE:
        return None
    try:
        bound = float(text)
    except ValueError:
        bound = 0.0
    if not LEAST_BOUND <= bound < np.inf:
        raise BadInput(f"--damage {text[:20]!r}: a number of bytes from {LEAST_BOUND:g} on, or {NONE}")
    return bound


def damage_bound(
    tensor: Tensor,
    grid: Grid,
    bound: float = BOUND,
    *,
    harmless: Callable[[Mapping[str, Value]], bool] = unmeasured,
) -> DamageBound:
    """Return the bound for a grid's configurations, by a tensor's damage. Errors: `BadInput`."""
    if tensor.damage is None:
        raise BadInput("the tensor does not say what neighbours lost (column `damage`); name one that has it")
    if not bound >= LEAST_BOUND:
        raise BadInput(f"a page needs its own bytes: a bound on damage is at least {LEAST_BOUND:g}, not {bound:g}")
    rated = tensor.rated()
    high = high_of(rated)
    usual = {knob.name: knob.default for knob in grid.knobs}
    at = [_place(rated.grid, profile, usual) for profile in grid.profiles]
    columns = np.full((len(high), len(grid)), np.nan)
    for here, there in enumerate(at):
        if there is not None:
            columns[:, here] = high[:, there]
    seen = conditions_of(rated)
    numbers = {name: seen.number(name) for name in (*BASE, *rated.characteristics)}
    free = np.array([harmless(dict(profile.settings)) for profile in grid.profiles])
    return DamageBound(float(bound), numbers, columns, free, grid.default)


def high_of(tensor: Tensor) -> Floats:
    """Return (conditions, configurations) the upper end of damage over the measured sites; NaN: on none.

    Sites count by how well they were measured (inverse squares of their intervals' halves, which add up in the same
    way): the neighbours' chance variation is a multiple of a small page, and next to nothing of a large one.
    """
    assert tensor.damage is not None, "a tensor with damage"
    lost = tensor.damage.astype(np.float64)
    ends = lost if tensor.damage_high is None else tensor.damage_high.astype(np.float64)
    half = np.fmax(np.nan_to_num(ends - lost), LEAST_HALF)
    weight = np.where(np.isnan(lost), 0.0, half**-2.0)
    total = weight.sum(axis=2)
    mean = (weight * np.nan_to_num(lost)).sum(axis=2) / np.maximum(total, 1e-12)
    width = 0.0 if tensor.damage_high is None else np.maximum(total, 1e-12) ** -0.5
    return np.where(total > 0, mean + width, np.nan)


def _place(grid: Grid, profile: Profile, usual: Mapping[str, Value | None]) -> int | None:
    """Return a profile's place in a tensor's grid; None where it was not measured, or sets a knob that the tensor does
    not vary to an unusual value."""
    varied = {knob.name for knob in grid.knobs}
    given = [(name, value) for name, value in profile.settings if name in varied or value != usual.get(name)]
    try:
        return grid.index(Profile("", tuple(given)))
    except BadInput:
        return None


def bounded(served: Served, allowed: Mask, row_class: Codes, grid: Grid) -> Served:
    """Return a table whose every choice may be served: each other choice is replaced by the one with most settings in
    common.

    allowed (classes, configurations); row_class (R,) each row's class. Exploration draws from the configurations that
    every row may have.
    """
    stand_in = {
        key: find_substitutes(grid, np.frombuffer(key, dtype=np.bool_)) for key in {row.tobytes() for row in allowed}
    }
    instead = np.stack([stand_in[row.tobytes()] for row in allowed])
    configuration = np.take_along_axis(instead[row_class], served.configuration, axis=1)
    exploring = np.unique(row_class[served.explore > 0])
    free: Mask = np.logical_and.reduce(allowed[exploring], axis=0)
    pool = served.pool[free[served.pool]] if len(exploring) else served.pool
    explore = served.explore if len(pool) else np.zeros(len(served.explore))
    same = (configuration, served.arm, served.weight)
    expected = np.where(configuration == served.configuration, served.expected_ms, np.nan)
    return Served(*same, expected, explore, pool, served.default)
