# SPDX-License-Identifier: MIT
"""The cost of rules to their clients, by outcomes of clients that the rules were not made on.

Question   How much longer do pages load by these rules than under the policy that they stand for?
Method     The log is cut in two. Rules are made on the earlier clients; `Loads`, a regression on each client's own
           network, site and configuration, is fitted to the earlier outcomes. For every later client it predicts the
           load time of the rule's configuration and of the policy's own mix; the residuals of the later outcomes of the
           client's cell, by configuration, are added, drawn to the cell's level. No policy's own beliefs enter: a
           policy that is wrong would be praised by them. Intervals: a jackknife over fifths of the prefixes, each left
           out of the fit and of the judged alike; over fifths of the clients where the later ones are of fewer than
           five prefixes.
Stop when  the later clients are judged, at most `MOST_JUDGED` of them, evenly spread.
Reads as   median, 95th percentile and mean excess over clients, as shares of page load time, each with its interval.
           Where cells differ little from the prediction by network and site, percentiles lean to the high side, for the
           uncertainty about a client widens them; where they differ by a tenth, they are far too low, for few outcomes
           are of one client's cell.
Fails as   a reason in place of numbers: too few outcomes, in all or without a fifth; or too few clients of cells where
           the rule's configuration was loaded among the later ones, so that the regression would extrapolate.
Differs    from `value.py`, which judges a policy's mean by its propensities: single rules that a policy seldom draws
           would rest on a handful of loads.
Source     Tukey 1958 (jackknife); CT has no such check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.loads import Loads
from configtron.learner.table_policy import TablePolicy
from configtron.model.student import student

# Loads by which a cell's configuration is drawn to the regression's prediction: a load differs by 0.25 in ln(ms), a
# cell's configuration truly differs from the regression by some 0.06. With
# five loads noise was printed as effects, and intervals missed.
PRIOR_LOADS = 15.0
# Later clients that are judged: their quantiles are then known far better than each client's own load time.
MOST_JUDGED = 10_000
# Outcomes in either half below which a regression of some hundred terms is its priors.
LEAST_OUTCOMES = 200
# The same without one fifth of the prefixes, which may hold more than a fifth of the outcomes: intervals are a little
# wide then, but are of the same regression.
LEAST_LEFT = LEAST_OUTCOMES // 2
# Share of clients in whose cell the rule's configuration must have been loaded.
LEAST_LOADED = 0.25
# Fifths of prefixes.
PARTS = 5
# Student's t with one degree of freedom less, as tables have it: so printed figures stay the same.
T_95 = round(student(PARTS - 1), 3)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of page load time, and its jackknife interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Excess over the policy itself, over clients. loaded: share of them in whose cell the rule's configuration was
    loaded."""

    median: Share
    p95: Share
    mean: Share
    clients: int
    loaded: float


@dataclass(frozen=True, slots=True, eq=False)
class JudgedOutcomes:
    """n outcomes of known clients: contexts, their rows and classes in a policy, configuration, page load time in
    ms."""

    contexts: Contexts
    row: Codes
    network: Codes
    configuration: Codes
    ms: Floats

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, at: Codes | Mask | slice) -> JudgedOutcomes:
        where = np.arange(len(self))[at]
        numbers = self.row[where], self.network[where], self.configuration[where], self.ms[where]
        return JudgedOutcomes(self.contexts[where], *numbers)


def known_outcomes(policy: TablePolicy, contexts: Contexts, configuration: Codes, ms: Floats) -> JudgedOutcomes:
    """Return outcomes with the policy's rows of their clients; unknown clients are left out."""
    row, network = policy.where(contexts)
    return JudgedOutcomes(contexts, row, network, configuration, ms)[row >= 0]


def halves(outcomes: JudgedOutcomes) -> tuple[JudgedOutcomes, JudgedOutcomes]:
    """Return earlier outcomes, to make rules on, and later ones, to judge them by: at most MOST_JUDGED, evenly
    spread."""
    middle = (len(outcomes) + 1) // 2
    later = outcomes[middle:]
    spread = np.unique(np.linspace(0, max(len(later) - 1, 0), MOST_JUDGED).astype(np.int64))
    return outcomes[:middle], later[spread[: len(later)]]


