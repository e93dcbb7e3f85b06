# SPDX-License-Identifier: MIT
"""A class's substitute for a configuration that none of its clients loaded: the fastest of those that they did load.

Question   Which configuration has shown a class that it is faster than Default?
Method     Per class a regression of ln(ms) of its loads: a level for each of its cells (class and site), which is as it
           comes out, and an effect of each configuration, drawn to none by `PRIOR_LOADS`. Among those of at least
           `LEAST_LOADS` loads the one that is faster than Default by most, a standard error of the difference given
           away: a configuration of few loads has to be faster by more.
Stop when  every class has its configuration.
Reads as   (classes,) configurations: Default where none is faster. A Default of no loads is taken for as fast as the
           mean of all loads, and for as uncertain as `PRIOR_LOADS` make it.
Fails as   luck: one standard error is no proof. `rule_cost.py` estimates the cost of rules, on other clients.
Differs    from CT, which does not ask whether a stack's profile was ever tried.
Source     Henderson 1975 (fixed levels, drawn effects).
"""

from __future__ import annotations

import numpy as np

from configtron.learner.class_cells import classed
from configtron.learner.columns import Codes, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.rule_cost import JudgedOutcomes
from configtron.learner.table_policy import TablePolicy

# Loads by which a configuration's effect in a class is drawn to none: loads of one class differ by some 0.3, effects by
# half of that.
PRIOR_LOADS = 5.0
# Loads of a class below which a standard error is no longer one: a single lost packet would decide.
LEAST_LOADS = 10


def fallback(policy: TablePolicy, outcomes: JudgedOutcomes, among: Mask) -> Codes:
    """Return (classes,) each class's, of `among` (configurations,), by outcomes of known clients."""
    found = np.full(len(classed(policy).classes_), policy.grid.default)
    for k in np.unique(outcomes.network):
        here = outcomes[outcomes.network == k]
        found[k] = _fastest(here.row, here.configuration, np.log(here.ms), among, policy.grid.default)
    return found


def _fastest(row: Codes, configuration: Codes, log_ms: Floats, among: Mask, default: int) -> int:
    loads = np.bincount(configuration, minlength=len(among))
    effect, spread = _effects(row, configuration, log_ms, len(among))
    error = spread * np.sqrt(1.0 / (loads + PRIOR_LOADS) + 1.0 / (loads[default] + PRIOR_LOADS))
    behind = np.where(among & (loads >= LEAST_LOADS), effect - effect[default] + error, np.inf)
    behind[default] = 0.0
    return int(behind.argmin())


def _effects(row: Codes, configuration: Codes, log_ms: Floats, configurations: int) -> tuple[Floats, float]:
    """Return (configurations,) the effect of each on ln(ms), the same in all cells, and the spread of single loads
    beyond it."""
    cell = np.unique(row, return_inverse=True)[1]
    count = np.zeros((cell.max() + 1, configurations))
    np.add.at(count, (cell, configuration), 1.0)
    share = count / count.sum(axis=1, keepdims=True)
    mean = np.bincount(cell, weights=log_ms) / count.sum(axis=1)
    rest = np.bincount(configuration, weights=log_ms - mean[cell], minlength=configurations)
    effect = np.linalg.solve(np.diag(count.sum(axis=0) + PRIOR_LOADS) - count.T @ share, rest)
    left = log_ms - mean[cell] + (share @ effect)[cell] - effect[configuration]
    return effect, float(left.std())
