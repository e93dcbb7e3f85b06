# SPDX-License-Identifier: MIT
"""Copa: a rate that is one over delta times the queueing delay.

Question   Which rate is best for throughput and delay at once, and how do flows find it without an exchange?
Method     With packets that arrive at a queue at random, log(throughput) - delta * log(delay) is greatest at the rate
               target = 1 / (delta * dq),   dq = standing RTT - least RTT
           The standing RTT is the least of the last half round trip, the least RTT is that of the last ten seconds. On
           each acknowledgement the window moves by v / (delta * cwnd) packets towards the target. The velocity v
           doubles each round trip once the window has moved one way for three. Packets are paced at twice
           cwnd / standing RTT.
Stop when  never. Slow start doubles the window each round trip until the rate reaches the target.
Reads as   a queue that empties every five round trips and holds 2.5 / delta packets at most: with delta of 1/2, five.
Fails as   other flows that never let the queue empty: then Copa behaves like TCP (competitive mode), in which 1 / delta
           grows by one a round trip and halves on loss. It leaves this mode when the queue is nearly empty again.
Differs    from the paper: a queue below the default mode's own target counts as nearly empty too, where that is less
           than half of the largest; otherwise even one Copa flow alone takes its own queue for TCP's and fills it. The
           bound of a half keeps the test from following a flow that TCP starves: its own target grows as its window
           shrinks. The velocity also starts anew when the window crosses the target.
Source     Arun and Balakrishnan, NSDI 2018, sections 2 and 3
"""

from __future__ import annotations

from collections import deque
from math import inf

from configtron.lab.schemes.measured_rtt import SmoothedRtt, WindowedMinimum
from configtron.lab.schemes.scheme import INITIAL_CWND, LEAST_CWND, PACKET_BYTES, SendingLimit

DEFAULT_DELTA = 0.5
LEAST_RTT_SPAN_S = 10.0
# Below this share of the largest queueing delay the queue is nearly empty; it has to be once in so many round trips.
NEARLY_EMPTY, SPAN_ROUNDS = 0.1, 5
# A queue that never falls to this share of its largest is not Copa's: three Copa flows on a path empty it further.
MOST_OF_LARGEST = 0.5
# Round trips in one direction before the velocity doubles.
STEADY_ROUNDS = 3


class Copa:
    """One flow's window. competes: whether it is in competitive mode."""

    def __init__(self, delta: float = DEFAULT_DELTA) -> None:
        self.cwnd = INITIAL_CWND
        self.delta = self._default_delta = delta
        self.competes = False
        self._rtt = SmoothedRtt()
        self._least, self._standing = WindowedMinimum(LEAST_RTT_SPAN_S), WindowedMinimum(0.0)
        self._standing_s = inf
        self._slow_start = True
        self._velocity, self._direction, self._steady = 1.0, 0, 0
        self._round_ends, self._round_began_at, self._round_lost = -inf, self.cwnd, False
        # each round trip's least and largest queueing delay
        self._rounds: deque[tuple[float, float]] = deque([(0.0, 0.0)], SPAN_ROUNDS)

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Move the window towards the target."""
        del delivered
        self._rtt.add(rtt)
        least = self._least.add(now, rtt)
        self._standing.span_s = self._rtt.smoothed_s / 2
        self._standing_s = self._standing.add(now, rtt)
        queueing = self._standing_s - least
        low, high = self._rounds[-1]
        self._rounds[-1] = (min(low, rtt - least), max(high, rtt - least))
        below = self.cwnd / PACKET_BYTES * self.delta * queueing <= self._standing_s
        if self._slow_start and below:
            self.cwnd += bytes
        else:
            self._slow_start = False
            self._move(1 if below else -1, bytes)
        if now >= self._round_ends:
            self._end_round(now)

    def on_loss(self, now: float, n: int) -> None:
        """End slow start, and note the loss: only competitive mode reacts to it, by delta."""
        del now, n
        self._slow_start = False
        self._round_lost = True

    def on_tick(self, now: float) -> SendingLimit:
        """Return the window, and a pacing rate of twice the window per standing RTT."""
        del now
        return SendingLimit(self.cwnd, 2 * self.cwnd / self._standing_s if self._standing_s < inf else inf)

    def _move(self, sign: int, bytes: int) -> None:
        if sign != self._direction and self._velocity > 1:
            self._velocity, self._direction, self._steady = 1.0, sign, 0
        step = self._velocity * PACKET_BYTES * bytes / (self.delta * self.cwnd)
        self.cwnd = max(LEAST_CWND, self.cwnd + sign * step)

    def _end_round(self, now: float) -> None:
        """Set velocity and mode, once a round trip; in competitive mode delta too."""
        went = 1 if self.cwnd > self._round_began_at else -1
        self._steady = self._steady + 1 if went == self._direction else 0
        self._velocity = 1.0 if not self._steady else self._velocity * (2 if self._steady >= STEADY_ROUNDS else 1)
        self._direction = went
        self._choose_mode()
        self._round_ends, self._round_began_at, self._round_lost = now + self._rtt.smoothed_s, self.cwnd, False
        self._rounds.append((inf, 0.0))

    def _choose_mode(self) -> None:
        largest, least = max(high for _, high in self._rounds), min(low for low, _ in self._rounds)
        wanted = PACKET_BYTES * self._standing_s / (self._default_delta * self.cwnd)
        nearly_empty = max(NEARLY_EMPTY * largest, min(wanted, MOST_OF_LARGEST * largest))
        self.competes = len(self._rounds) == SPAN_ROUNDS and least > nearly_empty
        patience = 1 / self.delta
        grown = patience / 2 if self._round_lost else patience + 1
        self.delta = min(self._default_delta, 1 / grown) if self.competes else self._default_delta
