# SPDX-License-Identifier: MIT
"""Which few configurations an operator should keep ready, out of many.

Question   Which N configurations, together, come nearest to the best of all?
Method     Greedy: Default first, then the configuration that most lowers the mean over conditions and sites of (best
held / best).
Stop when  N are held.
Reads as   configurations in the order they were taken; `regret` shows the gain of the last ones.
Fails as   fewer than N, when all are held.
Differs    from CT, which keeps all 768; HC keeps "golden templates" without stating how they are found.
Source     Nemhauser, Wolsey and Fisher 1978: greedy is within 1 - 1/e of the best choice for such a cover.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.setting import Setting
from configtron.learner.tensor_mapping import Mapped, filled, mapped
from configtron.model.grid import Grid

# Configurations an operator keeps ready; 32 leave 0.2 % to the best of all on the tensors tried.
TEMPLATES = 32


def ready(setting: Setting) -> Codes | None:
    """Return the configurations to keep ready by a setting's warm start; None without one, or where it has too few."""
    if setting.warm is None:
        return None
    return templates_of(mapped(setting.warm, setting.grid, setting.sites), setting.grid, TEMPLATES)


def covering(relative: Floats, first: int, n: int) -> Codes:
    """Return (n,) columns that come nearest to the best of all, by greedy choice, the first one given."""
    held = [first]
    cover = relative[:, first].copy()
    while len(held) < min(n, relative.shape[1]):
        after = np.array([np.minimum(cover, column).mean() for column in relative.T])
        after[held] = np.inf
        held.append(int(after.argmin()))
        np.minimum(cover, relative[:, held[-1]], out=cover)
    return np.array(held, dtype=np.int64)


def templates_of(warm: Mapped, grid: Grid, n: int) -> Codes | None:
    """Return at most n of a grid's configurations, Default first, by a tensor over others; None: too few of them are in
    it."""
    known = np.flatnonzero(warm.own >= 0)
    if len(known) < min(n, len(grid)) // 2:
        return None
    cells = warm.log_ms().transpose(0, 2, 1).reshape(-1, len(warm.own))
    relative = filled(cells[~np.isnan(cells).all(axis=1)])[:, known]
    if np.isnan(relative).any():
        return None
    relative = np.exp(relative - relative.min(axis=1, keepdims=True))
    first = int(np.flatnonzero(known == warm.base)[0]) if warm.base in known else 0
    found = warm.own[known[covering(relative, first, n)]]
    return np.append(grid.default, found[found != grid.default]).astype(np.int64)[:n]