def judged(
    policy: TablePolicy, earlier: JudgedOutcomes, later: JudgedOutcomes, rules: Mapping[str, Codes]
) -> dict[str, Loss | str]:
    """Return the cost of each rules' configurations, (later clients,); or why it is not known."""
    if min(len(earlier), len(later)) < LEAST_OUTCOMES:
        few = f"{len(earlier)} earlier and {len(later)} later outcomes of known clients; {LEAST_OUTCOMES} of each are"
        return dict.fromkeys(rules, f"not known: {few} needed")
    group = _groups(earlier, later)
    left = [min(int((of != part).sum()) for of in group) for part in range(PARTS)]
    if min(left) < LEAST_LEFT:
        few = f"without one fifth of the prefixes {min(left)} outcomes are left in a half; {LEAST_LEFT} are needed"
        return dict.fromkeys(rules, f"not known: {few}")
    loaded = _loaded(policy, later, rules)
    every = _figures(policy, earlier, later, rules)
    without = []
    for part in range(PARTS):
        kept = group[0] != part, group[1] != part
        fewer = {name: at[kept[1]] for name, at in rules.items()}
        without.append(_figures(policy, earlier[kept[0]], later[kept[1]], fewer))
    found: dict[str, Loss | str] = {}
    for name in rules:
        if loaded[name] < LEAST_LOADED:
            elsewhere = f"{1 - loaded[name]:.0%} of clients are of cells where no later load had the rule's choice"
            found[name] = f"not known: {elsewhere}"
            continue
        shares = _shares(every[name], np.stack([figures[name] for figures in without]))
        found[name] = Loss(*shares, len(later), loaded[name])
    return found


def _shares(every: Floats, without: Floats) -> tuple[Share, Share, Share]:
    """Return figures (3,) with the spread of those without a part each, (PARTS, 3)."""
    wide = T_95 * np.sqrt((PARTS - 1) / PARTS * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    median, p95, mean = (Share(float(v), float(v - w), float(v + w)) for v, w in zip(every, wide, strict=True))
    return median, p95, mean


def _groups(earlier: JudgedOutcomes, later: JudgedOutcomes) -> tuple[Codes, Codes]:
    """Return which part each client of either half is of: all of a prefix alike in both, where there are prefixes
    enough.

    Prefixes are counted off, those of later clients first: by their codes all of these could be of one part.
    """
    one, other = earlier.contexts.prefix, later.contexts.prefix
    judged_of = np.unique(other)
    if len(one) != len(earlier) or len(judged_of) < PARTS:
        return np.arange(len(earlier)) % PARTS, np.arange(len(later)) % PARTS
    codes, place = np.unique(np.concatenate((one, other)), return_inverse=True)
    rank = np.empty(len(codes), dtype=np.int64)
    rank[np.argsort(~np.isin(codes, judged_of), kind="stable")] = np.arange(len(codes))
    part = rank[place] % PARTS
    return part[: len(one)], part[len(one) :]


def _loaded(policy: TablePolicy, later: JudgedOutcomes, rules: Mapping[str, Codes]) -> dict[str, float]:
    seen = np.zeros((policy.cells.rows, len(policy.grid)), dtype=np.bool_)
    seen[later.row, later.configuration] = True
    return {name: float(seen[later.row, at].mean()) for name, at in rules.items()}


def _figures(
    policy: TablePolicy, earlier: JudgedOutcomes, later: JudgedOutcomes, rules: Mapping[str, Codes]
) -> dict[str, Floats]:
    """Return the median, 95th percentile and mean of each rules' excess over the policy."""
    expected, mixed = _expected(policy, earlier, later)
    at = np.arange(len(later))
    found = {}
    for name, chosen in rules.items():
        shares = np.expm1(expected[at, chosen] - mixed)
        found[name] = np.array([np.median(shares), np.percentile(shares, 95), shares.mean()])
    return found


def _expected(policy: TablePolicy, earlier: JudgedOutcomes, later: JudgedOutcomes) -> tuple[Floats, Floats]:
    """Return (later clients, configurations) expected ln(ms) by outcomes, and (later clients,) that of the policy's
    mix."""
    loads = Loads(policy.grid, earlier.contexts, earlier.configuration, earlier.ms)
    expected = np.log(loads.ms(later.contexts, np.arange(len(policy.grid))))
    rest = np.log(later.ms) - expected[np.arange(len(later)), later.configuration]
    shape = policy.cells.rows, len(policy.grid)
    pair = later.row * shape[1] + later.configuration
    count = np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape)
    total = np.bincount(pair, weights=rest, minlength=shape[0] * shape[1]).reshape(shape)
    level = total.sum(axis=1, keepdims=True) / np.maximum(count.sum(axis=1, keepdims=True), 1)
    expected += ((total + PRIOR_LOADS * level) / (count + PRIOR_LOADS))[later.row]
    table = policy.served_.probabilities(shape[1])
    return expected, (table[later.row] * expected).sum(axis=1)
