# SPDX-License-Identifier: MIT
"""A flow over one bottleneck, packet by packet in pure Python: most of Indigo's training rounds are driven here.

    log = flow_on_path(PacketPath(mbit=20, delay_s=0.04, queue_packets=300), scheme, 4.0, rng)

Question   How can hundreds of flows be driven for a twentieth of what the lab takes?
Method     The sender of all schemes (`schemes/sending.py`) on a clock that goes from event to event. A packet joins a
           queue, leaves at the bottleneck's rate or by chance (Poisson), and arrives after the delay; its
           acknowledgement comes back after the same delay, in order. Losses by chance come before the queue.
Reads as   what the scheme notes; `PathLog`: when acknowledgements came and their round trips.
Differs    from the lab: no kernel, so no packet waits for a timer or a program, and no packet of the other direction
           waits for a link. The last rounds of a training are the lab's, which judges too.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import NamedTuple

import numpy as np

from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme
from configtron.lab.schemes.sending import DatagramSender

# Rounding must not make an event come back without end.
LEAST_STEP_S = 1e-9


class PacketPath(NamedTuple):
    """delay_s: one way; loss: fraction by chance; poisson: packets leave by chance, not evenly."""

    mbit: float
    delay_s: float
    queue_packets: int
    loss: float = 0.0
    poisson: bool = False


class PathLog(NamedTuple):
    """Acknowledgements: when, and their round trips, seconds."""

    at_s: list[float]
    rtt_s: list[float]


class _Bottleneck:
    """Packets that are in it, by their departures."""

    def __init__(self, path: PacketPath, rng: np.random.Generator) -> None:
        self._path, self._rng = path, rng
        self._packet_s = PACKET_BYTES * 8e-6 / path.mbit
        self._leaving: deque[float] = deque()
        self._last = 0.0

    def join(self, now: float) -> float:
        """Return when a packet that comes now leaves; `inf` if it is lost."""
        leaving = self._leaving
        while leaving and leaving[0] <= now:
            leaving.popleft()
        if self._path.loss and self._rng.random() < self._path.loss or len(leaving) > self._path.queue_packets:
            return inf
        takes = self._packet_s * self._rng.exponential() if self._path.poisson else self._packet_s
        self._last = max(self._last, now) + takes
        leaving.append(self._last)
        return self._last


def flow_on_path(path: PacketPath, scheme: Scheme, seconds: float, rng: np.random.Generator) -> PathLog:
    """Drive a flow for so many seconds of the path's clock, which begins at zero."""
    sender, bottleneck, log, now = DatagramSender(scheme), _Bottleneck(path, rng), PathLog([], []), 0.0
    coming: deque[tuple[float, int, float]] = deque()
    while now < seconds:
        while coming and coming[0][0] <= now:
            at, number, sent_at = coming.popleft()
            sender.acknowledge(at, number, sent_at)
            log.at_s.append(at)
            log.rtt_s.append(at - sent_at)
        sender.wake(now)
        while sender.due(now) <= now:
            number, leaves = sender.send(now), bottleneck.join(now)
            if leaves < inf:
                coming.append((leaves + 2 * path.delay_s, number, now))
        then = min(sender.due(now), sender.wake_by, coming[0][0] if coming else inf)
        now = max(then, now + LEAST_STEP_S)
    return log
