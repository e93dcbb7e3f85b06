# SPDX-License-Identifier: MIT
"""Latin hypercube over a grid: few first samples that cover every knob's values evenly.

Source   McKay, Beckman and Conover 1979; CT section 4 takes 4 samples.
"""

from __future__ import annotations

import numpy as np

from configtron.learner.columns import Codes
from configtron.model.grid import Grid


def latin(grid: Grid, samples: int, rng: np.random.Generator) -> Codes:
    """Return (samples,) different configurations: in each knob every stratum once, then the nearest one not yet taken.

    A grid that is no full product has not every combination, hence "nearest".
    """
    places = []
    for knob in grid.knobs:
        strata = (rng.permutation(samples) + rng.random(samples)) / samples
        places.append(np.minimum((strata * len(knob.values)).astype(np.int64), len(knob.values) - 1))
    wanted = np.stack(places, axis=1)
    taken: list[int] = []
    # Where a combination is not in the grid, the knob with the fewest values gives way.
    dear = 1.0 + 0.01 * np.array([len(knob.values) for knob in grid.knobs])
    for row in wanted:
        away = (grid.positions != row) @ dear
        away[taken] = np.inf
        taken.append(int(away.argmin()))
    return np.array(taken, dtype=np.int64)
