# SPDX-License-Identifier: MIT
"""Strategies for the initial window, drawn per connection with known chances: the profiles of a class's mix.

Question   Which initial window does each strategy give a client, and with which chance?
Method     Null is the untouched stack; FixedCwnd has 72 400 bytes, 50 full segments; PredMean Low, High and Round have
           the predicted mean of MaxCwnd, rounded so. Each is an arm of a mix (`model.draw.Mix`), in this order, so that
           the kernel draws it and an arm's number names its strategy. Prefixes with the same windows share a class.
Reads as   `WindowClass`: windows by strategy, profiles and mix
Fails as   `BadInput` of the mix, or of a strategy without a share
Differs    the paper sets the congestion window of an open connection; here it is the initial window, in force before
           the first byte. Windows lie within 1 and `MOST_INITIAL`: deployed networks use up to 100 segments.
Source     Applied Learning Networks (ALN), strategies; Rueth and others, Large-scale scanning of TCP's initial window
           (2017), for the bound
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import DEFAULT_WINDOW, SEGMENT_BYTES
from configtron.learner.initial.quantisation import MAX_CWND
from configtron.learner.initial.rounded_mean import HIGH, LOW, NEAREST, bin_of
from configtron.model.draw import Mix
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile

NULL, FIXED, PRED_LOW, PRED_HIGH, PRED_ROUND = STRATEGIES = (
    "null", "fixed", "pred-low", "pred-high", "pred-round",
)  # fmt: skip
FIXED_BYTES = 72_400
FIXED_WINDOW = FIXED_BYTES // SEGMENT_BYTES
MOST_INITIAL = 100
ROUNDING_OF = {PRED_LOW: LOW, PRED_HIGH: HIGH, PRED_ROUND: NEAREST}


@dataclass(frozen=True, slots=True)
class WindowClass:
    """windows: segments by strategy, in the order of `STRATEGIES`; 0: the untouched stack."""

    windows: tuple[int, ...]

    @property
    def name(self) -> str:
        """Return the class's name: the predicted windows."""
        return "window-" + "-".join(str(window) for window in self.windows[2:])

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Return a profile a strategy; Null's has no settings."""
        rows = zip(STRATEGIES, self.windows, strict=True)
        return tuple(
            Profile(f"{strategy}-{window}", (("initcwnd", window),)) if window else Profile(strategy)
            for strategy, window in rows
        )

    def mix(self, shares: Sequence[float] = (1.0,) * len(STRATEGIES)) -> Mix:
        """Return the mix of all strategies, shares in any unit. Errors: `BadInput` for one with less than half a part
        of 65536: the arms after it would change places."""
        found = Mix.of([(profile.name, share) for profile, share in zip(self.profiles, shares, strict=True)])
        if len(found.profiles) < len(STRATEGIES):
            raise BadInput(f"each strategy of {self.name} needs a share, or arms do not name strategies")
        return found


def windows_of(shares: Floats) -> Codes:
    """Return (n, strategies) the window of each strategy by predicted distributions of MaxCwnd (n, bins), segments."""
    found = np.zeros((len(shares), len(STRATEGIES)), dtype=np.int64)
    found[:, STRATEGIES.index(FIXED)] = FIXED_WINDOW
    for strategy, rounding in ROUNDING_OF.items():
        values = np.rint(MAX_CWND.of_bins(bin_of(shares, rounding)))
        found[:, STRATEGIES.index(strategy)] = np.clip(values, 1, MOST_INITIAL)
    return found


def classes_of(prefixes: Sequence[str], shares: Floats) -> dict[str, WindowClass]:
    """Return the class of each prefix by its predicted distribution."""
    rows = windows_of(shares).tolist()
    return {prefix: WindowClass(tuple(row)) for prefix, row in zip(prefixes, rows, strict=True)}


def effective(windows: Codes) -> Codes:
    """Return the windows with the default in place of 0."""
    return np.where(windows > 0, windows, DEFAULT_WINDOW)
