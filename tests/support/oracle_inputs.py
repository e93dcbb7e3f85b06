# SPDX-License-Identifier: MIT
"""Inputs that our schemes and other implementations of them get alike, and what ours answer.

groups(seed)           delay variations of groups of packets: for the slope detector of GCC
signals(seed)          our detector's signal after each
COPA_PATHS, ...        for schemes that drive themselves
settled(scheme, path)  where one of ours settles
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from configtron.lab.schemes.copa import Copa
from configtron.lab.schemes.gcc import DelaySlope
from configtron.lab.schemes.ledbat import Ledbat
from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme
from tests.support.scripted_path import ScriptedPath, Starting, run

SEEDS = (1, 2, 3)
# Mbit/s, one way's seconds, packets of the queue.
COPA_PATHS = ((2.0, 0.05, 400), (4.0, 0.02, 400), (6.0, 0.02, 400), (12.0, 0.03, 400))
LEDBAT_PATHS = ((2.0, 0.05, 400), (4.0, 0.02, 400), (6.0, 0.01, 400))
# Two flows: the path, when the later one starts, and from when to when they are judged.
TWO_PATH, LATE_S, TWO_SECONDS = (3.0, 0.02, 400), 8.0, (20.0, 30.0)
# From when to when one flow is judged.
SECONDS = (10.0, 20.0)
# libutp's largest growth in a round trip, bytes; RFC 6817's is a packet.
UTP_GROWTH_BYTES = 3000
MICRO = 1e-6
# Six digits after the point in libutp's log.
ROUNDED = 1e-3


class Settled(NamedTuple):
    """Mbit/s, and the mean wait in the queue, ms."""

    mbit: float
    queueing_ms: float


def settled(scheme: Scheme, path: tuple[float, float, int]) -> Settled:
    """Return where a scheme of ours settles."""
    found = run(ScriptedPath(*path), [Starting(scheme)], SECONDS[1])[0].between(*SECONDS)
    return Settled(found.mbit, 1e3 * found.queueing_s)


def two(first: Scheme, late: Scheme) -> list[Settled]:
    """Return where two flows settle of which one starts late."""
    logs = run(ScriptedPath(*TWO_PATH), [Starting(first), Starting(late, LATE_S)], TWO_SECONDS[1])
    found = [log.between(*TWO_SECONDS) for log in logs]
    return [Settled(one.mbit, 1e3 * one.queueing_s) for one in found]


def groups(seed: int, count: int = 190) -> Iterator[tuple[float, float]]:
    """Yield (delay variation, time since the group before) in ms: a queue that rests, grows, rests and drains."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        slope = (0.0, 0.6, 0.0, -0.6)[number * 4 // count]
        yield round(slope + rng.normal(0, 0.4), 3), round(5 + float(rng.uniform(0, 10)), 3)


def signals(seed: int) -> str:
    """Return our detector's signals: O overuse, U underuse, N normal."""
    slope, found = DelaySlope(), []
    for variation, since in groups(seed):
        slope.add(variation, since)
        found.append(slope.signal[0].upper())
    return "".join(found)


class Move(NamedTuple):
    """A Copa's state after an acknowledgement; at, rtt: microseconds; cwnd: bytes."""

    at: int
    rtt: int
    cwnd: int
    velocity: int


def copa_moves(acknowledged: Sequence[Move]) -> list[Move]:
    """Give our Copa the same acknowledgements; return its states."""
    scheme, found = Copa(), []
    for one in acknowledged:
        scheme.on_ack(one.at * MICRO, one.rtt * MICRO, 0, PACKET_BYTES)
        found.append(Move(one.at, one.rtt, round(scheme.cwnd), round(scheme._velocity)))
    return found


def same_direction(one: Sequence[Move], other: Sequence[Move]) -> float:
    """Return the share of acknowledgements at which both windows move the same way."""
    ways = [np.sign(np.diff([move.cwnd for move in moves])) for moves in (one, other)]
    return float(np.mean(ways[0] == ways[1]))


def windows_apart(one: Sequence[Move], other: Sequence[Move]) -> float:
    """Return the median of how far the other window is from the first, as a share of it."""
    first, second = (np.array([move.cwnd for move in moves], float) for moves in (one, other))
    return float(np.median(np.abs(second / first - 1)))


def ledbat_growth(cwnd: float, delay_ms: float, acked: int) -> float:
    """Return by how much our window of so many bytes moves at such a queueing delay, out of slow start."""
    scheme = Ledbat()
    scheme.on_ack(0.0, 0.05, 0, 0)
    scheme._slow_start = False
    scheme._current.clear()
    scheme.cwnd = cwnd
    scheme.on_ack(1.0, 0.05 + delay_ms / 1e3, 0, acked)
    return scheme.cwnd - cwnd


def growths_agree(steps: Sequence[Sequence[float]]) -> float:
    """Return the share of libutp's steps that ours agree with, by a packet a round trip; it logs whole ms of delay."""
    same = 0
    for cwnd, delay_ms, acked, gain in steps:
        wanted = gain * PACKET_BYTES / UTP_GROWTH_BYTES
        least, most = (ledbat_growth(cwnd, delay_ms + more, int(acked)) for more in (1.0, 0.0))
        same += least - ROUNDED <= wanted <= most + ROUNDED
    return same / len(steps)


def same_signals(theirs: Sequence[str]) -> int:
    """Return at how many groups our detector's signal is that of another one."""
    return sum(a == b for seed, one in zip(SEEDS, theirs, strict=True) for a, b in zip(one, signals(seed), strict=True))
