# SPDX-License-Identifier: MIT
"""What a path's window is, by prefix within class within hour within all, from windows of which many are lower bounds.

Question   Which window would a client's path carry, and how sure is that, where most connections ended before they
           met its limit, where no connection of its prefix was ever seen, and where some prefix sends what it likes?
Method     ln(window) = ln(round trip) + class + hour + class in hour + network + prefix + noise; the class is the band
           of the round trip. Effects are drawn towards 0 by how much they vary (partial pooling), and how much they
           vary towards a prior. A bound counts as a value that lies somewhere beyond it (`censored_windows.py`). First
           steps of Newton's method fit classes, hours and noise, one effect after the other; each is made of prefixes'
           votes, which are bounded (`pooled_effects.py`). Then each network and each prefix gets a whole distribution
           (`path_posteriors.py`).
Stop when  `ITERATIONS` iterations have run
Reads as   (n, quantiles) windows. A prefix never seen has its network's values and a prefix's variance besides; a
           network never seen has all networks', by the round trip of the handshake.
Fails as   `BadInput` for no known window, or for lower bounds alone: these have no upper end
Differs    from ALN, which takes a window that a short transfer reached for what the path carries. A window that met a
           loss differs from its path's by a factor that the path keeps (`PATH_FACTOR`): short queues overflow early,
           and slow start learns of a loss late. More connections do not show this factor.
Source     Tobin, Estimation of relationships for limited dependent variables (1958); Dempster, Laird, Rubin (1977);
           Efron and Morris, Stein's estimation rule and its competitors (1973); Huber (1964)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_windows import WindowLimits, completed, limits_of
from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.learner.initial.naive_bayes import INPUTS, inputs_of
from configtron.learner.initial.path_posteriors import DEGREES_OF_FREEDOM, POINTS, PathPoints, noise_of, path_points
from configtron.learner.initial.pooled_effects import (
    FIRST_VARIANCE,
    MOST_SQUARES,
    Effects,
    Voters,
    cut_votes,
    own_effects,
    pooled,
    without_effects,
)
from configtron.learner.initial.round_trip_classes import classes_of_clients, medians_of, round_trips_of
from configtron.model.errors import BadInput
from configtron.model.student import student_quantile

HOUR, CLASS_HOUR, CLASS, NETWORK, PREFIX = LEVELS = ("hour", "class-hour", "class", "network", "prefix")
# Levels that vary within a prefix: their votes are means of what is left beside the prefix's own effect.
WITHIN = (HOUR, CLASS_HOUR)
ITERATIONS = 30
# Information of a row at least, in parts of a known window's.
LEAST_INFORMATION = 1e-4
# Variance of ln(window) of one path's connections, at least: limits of some width would leave none.
LEAST_NOISE = 0.01
# Slow start doubles the window each round trip, and learns of a loss a round trip late.
OVERSHOOT = 2.0
# Standard deviation of the factor between the window at a loss and what the path carries, in parts of ln(overshoot):
# 0.3 of ln(window), measured in the lab between the paths of four worlds (seeds 1, 101, 102, 301: 0.24 to 0.36).
PATH_FACTOR = 0.43
# Round trips beyond these show no more of a path's window, ms.
ROUND_TRIPS_MS = (1.0, 1000.0)
# Equally likely steps of a normal distribution; clients that one block answers.
NODES = np.array([NormalDist().inv_cdf((at + 0.5) / 11) for at in range(11)])
AT_ONCE = 4096
QUANTILES = (0.1, 0.5, 0.9)


def groups_of(states: EndStates, medians: Mapping[str, float]) -> dict[str, list[str]]:
    """Return the group of each row at each of `LEVELS`."""
    inputs = dict(zip(INPUTS, inputs_of(states), strict=True))
    kinds = classes_of_clients(states, dict(medians))
    hours = [f"{kind}@{hour}" for kind, hour in zip(kinds, inputs["hour"], strict=True)]
    return {HOUR: inputs["hour"], CLASS_HOUR: hours, CLASS: kinds, NETWORK: inputs["network"], PREFIX: inputs["prefix"]}


@dataclass(slots=True)
class _Fitting:
    """State of a fit. voters: of every level but the prefix's, and of level and noise, one group of all."""

    limits: WindowLimits
    codes: dict[str, Codes]
    voters: dict[str, Voters]
    bounded: bool
    effects: dict[str, Effects]
    level: float
    noise: float = FIRST_VARIANCE
    _shift: float = 0.0

    def improve(self) -> None:
        """Run one iteration of expectation and maximisation."""
        parts = {name: one.effect[self.codes[name]] for name, one in self.effects.items()}
        mean = self.level + np.asarray(sum(parts.values()))
        values, left_over = completed(self.limits, mean, self.noise)
        # how much a row shows of its mean, 1 for a known window (Newton's step)
        information = np.maximum(1.0 - left_over / self.noise, LEAST_INFORMATION)
        self.voters = {name: one.weighted_by(information) for name, one in self.voters.items()}
        rest = values - mean
        rest -= information * self._raise_level(rest + information * parts[PREFIX])
        for name in LEVELS:
            own = 0.0 if name in WITHIN else information * parts[PREFIX]
            self.effects[name] = self._centred(name, self._effects(name, rest + own))
            former, parts[name] = parts[name], self.effects[name].effect[self.codes[name]]
            rest += information * (former - parts[name] - self._shift)
        variances = {name: one.variance[self.codes[name]] for name, one in self.effects.items()}
        self.noise = self._noise(rest**2 + information * _sum_variance(variances, self.effects))

    def _centred(self, name: str, found: Effects) -> Effects:
        """Return effects whose mean, of groups that have one, is in the level; the level's shift is kept."""
        known = found.variance < found.between
        self._shift = float(found.effect[known].mean()) if name != PREFIX and known.any() else 0.0
        self.level += self._shift
        return replace(found, effect=np.where(known, found.effect - self._shift, found.effect))

    def _raise_level(self, rest: Floats) -> float:
        """Move the level by the votes of all prefixes; return by how much."""
        voters = self.voters[PREFIX]
        if not self.bounded:
            step = float(rest.sum() / voters.counts.sum())
        else:
            weight = self._weights(PREFIX)
            votes = cut_votes(voters.means(rest), weight, self.effects[PREFIX].between)
            step = float(np.average(votes, weights=weight))
        self.level += step
        return step

    def _weights(self, name: str) -> Floats:
        counts = self.voters[name].counts
        if name in WITHIN:
            return self.voters[name].weights_within if self.bounded else counts
        return np.asarray(counts / (counts + self.noise / self.effects[PREFIX].between))

    def _effects(self, name: str, rest: Floats) -> Effects:
        voters, former = self.voters[name], self.effects[name]
        votes = voters.means(rest)
        if name == PREFIX:
            return own_effects(former, votes, voters.counts, self.noise, self.bounded)
        unit = self.noise if name in WITHIN else self.effects[PREFIX].between
        return pooled(former, votes, voters, self._weights(name), unit, self.bounded)

    def _noise(self, squares: Floats) -> float:
        """Return the noise's variance: of all connections, or of prefixes, each bounded."""
        if not self.bounded:
            return max(float(squares.sum() / self.voters[PREFIX].counts.sum()), LEAST_NOISE)
        voters = self.voters[PREFIX]
        means = np.minimum(voters.means(squares), MOST_SQUARES * self.noise)
        return max(float(np.average(means, weights=voters.weights_within)), LEAST_NOISE)


