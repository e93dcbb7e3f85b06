# SPDX-License-Identifier: MIT
"""GCC: WebRTC's rate, from the slope of one-way delays and from loss.

Question   How fast can video be sent so that delay does not grow?
Method     Packets that left within 5 ms are a group. Between groups, d = (arrival - arrival before) - (departure -
           departure before); a Kalman filter of one state estimates m, the queue's slope, out of the noise. Against a
           threshold gamma:
               m > gamma for 10 ms and not falling: overuse;   m < -gamma: underuse;   else normal
               gamma += dT * k * (|m| - gamma),  k = 0.01 above, 0.00018 below       (so that TCP does not starve it)
           The signal sets the rate. Overuse: 0.85 of the rate that arrived in the last half second. Underuse: as it is.
           Normal: it grows by 8 % a second far from the rate of former decreases, near it by half a packet a
           second in each 100 ms + RTT. Loss limits it once a second: above 10 % of packets to rate * (1 - L / 2), from
           2 % to the present rate, below 2 % not at all.
Stop when  never.
Reads as   an average queue of a few ms: overuse is found when the slope, not the delay, crosses gamma (12.5 ms at
           first); the rate swings between 0.85 of the link's and a little more.
Fails as   a link that gets faster: the rate follows by 8 % a second, and is at most 1.5 times what arrives.
Differs    from the draft: arrivals are those of acknowledgements, whose way back adds a constant where nothing queues;
           m of a group is scaled by min(groups, 60) as WebRTC's code does, otherwise m never crosses the draft's
           gamma; loss is of the last second, not of RTCP's reports, and below 2 % sets no limit (the draft: growth by
           5 %); the rate starts at 300 kbit/s and doubles each second until the first overuse.
Source     draft-ietf-rmcat-gcc-02, sections 4 to 6; Carlucci and others, MMSys 2016
"""

from __future__ import annotations

from collections import deque
from math import inf

from configtron.lab.schemes.measured_rtt import SmoothedRtt
from configtron.lab.schemes.scheme import PACKET_BYTES, SendingLimit

BURST_S = 0.005
# The filter: noise of the state each group, and how fast its estimate of the measurements' noise follows.
STATE_NOISE, CHI, FIRST_ERROR = 1e-3, 0.01, 0.1
# The threshold, and the gains by which it follows |m|, per ms.
GAMMA_MS, GAMMA_LEAST_MS, GAMMA_MOST_MS, K_UP, K_DOWN = 12.5, 6.0, 600.0, 0.01, 0.00018
OVERUSE_MS, MOST_GROUPS = 10.0, 60
BETA, ETA, RECEIVED_SPAN_S, LOSS_SPAN_S = 0.85, 1.08, 0.5, 1.0
# Within three deviations of the mean rate at decreases, the link's rate is near.
NEAR_DEVIATIONS, NEAR_WEIGHT = 3.0, 0.05
FIRST_RATE, LEAST_RATE, FIRST_ETA = 3e5 / 8, 3e4 / 8, 2.0
HIGH_LOSS, LOW_LOSS = 0.1, 0.02
NORMAL, OVERUSE, UNDERUSE = "normal", "overuse", "underuse"


class DelaySlope:
    """The filter and the detector: groups' delay variations in, a signal out. gamma_ms and m_ms are scaled alike."""

    def __init__(self) -> None:
        self.signal, self.gamma_ms, self.m_ms = NORMAL, GAMMA_MS, 0.0
        self._m, self._error, self._noise = 0.0, FIRST_ERROR, 1.0
        self._groups, self._over_ms = 0, 0.0

    def add(self, d_ms: float, since_ms: float) -> None:
        """Add one group's delay variation; since_ms: between its arrival and that of the group before."""
        innovation = d_ms - self._m
        bounded = max(-3 * self._noise**0.5, min(3 * self._noise**0.5, innovation))
        self._noise = max(1.0, (1 - CHI) * self._noise + CHI * bounded * bounded)
        gain = (self._error + STATE_NOISE) / (self._noise + self._error + STATE_NOISE)
        self._m += gain * innovation
        self._error = (1 - gain) * (self._error + STATE_NOISE)
        self._groups = min(self._groups + 1, MOST_GROUPS)
        before, self.m_ms = self.m_ms, self._m * self._groups
        if abs(self.m_ms) - self.gamma_ms <= 15:
            k = K_DOWN if abs(self.m_ms) < self.gamma_ms else K_UP
            self.gamma_ms += min(since_ms, 100.0) * k * (abs(self.m_ms) - self.gamma_ms)
            self.gamma_ms = max(GAMMA_LEAST_MS, min(GAMMA_MOST_MS, self.gamma_ms))
        self._over_ms = self._over_ms + since_ms if self.m_ms > self.gamma_ms else 0.0
        self.signal = UNDERUSE if self.m_ms < -self.gamma_ms else NORMAL
        if self._over_ms > OVERUSE_MS and self.m_ms >= before:
            self.signal = OVERUSE


