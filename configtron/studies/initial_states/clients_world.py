# SPDX-License-Identifier: MIT
"""A world of clients with known paths: prefixes in networks, evenings that are slower, web-like sizes. Drawn by seed.

Question   From which world are the transfers of the study `aln`, whose truth its judges know?
Method     Networks (/16) draw a round trip over the papers' bands (10 to 600 ms), a rate (1 to 100 Mbit/s) and a buffer
           (0.25 to 2 times rate times round trip), all but the buffer log-uniform; a prefix (/24) has its network's, by
           some log-normal factor; from 18 to 23 o'clock a rate is `EVENING` of itself; a transfer has its prefix's path
           by some smaller factor. Sizes are log-normal with a median of 40 kB, at most 3 MB, independent of the path.
Reads as   `Transfer`s; `capacity` is the window that a path holds, rate times round trip and buffer
Differs    from a live system: a prefix has one path, sizes do not depend on it, one transfer a connection, no competing
           flow. Times are days of `CALM_S` spacing from `BEGIN_S` on; guests do not wait for them.
Source     Applied Learning Networks (ALN), whose clients are not published; the bands of its live figures
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.lab.testbed.conditions import PACKET_BYTES, Condition, LinkDirection

# Monday, January 5, 2026, 00:00 UTC; s between two transfers of the world.
BEGIN_S, CALM_S = 1_767_571_200.0, 180.0
RTT_MS, RATE_MBIT, BUFFER = (10.0, 600.0), (1.0, 100.0), (0.25, 2.0)
# Standard deviations of a prefix's logarithms in its network, of a transfer's on its prefix's path.
PREFIX_SPREAD, TRANSFER_SPREAD = 0.25, 0.08
EVENING, EVENING_HOURS = 0.5, (18, 23)
# Bytes: the median, the logarithm's standard deviation, bounds.
SIZE, SIZE_SPREAD, SIZES = 40_000.0, 1.3, (2_000, 3_000_000)
# A queue of less is none.
LEAST_QUEUE = 4 * PACKET_BYTES


class Transfer(NamedTuple):
    """One connection that sends `size` bytes over a path. window: initial, segments; 0: the untouched stack's."""

    prefix: str
    at_s: float
    rate_kbit: float
    rtt_ms: float
    queue_bytes: int
    size: int
    seed: int
    window: int = 0

    @property
    def condition(self) -> Condition:
        """Return its path."""
        down = LinkDirection(self.rate_kbit, self.rtt_ms / 2, queue_bytes=self.queue_bytes)
        return Condition(f"aln:{self.seed}", down, LinkDirection(delay_ms=self.rtt_ms / 2))

    @property
    def capacity(self) -> float:
        """Return the most segments that can be under way without a loss."""
        return (self.rate_kbit * self.rtt_ms / 8.0 + self.queue_bytes) / PACKET_BYTES


class Path(NamedTuple):
    """A prefix and its path by day."""

    prefix: str
    rtt_ms: float
    rate_kbit: float
    buffer: float


def paths(networks: int, prefixes: int, rng: np.random.Generator) -> list[Path]:
    """Return `prefixes` paths in each of `networks` networks."""
    found = []
    for network in range(networks):
        rtt, rate, buffer = (np.exp(rng.uniform(*np.log(bounds))) for bounds in (RTT_MS, RATE_MBIT, BUFFER))
        for number in range(prefixes):
            factors = np.exp(PREFIX_SPREAD * rng.standard_normal(2))
            bounded = np.clip([rtt, rate] * factors, *np.array([RTT_MS, RATE_MBIT]).T)
            found.append(Path(f"10.{network}.{number}.0/24", float(bounded[0]), 1e3 * float(bounded[1]), float(buffer)))
    return found


def transfers(world: list[Path], count: int, first: int, rng: np.random.Generator) -> list[Transfer]:
    """Return `count` transfers, numbered from `first`, whose times follow one another."""
    found = []
    for at in range(first, first + count):
        path = world[int(rng.integers(len(world)))]
        at_s = BEGIN_S + CALM_S * at
        slower = EVENING if EVENING_HOURS[0] <= at_s // 3600 % 24 < EVENING_HOURS[1] else 1.0
        rtt, rate = [path.rtt_ms, path.rate_kbit * slower] * np.exp(TRANSFER_SPREAD * rng.standard_normal(2))
        size = int(np.clip(SIZE * np.exp(SIZE_SPREAD * rng.standard_normal()), *SIZES))
        queue = max(LEAST_QUEUE, int(path.buffer * rate * rtt / 8.0))
        found.append(Transfer(path.prefix, at_s, round(float(rate), 1), round(float(rtt), 2), queue, size, at + 1))
    return found
