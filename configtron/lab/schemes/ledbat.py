# SPDX-License-Identifier: MIT
"""LEDBAT: a background flow that adds a fixed delay to the queue and no more.

Question   How can bulk data use what others leave, and yield when others come?
Method     The least delay of the last ten minutes is that of the empty path. Delay beyond it is queueing. The window
           grows or shrinks with the distance of queueing from a target:
               off_target = (TARGET - queueing) / TARGET
               cwnd      += GAIN * off_target * acknowledged * MSS / cwnd       on each acknowledgement
               cwnd       = cwnd / 2                                            on loss, once a round trip
Stop when  never.
Reads as   a standing queue of TARGET (100 ms): cwnd = rate * (base + TARGET), for one flow alone.
Fails as   a flow that starts while another fills the queue takes the full queue for the empty path and adds its own
           target on top (the late-comer's advantage).
Differs    from RFC 6817: it uses round-trip times where the RFC has one-way delays, so a queue of acknowledgements
           counts too; flightsize is the window, since there is always data; windows start at two packets and double
           each round trip while less than a quarter of the target queues (the RFC leaves slow start open, libutp has
           it).
Source     RFC 6817, section 2.4.2
"""

from __future__ import annotations

from collections import deque
from math import inf

from configtron.lab.schemes.measured_rtt import SmoothedRtt
from configtron.lab.schemes.scheme import LEAST_CWND, PACKET_BYTES, SendingLimit

# The most that the RFC allows; uTP and Apple use it.
TARGET_S = 0.1
# One packet a round trip at most, as TCP in congestion avoidance.
GAIN = 1.0
# The least delay of each of so many minutes is remembered: a longer route is noticed after ten.
BASE_HISTORY, MINUTE_S = 10, 60.0
# The least of so many delays is the current one: noise only adds.
CURRENT_FILTER = 4
# Share of the target at which slow start ends.
SLOW_START_SHARE = 0.25


class Ledbat:
    """One flow's window."""

    def __init__(self) -> None:
        self.cwnd = LEAST_CWND
        self._rtt = SmoothedRtt()
        self._bases: deque[float] = deque([inf], BASE_HISTORY)
        self._current: deque[float] = deque(maxlen=CURRENT_FILTER)
        self._minute_ends = self._reduced_at = -inf
        self._slow_start = True

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Move the window towards the target."""
        del delivered
        self._rtt.add(rtt)
        self._remember(now, rtt)
        queueing = min(self._current) - min(self._bases)
        self._slow_start = self._slow_start and queueing < SLOW_START_SHARE * TARGET_S
        if self._slow_start:
            self.cwnd += bytes
        else:
            off_target = (TARGET_S - queueing) / TARGET_S
            self.cwnd += GAIN * off_target * bytes * PACKET_BYTES / self.cwnd
        self.cwnd = max(self.cwnd, LEAST_CWND)

    def on_loss(self, now: float, n: int) -> None:
        """Halve the window, once a round trip."""
        del n
        self._slow_start = False
        if now >= self._reduced_at + self._rtt.smoothed_s:
            self.cwnd, self._reduced_at = max(self.cwnd / 2, LEAST_CWND), now

    def on_tick(self, now: float) -> SendingLimit:
        """Return the window; packets leave as it opens."""
        del now
        return SendingLimit(self.cwnd, inf)

    def _remember(self, now: float, delay: float) -> None:
        self._current.append(delay)
        if now >= self._minute_ends:
            self._minute_ends = now + MINUTE_S
            self._bases.append(delay)
        self._bases[-1] = min(self._bases[-1], delay)