def _sum_variance(variances: Mapping[str, Floats], effects: Mapping[str, Effects]) -> Floats:
    """Return (n,) variances of the sums of effects. A wide group's variance matters to a narrow one within it only as
    far as that one's effect is drawn towards it."""
    found: Floats = np.zeros_like(variances[PREFIX])
    for name in (CLASS, NETWORK, PREFIX):
        drawn = variances[name] / effects[name].between
        found = drawn**2 * found + variances[name]
    return found + variances[HOUR] + variances[CLASS_HOUR]


class WindowModel:
    """A model that has learned. Errors: `BadInput`.

    censored    whether lower bounds count as such, or, as in ALN, as the windows themselves
    overshoot   factor by which a connection may pass its path's window before it learns of a loss; 1: windows are exact
    bounded     whether one prefix's influence on all others has an end
    """

    def __init__(
        self, states: EndStates, *, censored: bool = True, overshoot: float = OVERSHOOT, bounded: bool = True
    ) -> None:
        limits = limits_of(states, censored=censored, overshoot=overshoot)
        if not limits.meets.any():
            raise BadInput("no connection met its path's limit: windows are lower bounds alone")
        some = states[limits.rows]
        self.learned, self.medians = len(some), medians_of(some)
        self._trip, self._trip_variance = _trip_variance(self.medians)
        fitting = _fitted(limits, some, self.medians, self._offsets(some), bounded)
        self._effects = {name: fitting.effects[name] for name in (HOUR, CLASS_HOUR, CLASS)}
        names = fitting.effects[PREFIX].names
        self._names = {PREFIX: names, NETWORK: fitting.effects[NETWORK].names}
        base = np.asarray(sum(self._effects[name].effect[fitting.codes[name]] for name in self._effects))
        network = np.zeros(len(names), dtype=np.int64)
        network[fitting.codes[PREFIX]] = fitting.codes[NETWORK]
        self._noise = noise_of(fitting.limits, base, fitting.codes[PREFIX])
        start = fitting.level, self._noise, (PATH_FACTOR * np.log(overshoot)) ** 2
        self._points = path_points(fitting.limits, base, fitting.codes[PREFIX], network, start, bounded=bounded)

    def _offsets(self, states: EndStates) -> Floats:
        """Return (n,) ln(round trip) beside the middle of all prefixes': of the prefix, else as `round_trips_of`."""
        found: Floats = np.log(np.clip(round_trips_of(states, self.medians), *ROUND_TRIPS_MS)) - self._trip
        return np.where(np.isnan(found), 0.0, found)

    def quantiles(self, states: EndStates, shares: Sequence[float] = QUANTILES) -> Floats:
        """Return (n, shares) windows, segments, of the clients of these rows: prefix, time and, for prefixes never
        seen, the round trip count."""
        parts = [self._some(states[at : at + AT_ONCE], shares) for at in range(0, len(states), AT_ONCE)]
        return np.exp(np.concatenate(parts)) if parts else np.zeros((0, len(shares)))

    def _some(self, states: EndStates, shares: Sequence[float]) -> Floats:
        groups = groups_of(states, self.medians)
        of = {name: one.of(groups[name]) for name, one in self._effects.items()}
        mean = self._offsets(states) + np.asarray(sum(effect for effect, _ in of.values()))
        values, variance = self._values(groups)
        unknown = np.isnan(round_trips_of(states, self.medians))
        variance += self._noise + of[HOUR][1] + of[CLASS_HOUR][1] + np.where(unknown, self._trip_variance, 0.0)
        values_of_clients = values[:, :, None] + np.sqrt(variance)[:, None, None] * NODES
        found: Floats = np.quantile(values_of_clients.reshape(len(states), -1), shares, axis=1).T + mean[:, None]
        return found

    def _values(self, groups: Mapping[str, Sequence[str]]) -> tuple[Floats, Floats]:
        """Return (n, points) equally likely values of each row's path, and (n,) the variance that they leave out."""
        own, around = (np.array([self._names[name].get(one, -1) for one in groups[name]]) for name in (PREFIX, NETWORK))
        points, of_class = self._points, self._effects[CLASS].of(groups[CLASS])[1]
        values = np.where((around >= 0)[:, None], points.networks[around], _unseen_networks(points))
        variance = points.between_prefixes + np.where(around >= 0, 0.0, of_class)
        return np.where((own >= 0)[:, None], points.prefixes[own], values), np.where(own >= 0, 0.0, variance)

    def answers_for(self, prefix: str) -> str:
        """Return the narrowest level with connections of this prefix: "prefix", "network" or "class"."""
        groups = groups_of(one_client(prefix), self.medians)
        known = (name for name in (PREFIX, NETWORK) if groups[name][0] in self._names[name])
        return next(known, CLASS)

    def state(self) -> dict[str, object]:
        """Return what was learned, for `learner.state.encode`."""
        return {
            "learned": self.learned, "noise": self._noise, "places": list(self.medians),
            "medians": np.array(list(self.medians.values())), "points": list(self._points),
            "names": {name: list(of) for name, of in self._names.items()},
            "levels": {name: {"names": list(one.names), "effect": one.effect, "unsure": one.variance,
                              "spread": one.between} for name, one in self._effects.items()},
        }  # fmt: skip

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> WindowModel:
        """Return the model of a `state`. Errors: `BadInput` for another version's."""
        if "points" not in state:
            raise BadInput("the model of paths' windows was saved by another version of configtron: learn it anew with "
                           "`configtron learn initial train FILE`")  # fmt: skip
        found = cls.__new__(cls)
        found.learned, found._noise, found._points = state["learned"], state["noise"], PathPoints(*state["points"])
        found.medians = dict(zip(state["places"], state["medians"].tolist(), strict=True))
        found._trip, found._trip_variance = _trip_variance(found.medians)
        found._names = {name: _numbered(of) for name, of in state["names"].items()}
        found._effects = {
            name: Effects(_numbered(one["names"]), one["effect"], one["unsure"], one["spread"])
            for name, one in state["levels"].items()
        }
        return found


