# SPDX-License-Identifier: MIT
"""PCC Allegro: choose the sending rate by trials, with a utility of throughput and loss.

Question   Does a sender that compares rates by trials do better than one that takes each loss for a full queue?
Method     The sender tries each rate for one monitor interval. An interval's utility, with x the rate, L the loss and
           T = x (1 - L), both rates in Mbit/s, is
               u = T / (1 + exp(100 (L - 0.05))) - x L
           Starting: the rate doubles until the utility falls. Deciding: two pairs of intervals, each with one at
           r (1 + eps) and one at r (1 - eps) in random order; if both pairs favour the same direction, the rate moves
           that way, else eps grows by 1 %, up to 5 %. Moving:
               r_n = r_(n-1) (1 + 0.01 n dir)      until the utility falls; then back one step, and deciding again.
Stop when  never.
Reads as   the link's rate, with a full queue and a loss of a few per cent: below 5 %, where the sigmoid drops, losses
           cost little utility.
Fails as   delay is not in the utility: while a long queue fills the rate overshoots, and a tenth of the packets is lost
           for some round trips until it is back. In an interval of few packets one loss looks like ten per cent, so
           that a slow flow stays slow.
Differs    from the paper: the rate waits until the four intervals' acknowledgements are in, as in the authors' program,
           which also compares the first move with nothing: it repeats a trial's rate. An interval lasts two round trips
           (the paper: 1.7 to 2.2 at random), ten packets at least; one of which nothing is to be learned ends when the
           next rate is known.
Source     Dong and others, NSDI 2015, sections 2.2 and 3
"""

from __future__ import annotations

from collections import deque
from math import exp, inf

import numpy as np

from configtron.lab.schemes.monitor_interval import MonitorInterval, RateTrials
from configtron.lab.schemes.scheme import PACKET_BYTES, SendingLimit

# The sigmoid: its steepness, and the loss at which it drops.
STEEPNESS, BORNE_LOSS = 100.0, 0.05
LEAST_EPSILON, MOST_EPSILON = 0.01, 0.05
ROUNDS, LEAST_PACKETS = 2.0, 10
# A move does not grow without end: one step is at most half the rate.
MOST_STEP = 0.5
MBIT = 1e6 / 8
FIRST_RATE, LEAST_RATE = 20.0 * PACKET_BYTES, 2.0 * PACKET_BYTES
STARTING, DECIDING, MOVING = "starting", "deciding", "moving"


def utility(mbit: float, loss: float) -> float:
    """Return the utility of a rate, Mbit/s, of which a share is lost."""
    return mbit * (1 - loss) / (1 + exp(STEEPNESS * (loss - BORNE_LOSS))) - mbit * loss


class Allegro(RateTrials):
    """rate: bytes a second; state: starting, deciding, moving."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rate, self.state = FIRST_RATE, STARTING
        self._rng = rng
        self._epsilon = LEAST_EPSILON
        self._sending = self.rate
        # signs of the next intervals, and of those under way; 0 is an interval from which nothing is learned
        self._planned: deque[int] = deque([1])
        self._under_way: deque[int] = deque()
        self._trials: list[tuple[int, float]] = []
        self._best, self._direction, self._steps = -inf, 0, 0

    def on_tick(self, now: float) -> SendingLimit:
        """Learn from complete intervals; begin the next one when it is due. The rate is the only limit."""
        for one in self._intervals.complete(now, self._rtt.smoothed_s):
            if sign := self._under_way.popleft():
                self._learn(sign, utility(one.rate / MBIT, one.loss), one)
        if self._planned and self._under_way and not self._under_way[-1]:
            self._intervals.cut(now)
        if now >= self._intervals.ends:
            sign = self._planned.popleft() if self._planned else 0
            self._sending = self.rate * (1 + self._epsilon * sign if self.state == DECIDING else 1)
            self._under_way.append(sign)
            seconds = max(ROUNDS * self._rtt.smoothed_s, LEAST_PACKETS * PACKET_BYTES / self._sending)
            self._intervals.begin(now, self._sending, seconds)
        return SendingLimit(inf, self._sending)

    def _learn(self, sign: int, found: float, one: MonitorInterval) -> None:
        if self.state == DECIDING:
            self._trials.append((sign, found))
            if len(self._trials) == 4:
                self._decide()
        elif found >= self._best:
            self._best = found
            self._advance()
        else:
            step = 2.0 if self.state == STARTING else 1 + self._step()
            self.rate = max(LEAST_RATE, one.rate / step)
            self._deliberate()

    def _decide(self) -> None:
        """Move the rate the way that both pairs favour. A pair is one trial of each sign, in the order they ran."""
        ups, downs = ([found for sign, found in self._trials if sign == which] for which in (1, -1))
        better = [up > down for up, down in zip(ups, downs, strict=True)]
        if better[0] != better[1]:
            self._epsilon = min(MOST_EPSILON, self._epsilon + LEAST_EPSILON)
            self._deliberate()
            return
        self._direction, self._steps = (1, 0) if better[0] else (-1, 0)
        self._best, self.state = -inf, MOVING
        self._advance()

    def _advance(self) -> None:
        self._steps += 1
        self.rate = max(LEAST_RATE, self.rate * (2.0 if self.state == STARTING else 1 + self._step()))
        self._planned = deque([1])

    def _step(self) -> float:
        return self._direction * min(MOST_STEP, self._steps * LEAST_EPSILON)

    def _deliberate(self) -> None:
        self._epsilon = LEAST_EPSILON if self.state != DECIDING else self._epsilon
        self.state, self._trials = DECIDING, []
        pairs = [[1, -1] if self._rng.random() < 0.5 else [-1, 1] for _ in range(2)]
        self._planned = deque([*pairs[0], *pairs[1]])
