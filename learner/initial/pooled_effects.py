# SPDX-License-Identifier: MIT
"""Effects of groups from their prefixes' votes: drawn towards 0, and none of them more than one bounded vote.

Question   What do connections of a network (a class, an hour) have in common, when one prefix may send what it likes?
Method     A prefix votes once in each group that it has connections in: the mean of what the effects leave over. Its
           weight grows with its connections up to a limit, and its vote is cut off at `HUBER` of its standard
           deviations. An effect is where the votes and the draw towards 0 are in balance (Huber's M estimate with a
           normal prior). Groups of fewer than `LEAST_VOTERS` prefixes have no effect of their own.
Reads as   `Effects` by name; a name never seen has effect 0 and the level's whole variance
Differs    a bounded vote still moves a small group: a prefix never seen leans on the votes of its own network's few
           prefixes (`tests/learner/test_forged_traffic.py` has by how much). Without a bound (`bounded=False`)
           votes are the plain means, and a prefix weighs what its connections weigh
Source     Huber, Annals of Mathematical Statistics 35, 73 (1964); Efron and Morris (1973)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Floats

# Variance of ln(window) at first, and the least that a division stands.
FIRST_VARIANCE, LEAST_VARIANCE = 0.25, 1e-6
# Huber's constant, standard deviations; prefixes that make a group's effect.
HUBER, LEAST_VOTERS = 1.345, 3
# A square beyond so many of its level's variances counts as so many.
MOST_SQUARES = 6.0
# Prior of a level's variance: so many groups of `FIRST_VARIANCE`. Without it the first iterations, which find no effect
# yet, shrink the variance so far that effects never grow again.
GROUPS_PRIOR = 4.0
# Connections of a prefix with which it has half of a vote's most weight, where votes weigh by connections.
HALF_VOTE_CONNECTIONS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """One level. names; effect and its posterior variance of each; between: variance of effects between the names."""

    names: dict[str, int]
    effect: Floats
    variance: Floats
    between: float

    def of(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Return (n,) effects and (n,) their variances; 0 and the level's variance for names never seen."""
        codes = np.array([self.names.get(name, -1) for name in names], dtype=np.int64)
        known = codes >= 0
        effect, variance = np.zeros(len(codes)), np.full(len(codes), self.between)
        effect[known], variance[known] = self.effect[codes[known]], self.variance[codes[known]]
        return effect, variance


def without_effects(names: Sequence[str]) -> tuple[Effects, Codes]:
    """Return a level without effects, and the (n,) codes of its names."""
    table = {name: at for at, name in enumerate(dict.fromkeys(names))}
    codes = np.array([table[name] for name in names], dtype=np.int64)
    return Effects(table, np.zeros(len(table)), np.full(len(table), FIRST_VARIANCE), FIRST_VARIANCE), codes


@dataclass(frozen=True, slots=True, eq=False)
class Voters:
    """Prefixes in groups: (v,) the group of each voter and its connections; (n,) the voter of each connection."""

    group: Codes
    counts: Floats
    voter: Codes

    @classmethod
    def of(cls, prefixes: Codes, groups: Codes) -> Voters:
        """Return the voters of a level."""
        size = int(prefixes.max(initial=0)) + 1
        pairs, voter = np.unique(groups * size + prefixes, return_inverse=True)
        return cls(pairs // size, np.bincount(voter).astype(np.float64), voter)

    def weighted_by(self, information: Floats) -> Voters:
        """Return the same with (n,) weights of connections, 1 for a known window."""
        return replace(
            self,
            counts=np.asarray(np.bincount(self.voter, weights=information, minlength=len(self.counts)), np.float64),
        )

    def means(self, rest: Floats) -> Floats:
        """Return (v,) means of (n,) values that are weighed already."""
        return np.asarray(np.bincount(self.voter, weights=rest, minlength=len(self.counts)) / self.counts)

    @property
    def weights_within(self) -> Floats:
        """Return (v,) weights that grow with the connections, to 1 at most."""
        return self.counts / (self.counts + HALF_VOTE_CONNECTIONS)


def pooled(former: Effects, votes: Floats, voters: Voters, weight: Floats, unit: float, bounded: bool) -> Effects:
    """Return a level's effects one step on.

    votes    (v,) what each voter's mean is away from the effects as they are
    weight   (v,) of each vote, in parts of one whose variance is `unit`
    """
    size, group = len(former.names), voters.group
    prior = unit / former.between
    total = np.bincount(group, weights=weight, minlength=size) + prior
    if bounded:
        votes = cut_votes(votes, weight, unit)
    pull = np.bincount(group, weights=weight * votes, minlength=size) - prior * former.effect
    effect: Floats = (former.effect + pull / total).astype(np.float64)
    variance: Floats = (unit / total).astype(np.float64)
    if bounded:
        few = np.bincount(group, minlength=size) < LEAST_VOTERS
        effect[few], variance[few] = 0.0, former.between
    return replace(former, effect=effect, variance=variance, between=_between(former, effect, variance, bounded))


def cut_votes(votes: Floats, weight: Floats, unit: float) -> Floats:
    """Return (v,) votes within `HUBER` of their standard deviations."""
    reach = HUBER * np.sqrt(unit / weight)
    return np.clip(votes, -reach, reach)


def _between(former: Effects, effect: Floats, variance: Floats, bounded: bool) -> float:
    known = variance < former.between
    if not known.any():
        return former.between
    squares = effect[known] ** 2 + variance[known]
    if bounded:
        squares = np.minimum(squares, MOST_SQUARES * former.between)
    whole = float(squares.sum()) + GROUPS_PRIOR * FIRST_VARIANCE
    return max(whole / (len(squares) + GROUPS_PRIOR), LEAST_VARIANCE)


def own_effects(former: Effects, means: Floats, counts: Floats, noise: float, bounded: bool) -> Effects:
    """Return prefixes' effects: means of their connections, drawn towards 0 by the noise over their variance."""
    weight = counts + noise / former.between
    effect: Floats = means * counts / weight
    variance: Floats = noise / weight
    return replace(former, effect=effect, variance=variance, between=_between(former, effect, variance, bounded))
