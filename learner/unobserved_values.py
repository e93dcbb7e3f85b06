# SPDX-License-Identifier: MIT
"""Values of knobs of which no load ever came back: they are not served on a model's word.

Question   May a table serve a value (a window of 1, say) of which this log holds no load?
Method     Loads and decisions of each value of each knob, over all cells and configurations. A model that is linear in
           the logarithm of a value expects something of any value; where a log cannot show it, that expectation is
           extrapolation, and no load shows the cost of such decisions: decisions of a log are another program's.
Stop when  computed, once per update.
Reads as   configurations that may not be served at all: a value of theirs was decided `ASKED` times and never came
           back. Configurations that may not be served as guarded: a value of theirs has no load, though `LOADS` loads
           of something else than Default are there.
Fails as   outcomes that are reported later than the next update: their values wait until the first of them arrives.
Differs    from the guard in `thompson.py`, which trusts the model's own deviation.
Source     our own; Strehl et al. 2010 (a logged policy must have support where it is judged).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Floats

# Decisions of a value after which at least one load of it must be there.
ASKED = 5.0
# Loads of anything but Default from which on a value without a load is no longer served as guarded.
LOADS = 30.0

Mask = npt.NDArray[np.bool_]


def barred(positions: npt.NDArray[np.integer], loads: Floats, asked: Floats, default: int) -> tuple[Mask, Mask]:
    """Return (not to be served at all, not to be served as guarded), (configurations,) each; Default may always be.

    positions (configurations, knobs): as `Grid.positions`; loads, asked (configurations,): loads and decisions so far.
    """
    never, unguarded = np.zeros(len(positions), dtype=np.bool_), np.zeros(len(positions), dtype=np.bool_)
    elsewhere = float(loads.sum() - loads[default])
    for column in positions.T:
        loaded = np.bincount(column, loads)[column]
        never |= (loaded == 0.0) & (np.bincount(column, asked)[column] >= ASKED)
        unguarded |= (loaded == 0.0) & (elsewhere >= LOADS)
    never[default] = unguarded[default] = False
    return never, unguarded | never
