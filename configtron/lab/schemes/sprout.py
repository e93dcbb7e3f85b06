# SPDX-License-Identifier: MIT
"""Sprout: a window of what a cellular link delivers within 100 ms with a chance of 95 %.

Question   How much may a sender put into a link whose rate wanders, if 95 % of the time all is to arrive within 100 ms?
Method     The link's rate is a random walk: packets arrive as a Poisson process whose rate lambda drifts as Brownian
           motion (200 packets a second in a root second), with outages that end at a rate of one a second. The belief
           over lambda has 256 bins of up to 1000 packets a second. Each 20 ms:
               drift the belief;  multiply by the chance of the packets that were counted;  normalise
           and forecast: for 1 to 5 ticks ahead, the 5th percentile of the packets delivered by then. The window is what
           that rate delivers within 100 ms and a round trip without a queue.
Stop when  never.
Reads as   with a constant rate the belief settles around it, and the window leaves a queue of about 100 ms at most;
           throughput is below the link's by the caution of the 5th percentile.
Fails as   links faster than 1000 packets a second (12 Mbit/s): the belief ends there. Two flows in one queue: each
           takes its own share for the link, and the forecast is a smaller part of a slower rate (a tenth at 100 packets
           a second, three quarters at 900), so the slower one ends at two packets. A cellular link has a queue for each
           user.
Differs    from the paper: the forecast is made where data is sent, out of acknowledgements, not by the receiver; a tick
           without a queue counts as "at least so many" (the paper's sender marks such packets); the forecast has 5
           ticks (8 there), and for the packets of all of them the rate of its last one; drift and counts are tables.
Source     Winstein, Sivaraman and Balakrishnan, NSDI 2013, section 3
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.measured_rtt import SmoothedRtt
from configtron.lab.schemes.scheme import INITIAL_CWND, LEAST_CWND, PACKET_BYTES, SendingLimit

SPROUT_TICK_S, WITHIN_TICKS = 0.02, 5
BINS, MOST_RATE, WANDER, OUTAGE_ESCAPE = 256, 1000.0, 200.0, 1.0
# After so many ticks without a call the belief is as wide as it gets.
MOST_TICKS = 50
CAUTION = 0.05
# More packets than the fastest link delivers in the ticks of the forecast.
MOST_COUNT = 192
RATES = np.linspace(0.0, MOST_RATE, BINS)
Belief = NDArray[np.float64]


def _drift() -> Belief:
    """Return the chances of each bin after a tick (columns) by the bin before (rows): a cut Gaussian; outages end."""
    away = (RATES[None, :] - RATES[:, None]) / (WANDER * SPROUT_TICK_S**0.5)
    table: Belief = np.exp(-away * away / 2)
    table[0] *= 0.0
    table[0, 1] = 1 - np.exp(-OUTAGE_ESCAPE * SPROUT_TICK_S)
    table[0, 0] = 1 - table[0, 1]
    table /= table.sum(1, keepdims=True)
    return table


def _counts(mean: Belief) -> Belief:
    """Return the chances of 0 to MOST_COUNT packets (columns) by the mean of a Poisson count (rows)."""
    number = np.arange(MOST_COUNT + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, MOST_COUNT + 1)))])
    table: Belief = np.exp(number * np.log(np.maximum(mean, 1e-9))[:, None] - mean[:, None] - logs)
    return table


DRIFT, COUNTS = _drift(), _counts(RATES * SPROUT_TICK_S)
# By ticks ahead: chances of at most so many packets (columns) in all of them, by rate (rows).
SUMS = tuple(np.cumsum(_counts(RATES * SPROUT_TICK_S * (ahead + 1)), 1) for ahead in range(WITHIN_TICKS))


class Sprout:
    """cwnd: bytes; belief: the chance of each of `RATES`, packets a second."""

    def __init__(self) -> None:
        self.cwnd = INITIAL_CWND
        self.belief: Belief = np.full(BINS, 1 / BINS)
        self._rtt = SmoothedRtt()
        self._tick_ends, self._packets = -inf, 0

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Count the packet."""
        del now, delivered, bytes
        self._rtt.add(rtt)
        self._packets += 1

    def on_loss(self, now: float, n: int) -> None:
        """Do nothing: a lost packet is not delivered, and only deliveries count."""

    def on_tick(self, now: float) -> SendingLimit:
        """Learn from each tick that is over, and forecast."""
        if self._tick_ends == -inf:
            self._tick_ends = now + SPROUT_TICK_S
        if now >= self._tick_ends:
            ticks = int((now - self._tick_ends) / SPROUT_TICK_S) + 1
            for _ in range(min(ticks, MOST_TICKS)):
                self._learn()
            self._tick_ends += ticks * SPROUT_TICK_S
            self.cwnd = max(LEAST_CWND, self._forecast() * PACKET_BYTES)
        return SendingLimit(self.cwnd, inf)

    def _learn(self) -> None:
        """Update the belief by one tick: drift, then the chance of what was counted."""
        count, self._packets = min(self._packets, MOST_COUNT), 0
        queueing = self._rtt.smoothed_s - self._rtt.least_s > SPROUT_TICK_S
        chances = COUNTS[:, count] if queueing else COUNTS[:, count:].sum(1)
        belief = (self.belief @ DRIFT) * chances
        total = belief.sum()
        self.belief = belief / total if total > 0 else np.full(BINS, 1 / BINS)

    def _forecast(self) -> float:
        """Return the packets of 100 ms and of a round trip without a queue, at the cautious rate."""
        belief, surely = self.belief, 0.0
        for ahead in range(WITHIN_TICKS):
            belief = belief @ DRIFT
            surely = max(surely, float(np.searchsorted(belief @ SUMS[ahead], CAUTION)))
        least = self._rtt.least_s if self._rtt.least_s < inf else 0.0
        return surely * (1 + least / (WITHIN_TICKS * SPROUT_TICK_S))