def _numbered(names: Sequence[str]) -> dict[str, int]:
    return {name: at for at, name in enumerate(names)}


def _fitted(limits: WindowLimits, some: EndStates, medians: Mapping[str, float], offsets: Floats, bounded: bool
            ) -> _Fitting:  # fmt: skip
    """Return the fit of ln(window) beside the round trip's offsets."""
    limits = limits._replace(low=limits.low - offsets, high=limits.high - offsets)
    begun = {name: without_effects(names) for name, names in groups_of(some, medians).items()}
    codes = {name: one[1] for name, one in begun.items()}
    voters = {name: Voters.of(codes[PREFIX], code) for name, code in codes.items()}
    seen = np.where(np.isfinite(limits.low), limits.low, limits.high)
    fitting = _Fitting(limits, codes, voters, bounded, {name: one[0] for name, one in begun.items()},
                       float(np.median(voters[PREFIX].means(seen))))  # fmt: skip
    for _ in range(ITERATIONS):
        fitting.improve()
    return fitting


def _trip_variance(medians: Mapping[str, float]) -> tuple[float, float]:
    """Return the middle of ln(round trip) of all prefixes and networks, and its variance; 0 where none is known."""
    logs = np.log(np.clip(list(medians.values()) or [1.0], *ROUND_TRIPS_MS))
    return float(np.median(logs)), float(logs.var())


def _unseen_networks(points: PathPoints) -> Floats:
    """Return (points,) equally likely values of a network never seen: a t distribution around the level."""
    steps = np.array([student_quantile(DEGREES_OF_FREEDOM, (at + 0.5) / POINTS) for at in range(POINTS)])
    return np.asarray(points.level + points.between_networks**0.5 * steps)


def one_client(prefix: str, at_s: float = 0.0, rtt_ms: float = float("nan")) -> EndStates:
    """Return a row of a client that is asked about. rtt_ms: of its handshake, NaN where unknown."""
    return of_rows([{"prefix": prefix, "at_s": at_s, "min_rtt_ms": None if rtt_ms != rtt_ms else rtt_ms}])
