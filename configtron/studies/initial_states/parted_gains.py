# SPDX-License-Identifier: MIT
"""Speed-ups by part of the transfers, and how they spread.

Question   Which transfers gain, by round trip, size, window and hour, and how unlike are they?
Method     A part is a mask over the transfers. Means have 95 % intervals of a bootstrap over prefixes; shares are of
           transfers, and their intervals are Wilson's.
Reads as   `PartGain` by part and strategy, `GainSpread` by strategy
Fails as   a part without transfers has no row
Differs    a speed-up is of a transfer and itself under Null, where the paper compares different connections
Source     Applied Learning Networks (ALN), Figures 10 to 24
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.diversity import wilson
from configtron.learner.columns import Floats
from configtron.learner.initial.end_states import DEFAULT_WINDOW, Flags, Names
from configtron.learner.initial.initial_strategies import STRATEGIES
from configtron.studies.initial_states.live_strategies import BANDS, SAME
from configtron.studies.initial_states.stress import with_interval

# Data segments; a connection of the default window or less never counts.
SIZES = ((DEFAULT_WINDOW + 1, 30), (30, 100), (100, 300), (300, 10_000))
# Segments of MaxCwnd under Null.
WINDOWS = ((1, 15), (15, 30), (30, 60), (60, 120), (120, 100_000))
# Hours (UTC); from 18 to 23 the world's rates are halved. A part may pass midnight.
HOURS = ((23, 5), (5, 12), (12, 18), (18, 23))
PERCENTILES = (5, 25, 50, 75, 95)

Parts = Mapping[str, Flags]


class PartGain(NamedTuple):
    """One strategy's speed-up over the transfers of a part, with a 95 % interval."""

    part: str
    strategy: str
    transfers: int
    mean: float
    low: float
    high: float


class GainSpread(NamedTuple):
    """One strategy's speed-ups: at `PERCENTILES`; shares above and below Null's by over a thousandth, with 95 %."""

    strategy: str
    transfers: int
    percentiles: tuple[float, ...]
    better: float
    better_within: tuple[float, float]
    worse: float
    worse_within: tuple[float, float]


def trip_parts(rtt_ms: Floats) -> Parts:
    """Return the papers' bands of round trips, ms."""
    return _spans(rtt_ms, BANDS, "ms")


def size_parts(packets: Floats) -> Parts:
    """Return bands of sizes, data segments."""
    return _spans(packets, SIZES, "segments")


def window_parts(max_cwnd: Floats) -> Parts:
    """Return bands of MaxCwnd, segments."""
    return _spans(max_cwnd, WINDOWS, "segments")


def hour_parts(at_s: Floats) -> Parts:
    """Return parts of the day, UTC. at_s: s since 1970."""
    hours = np.array([datetime.fromtimestamp(one, UTC).hour for one in at_s.tolist()], dtype=np.int64)
    found = {}
    for first, end in HOURS:
        inside = (hours >= first) & (hours < end) if first < end else (hours >= first) | (hours < end)
        found[f"{first}-{end} h"] = inside
    return found


def _spans(values: Floats, spans: Sequence[tuple[float, float]], unit: str) -> Parts:
    return {f"{low:g}-{high:g} {unit}": (values >= low) & (values < high) for low, high in spans}


def parted_gains(gains: Floats, prefixes: Names, parts: Parts, rng: np.random.Generator) -> list[PartGain]:
    """Return a row for each part and strategy. gains: (n, strategies) speed-ups."""
    found = []
    for part, inside in parts.items():
        if not inside.any():
            continue
        for at, strategy in enumerate(STRATEGIES):
            row = with_interval(strategy, 0.0, gains[inside, at], prefixes[inside], rng)
            found.append(PartGain(part, strategy, int(inside.sum()), row.mean, row.low, row.high))
    return found


def gain_spreads(gains: Floats) -> list[GainSpread]:
    """Return a row for each strategy. gains: (n, strategies) speed-ups."""
    found = []
    for at, strategy in enumerate(STRATEGIES):
        mine, many = gains[:, at], len(gains)
        better, worse = int((mine > 1 + SAME).sum()), int((mine < 1 - SAME).sum())
        found.append(GainSpread(
            strategy, many, tuple(np.percentile(mine, PERCENTILES).tolist()),
            better / many, wilson(better, many), worse / many, wilson(worse, many),
        ))  # fmt: skip
    return found
