# SPDX-License-Identifier: MIT
"""PCC Vivace: gradient ascent of the sending rate, with a utility of rate, slope of the delay and loss.

Question   Can senders find their rates by trials and share a link fairly, all with the same utility?
Method     The sender tries each rate for one monitor interval, a round trip. An interval's utility, with x the rate in
           Mbit/s and L the loss, is
               u = x^0.9 - 900 * x * max(0, dRTT/dT) - 11.35 * x * L
           Two intervals, at r * (1 + 0.05) and r * (1 - 0.05) in random order, give the gradient
               gamma = (u+ - u-) / (2 * 0.05 * r),   r += m * gamma   in Mbit/s
           m is 1, 2, 3 and then 2 n - 3 at the n-th step of the same sign (confidence). A step is at most omega * r;
           omega starts at 0.05 and grows by 0.1 while steps are cut (dynamic change boundary).
Stop when  never. At the start the rate doubles each interval until the utility falls, then half of that rate is taken.
Reads as   a rate around the link's, because above it dRTT/dT > 0 (x > C: dRTT/dT = x / C - 1) and the gradient turns
           negative: a queue that does not grow. It keeps its rate under random losses below 5 %: 0.9 x^-0.1 > 11.35 L
           for x of 10 up to L of 6 %.
Fails as   a large constant queue costs nothing (only its slope does), so the queue of the start drains slowly.
Differs    from the paper: the slope is of least squares over an interval's packets, and one below 1 % counts as none
           (the authors' program filters noise likewise); an interval has five packets at least; a loss counts in the
           interval of the packet whose acknowledgement shows it, a few packets later (`monitor_interval.py`).
Source     Dong and others, NSDI 2018, sections 3 and 4
"""

from __future__ import annotations

from collections import deque
from math import copysign, inf

import numpy as np

from configtron.lab.schemes.monitor_interval import MonitorInterval, RateTrials
from configtron.lab.schemes.scheme import PACKET_BYTES, SendingLimit

# The utility: throughput's exponent, the weights of delay's slope and of loss.
EXPONENT, SLOPE_WEIGHT, LOSS_WEIGHT = 0.9, 900.0, 11.35
PROBE = 0.05
# Mbit/s for a gradient of one.
FIRST_STEP_MBIT = 1.0
BOUNDARY, BOUNDARY_STEP = 0.05, 0.1
# Steps in one direction after which confidence grows by two a step.
SLOW_CONFIDENCE = 3
LEAST_SLOPE = 0.01
MBIT = 1e6 / 8
# Two packets in a first guess of a round trip (100 ms): 0.24 Mbit/s; and the least: two packets a second.
FIRST_RATE, LEAST_RATE = 20.0 * PACKET_BYTES, 2.0 * PACKET_BYTES
# An interval has so many packets at least: fewer show neither loss nor slope.
LEAST_PACKETS = 5


def utility(mbit: float, slope: float, loss: float) -> float:
    """Return the utility of a rate, Mbit/s; slope: growth of round trips, seconds a second; loss: a share."""
    return float(mbit**EXPONENT - SLOPE_WEIGHT * mbit * max(0.0, slope) - LOSS_WEIGHT * mbit * loss)


class Vivace(RateTrials):
    """rate: bytes a second, around which it tries."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rate = FIRST_RATE
        self._rng = rng
        self._starting, self._best = True, -inf
        self._begun = False
        self._planned: deque[int] = deque()
        # signs of the probes whose intervals are under way; by sign, the utilities of a pair that are known
        self._signs: deque[int] = deque()
        self._pair: dict[int, float] = {}
        self._sign, self._same, self._cut = 0, 0, 0
        self._sending = self.rate

    def on_tick(self, now: float) -> SendingLimit:
        """Learn from complete intervals; begin the next one when it is due. The rate is the only limit."""
        for one in self._intervals.complete(now, self._rtt.smoothed_s):
            self._learn(one)
        if now >= self._intervals.ends:
            self._begin(now)
        return SendingLimit(inf, self._sending)

    def _begin(self, now: float) -> None:
        """Begin an interval: at the doubled rate, as a probe, or at the rate itself while probes are under way."""
        sign = 0
        if self._starting:
            self._sending *= 2 if self._begun else 1
        else:
            if not self._planned and not any(self._signs):
                first = 1 if self._rng.random() < 0.5 else -1
                self._planned.extend((first, -first))
            sign = self._planned.popleft() if self._planned else 0
            self._sending = self.rate * (1 + PROBE * sign)
        self._begun = True
        self._signs.append(sign)
        seconds = max(self._rtt.smoothed_s, LEAST_PACKETS * PACKET_BYTES / self._sending)
        self._intervals.begin(now, self._sending, seconds)

    def _learn(self, one: MonitorInterval) -> None:
        sign = self._signs.popleft()
        slope = one.rtt_gradient if abs(one.rtt_gradient) >= LEAST_SLOPE else 0.0
        found = utility(one.rate / MBIT, slope, one.loss)
        if self._starting:
            if found < self._best:
                self._starting, self.rate = False, max(LEAST_RATE, one.rate / 2)
            self._best = found
        elif sign:
            self._pair[sign] = found
            if len(self._pair) == 2:
                self._step((self._pair[1] - self._pair[-1]) / (2 * PROBE * self.rate / MBIT))
                self._pair = {}

    def _step(self, gradient: float) -> None:
        """Move the rate along the gradient (of utility over Mbit/s)."""
        sign = int(copysign(1, gradient))
        self._same, self._cut = (self._same + 1, self._cut) if sign == self._sign else (1, 0)
        self._sign = sign
        confidence = self._same if self._same <= SLOW_CONFIDENCE else 2 * self._same - SLOW_CONFIDENCE
        step = confidence * FIRST_STEP_MBIT * gradient * MBIT
        most = (BOUNDARY + self._cut * BOUNDARY_STEP) * self.rate
        self._cut = self._cut + 1 if abs(step) > most else int(abs(step) / self.rate / BOUNDARY_STEP)
        self.rate = max(LEAST_RATE, self.rate + copysign(min(abs(step), most), gradient))
