# SPDX-License-Identifier: MIT
"""The table that a policy serves between two updates: per row a small distribution over configurations.

Question   Which configuration does a client of this row get, and how likely was that?
Method     One uniform number per decision. Below `explore` it falls on one of `pool`, all equally likely; above, on the
           row's weighted choices. So a decision needs no model, an agent can serve the table without the manager, the
           propensity is exact, and a million decisions are the same bits as one at a time.
Stop when  every row has its choice.
Reads as   configuration, arm, propensity, expected page load time.
Fails as   row -1 (nothing known about the client): the default configuration, propensity 1.
Differs    from CT, whose agent gets one configuration per class: a distribution keeps exploration off the way to the
           manager.
Source     CT sections 4 and 5; NSDI'17 Pytheas serves a mix for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import ARM, Codes, Decisions, Floats
from configtron.learner.state import keep


@keep
@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A table of R rows with M choices each.

    configuration, arm, weight, expected_ms: (R, M), weights of a row sum to 1; explore: (R,) share of decisions that
    fall uniformly on `pool`: (P,) configurations; default: the configuration for a client of no row.
    """

    configuration: Codes
    arm: npt.NDArray[np.int8]
    weight: Floats
    expected_ms: Floats
    explore: Floats
    pool: Codes
    default: int

    def choices(self) -> tuple[Codes, npt.NDArray[np.int8], Floats, Floats]:
        """Return the columns of choices: configuration, arm, weight, expected ms, (R, M) each."""
        return self.configuration, self.arm, self.weight, self.expected_ms

    def draw(self, row: Codes, network: Codes, chance: Floats) -> Decisions:
        """Decide for n clients. row, network: (n,), -1 for none; chance: (n,) uniform on [0, 1)."""
        at = np.maximum(row, 0)
        explore = self.explore[at]
        exploring = chance < explore
        slot = self._slot(at, explore, exploring, chance)
        configuration = self.configuration[at, slot]
        arm = self.arm[at, slot].astype(np.int64)
        expected = self.expected_ms[at, slot]
        if exploring.any():
            share = np.where(exploring, chance / np.where(exploring, explore, 1.0), 0.0)
            picked = self.pool[np.minimum((share * len(self.pool)).astype(np.int64), len(self.pool) - 1)]
            configuration = np.where(exploring, picked, configuration)
            arm = np.where(exploring, ARM["epsilon"], arm)
            expected = np.where(exploring, np.nan, expected)
        propensity = self._propensity(at, explore, configuration)
        unknown = row < 0
        if unknown.any():
            configuration = np.where(unknown, self.default, configuration)
            arm = np.where(unknown, ARM["default"], arm)
            propensity = np.where(unknown, 1.0, propensity)
            expected = np.where(unknown, np.nan, expected)
        return Decisions(row, network, configuration, arm, propensity, expected)

    def _slot(self, at: Codes, explore: Floats, exploring: npt.NDArray[np.bool_], chance: Floats) -> Codes:
        if self.weight.shape[1] == 1:
            return np.zeros(len(at), dtype=np.int64)
        rest = np.where(exploring, 0.0, (chance - explore) / np.where(explore < 1.0, 1.0 - explore, 1.0))
        # Sum over the requested rows or over all rows, whichever set is smaller.
        few = len(at) < len(self.weight)
        edges = np.cumsum(self.weight[at] if few else self.weight, axis=1)[:, :-1]
        slot: Codes = (rest[:, None] >= (edges if few else edges[at])).sum(axis=1)
        return slot

    def _propensity(self, at: Codes, explore: Floats, configuration: Codes) -> Floats:
        same = self.configuration[at] == configuration[:, None]
        chosen: Floats = (same * self.weight[at]).sum(axis=1)
        if not explore.any():
            return chosen
        pooled = np.bincount(self.pool, minlength=int(self.configuration.max()) + 1) / len(self.pool)
        both: Floats = explore * pooled[configuration] + (1.0 - explore) * chosen
        return both

    def probabilities(self, configurations: int) -> Floats:
        """Return (R, configurations): probability of each configuration in each row."""
        found = np.zeros((len(self.explore), configurations))
        rows = np.arange(len(self.explore))[:, None]
        np.add.at(found, (rows, self.configuration), self.weight * (1.0 - self.explore[:, None]))
        if len(self.pool):
            np.add.at(found, (rows, self.pool[None, :]), self.explore[:, None] / len(self.pool))
        return found


def always(configuration: Codes, arm: str, default: int, expected_ms: Floats | None = None) -> Served:
    """One configuration per row: (R,), all for the same reason."""
    rows = len(configuration)
    arms = np.full((rows, 1), ARM[arm], dtype=np.int8)
    expected = np.full((rows, 1), np.nan) if expected_ms is None else expected_ms.reshape(rows, 1)
    empty = np.zeros(0, dtype=np.int64)
    return Served(configuration.reshape(rows, 1), arms, np.ones((rows, 1)), expected, np.zeros(rows), empty, default)


def within(served: Served, instead: Codes) -> Served:
    """Return the table with another configuration in place of each, (configurations,); itself where it may stay."""
    configuration, pool = instead[served.configuration], served.pool[instead[served.pool] == served.pool]
    if (configuration == served.configuration).all() and len(pool) == len(served.pool):
        return served
    expected = np.where(configuration == served.configuration, served.expected_ms, np.nan)
    pool = pool if len(pool) or not len(served.pool) else np.array([served.default])
    return replace(served, configuration=configuration, expected_ms=expected, pool=pool)