class Gcc:
    """rate: bytes a second, the lower of both controls."""

    def __init__(self) -> None:
        self.rate = self._by_loss = FIRST_RATE
        self.slope = DelaySlope()
        self._rtt = SmoothedRtt()
        # when its first packet left, when its last did, and when that arrived
        self._group = self._before = (-inf, -inf, -inf)
        self._arrived: deque[tuple[float, int]] = deque()
        self._counted: deque[tuple[float, int, int]] = deque()
        self._started, self._at = True, -inf
        # mean and variance of the rate at which overuse was found; 0: none yet
        self._near, self._near_square = 0.0, 0.0
        self._loss_at = -inf

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Put the packet into its group; each new group ends a measurement."""
        del delivered
        self._rtt.add(rtt)
        self._arrived.append((now, bytes))
        self._counted.append((now, 1, 0))
        left = now - rtt
        if left - self._group[0] <= BURST_S:
            self._group = (self._group[0], left, now)
            return
        if self._before[0] > -inf:
            departed, arrived = (new - old for new, old in zip(self._group[1:], self._before[1:], strict=True))
            self.slope.add(1e3 * (arrived - departed), 1e3 * arrived)
        self._before, self._group = self._group, (left, left, now)

    def on_loss(self, now: float, n: int) -> None:
        """Count the losses."""
        self._counted.append((now, 0, n))

    def on_tick(self, now: float) -> SendingLimit:
        """Move the rate by the time that has passed. The window is what the rate sends in a second and a round trip."""
        since = min(1.0, now - self._at) if self._at > -inf else 0.0
        self._at = now
        while self._arrived and self._arrived[0][0] < now - RECEIVED_SPAN_S:
            self._arrived.popleft()
        received = sum(size for _, size in self._arrived) / RECEIVED_SPAN_S
        self._by_delay(since, received)
        self.rate = min(self.rate, self._by_loss)
        self._consider_loss(now)
        self.rate = max(LEAST_RATE, min(self.rate, self._by_loss))
        return SendingLimit(max(2.0 * PACKET_BYTES, self.rate * (1 + self._rtt.smoothed_s)), self.rate)

    def _by_delay(self, since: float, received: float) -> None:
        if self.slope.signal == OVERUSE and received:
            self._started = False
            if abs(received - self._near) > NEAR_DEVIATIONS * self._near_square**0.5:
                self._near, self._near_square = received, (0.1 * received) ** 2
            self._near_square += NEAR_WEIGHT * ((received - self._near) ** 2 - self._near_square)
            self._near += NEAR_WEIGHT * (received - self._near)
            self.rate, self.slope.signal = min(self.rate, BETA * received), UNDERUSE
        elif self.slope.signal == NORMAL:
            grown = self.rate * (FIRST_ETA if self._started else ETA) ** since
            if self._near and abs(received - self._near) < NEAR_DEVIATIONS * self._near_square**0.5:
                grown = self.rate + 0.5 * PACKET_BYTES * since / (0.1 + self._rtt.smoothed_s)
            self.rate = max(self.rate, min(grown, 1.5 * received + PACKET_BYTES)) if received else self.rate

    def _consider_loss(self, now: float) -> None:
        """Set the limit by loss, once a second, from the packets of that second."""
        if now < self._loss_at + LOSS_SPAN_S:
            return
        self._loss_at = now
        arrived, lost = (sum(one[column] for one in self._counted) for column in (1, 2))
        self._counted.clear()
        share = lost / (arrived + lost) if arrived + lost else 0.0
        if share > HIGH_LOSS:
            self._by_loss = self.rate * (1 - share / 2)
        else:
            self._by_loss = inf if share < LOW_LOSS else self.rate
