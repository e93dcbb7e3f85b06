# SPDX-License-Identifier: MIT
"""SCReAM: a self-clocked window for media that keeps the queue below a target delay.

Question   How can media stay at low delay where the rate of a link, a cellular one above all, changes at any time?
Method     The window follows the distance of the queueing delay from a target, as LEDBAT's does, on each
           acknowledgement:
               off_target = (qdelay_target - qdelay) / qdelay_target
               cwnd      += gain * off_target * acknowledged * MSS / cwnd
           with a gain of 1. In fast increase, which lasts while there is no sign of congestion (a trend of the delay
           below 0.2), the window grows by all that is acknowledged. A loss cuts it to 0.8, once a round trip, and ends
           fast increase, which returns after five seconds without congestion.
Stop when  never.
Reads as   a standing queue of at most qdelay_target (100 ms), and below it in the mean, because the trend ends fast
           increase.
Fails as   TCP in the same queue: the target grows with the delay that TCP makes, up to 400 ms, and shrinks again.
Differs    from RFC 8298: no media, so none of its rate control (sections 4.1.3 to 4.1.5); the sender always has data,
           so the window is not held near what is in flight; round-trip times stand for one-way delays; packets are
           paced at 1.25 times cwnd / RTT; the target grows by the mean and deviation of the smoothed delay, sampled
           every 50 ms.
Source     RFC 8298, section 4.1.2
"""

from __future__ import annotations

from collections import deque
from math import inf

from configtron.lab.schemes.measured_rtt import SmoothedRtt
from configtron.lab.schemes.scheme import INITIAL_CWND, LEAST_CWND, PACKET_BYTES, SendingLimit

QDELAY_TARGET_LO_S, QDELAY_TARGET_HI_S = 0.1, 0.4
GAIN, BETA_LOSS = 1.0, 0.8
# The mean queueing delay: weight of a new value; number of its shares of the target that make the trend.
QDELAY_WEIGHT, FRACTIONS = 0.1, 20
QDELAY_TREND_TH, RESUME_FAST_INCREASE_S = 0.2, 5.0
PACE_HEADROOM = 1.25
# The trend is computed this often.
TREND_EVERY_S = 0.05
# A competing flow raises the target: so many samples of the delay, as shares of the least target, with a mean above
# this and a deviation below this share of the mean.
NORMS, COMPETING_NORM, STEADY_NORM = 200, 1.5, 0.5


class Scream:
    """cwnd: bytes; target_s: of queueing."""

    def __init__(self) -> None:
        self.cwnd, self.target_s = INITIAL_CWND, QDELAY_TARGET_LO_S
        self._rtt = SmoothedRtt()
        self._fast_increase = True
        self._average = 0.0
        self._fractions: deque[float] = deque([0.0], FRACTIONS)
        self._norms: deque[float] = deque(maxlen=NORMS)
        self._trend, self._trend_at = 0.0, -inf
        self._reduced_at = self._congested_at = -inf

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Move the window."""
        del delivered
        self._rtt.add(rtt)
        qdelay = rtt - self._rtt.least_s
        self._average += QDELAY_WEIGHT * (qdelay - self._average)
        if now >= self._trend_at + TREND_EVERY_S:
            self._trend_at = now
            self._measure_trend(now)
        if self._fast_increase:
            self._fast_increase = self._trend < QDELAY_TREND_TH
            self.cwnd += bytes if self._fast_increase else 0
        else:
            off_target = (self.target_s - qdelay) / self.target_s
            self.cwnd += GAIN * off_target * bytes * PACKET_BYTES / self.cwnd
            self._fast_increase = now > self._congested_at + RESUME_FAST_INCREASE_S
        self.cwnd = max(self.cwnd, LEAST_CWND)

    def on_loss(self, now: float, n: int) -> None:
        """Cut the window, once a round trip."""
        del n
        self._fast_increase, self._congested_at = False, now
        if now >= self._reduced_at + self._rtt.smoothed_s:
            self.cwnd, self._reduced_at = max(self.cwnd * BETA_LOSS, LEAST_CWND), now

    def on_tick(self, now: float) -> SendingLimit:
        """Return the window, and a pacing rate with some headroom."""
        del now
        return SendingLimit(self.cwnd, PACE_HEADROOM * self.cwnd / self._rtt.smoothed_s)

    def _measure_trend(self, now: float) -> None:
        """Compute the trend: the correlation of successive delay fractions, times the newest."""
        self._fractions.append(self._average / self.target_s)
        mean = sum(self._fractions) / len(self._fractions)
        away = [fraction - mean for fraction in self._fractions]
        square = sum(value * value for value in away)
        follows = sum(a * b for a, b in zip(away, away[1:], strict=False)) / square if square else 0.0
        self._trend = min(1.0, max(0.0, follows * self._fractions[-1]))
        if self._trend >= QDELAY_TREND_TH:
            self._congested_at = now
        self._adapt_target()

    def _adapt_target(self) -> None:
        """Raise the target while other flows hold the queue above it for long; else let it fall."""
        self._norms.append(self._average / QDELAY_TARGET_LO_S)
        mean = sum(self._norms) / len(self._norms)
        spread = (sum((norm - mean) ** 2 for norm in self._norms) / len(self._norms)) ** 0.5
        if len(self._norms) == NORMS and mean > COMPETING_NORM and spread < STEADY_NORM * mean:
            wanted = (mean + spread) * QDELAY_TARGET_LO_S
        else:
            wanted = self.target_s * 0.9
        self.target_s = min(QDELAY_TARGET_HI_S, max(QDELAY_TARGET_LO_S, wanted))
