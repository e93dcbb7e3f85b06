# SPDX-License-Identifier: MIT
"""Verus: a window read off a learned profile of delay by window.

Question   Which window keeps the delay bounded on a cellular link whose rate changes faster than AIMD can follow?
Method     The sender learns each packet's delay by the window under which it left: the delay profile f(W). Each 5 ms
           (an epoch) it takes the largest delay of the epoch, smoothed, and sets
               D_est -= 2 ms                  if D_max / D_min > R
               D_est  = max(D_min, D_est - 1 ms)   if the delay grew
               D_est += 2 ms                  else
           The window is f's inverse at D_est. The profile is computed anew each second. A loss sets the window to half
           of the one under which the packet left. Then the window grows by 1 / W on each acknowledgement and the
           profile rests, until packets that left after the loss are acknowledged.
Stop when  never. Slow start doubles until a loss, or a delay of 15 times the least.
Reads as   delays around R times the least (R = 2): the window whose round trip is D_min * R.
Fails as   a profile that was learned at a bad moment holds the window until it is computed anew; with R = 2 delay
           stays at twice the least even where the least would do. Two flows in one queue learn the delay of both, so
           any two windows that make it are at rest: only losses bring their shares nearer to each other.
Differs    from the paper: f is linear between learned points, made to ascend, and grows by the last slope beyond them
           (a spline there); points of five seconds ago are forgotten; D_est is R D_min at most, and a loss makes f
           forget the windows above the half: otherwise a queue too short for R would wind D_est up and flatten f; the
           scheme gives a window instead of packets an epoch, which is the same once a round trip has passed.
Source     Zaki and others, SIGCOMM 2015, section 4
"""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.scheme import INITIAL_CWND, LEAST_CWND, PACKET_BYTES, SendingLimit

EPOCH_S, PROFILE_EVERY_S = 0.005, 1.0
STEP_DOWN_S, STEP_S, MOST_RATIO = 0.001, 0.002, 2.0
# Smoothing of an epoch's largest delay, and of the profile's points.
DELAY_WEIGHT, PROFILE_WEIGHT = 0.3, 0.2
SLOW_START_RATIO, AFTER_LOSS = 15.0, 0.5
# A point that no packet confirmed for so long is forgotten: the path has changed.
FRESH_S = 5.0
# Windows of so many epochs are remembered: ten seconds; one epoch raises the window by at most this factor.
EPOCHS, MOST_GROWTH = 2000, 1.25


class Verus:
    """window: packets."""

    def __init__(self) -> None:
        self.window = INITIAL_CWND / PACKET_BYTES
        self._least_s, self._estimate_s = inf, 0.0
        self._smoothed_s, self._epoch_most_s = 0.0, 0.0
        # by window: the delay, and when a packet last confirmed it
        self._points: dict[int, tuple[float, float]] = {}
        self._profile: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._history: deque[tuple[float, float]] = deque(maxlen=EPOCHS)
        self._slow_start, self._recovers_until = True, -inf
        self._epoch_ends = self._profile_ends = -inf
        self._left = -inf

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Learn the delay of the window under which the packet left."""
        del delivered, bytes
        self._left = now - rtt
        self._least_s = min(self._least_s, rtt)
        self._epoch_most_s = max(self._epoch_most_s, rtt)
        if self._left < self._recovers_until:
            self.window += 1 / self.window
            return
        if self._slow_start:
            self.window += 1
            if rtt > SLOW_START_RATIO * self._least_s:
                self._leave_slow_start(now)
        point = int(self._window_at(self._left))
        known, _ = self._points.get(point, (rtt, now))
        self._points[point] = (known + PROFILE_WEIGHT * (rtt - known), now)

    def on_loss(self, now: float, n: int) -> None:
        """Halve the window under which the packet left, once until recovery ends."""
        del n
        if self._left >= self._recovers_until:
            self._leave_slow_start(now)
            self.window = max(2.0, AFTER_LOSS * self._window_at(self._left))
            self._recovers_until = self._profile_ends = now
            self._points = {point: known for point, known in self._points.items() if point <= self.window}

    def on_tick(self, now: float) -> SendingLimit:
        """Choose the next window once an epoch; return the present one."""
        if now >= self._epoch_ends:
            self._epoch_ends = now + EPOCH_S
            if not self._slow_start and self._left >= self._recovers_until and self._epoch_most_s:
                self._estimate(now)
            self._epoch_most_s = 0.0
            self._history.append((now, self.window))
        return SendingLimit(max(LEAST_CWND, self.window * PACKET_BYTES), inf)

    def _leave_slow_start(self, now: float) -> None:
        if self._slow_start:
            self._slow_start = False
            self._estimate_s = self._smoothed_s = MOST_RATIO * self._least_s
            self._profile_ends = now

    def _estimate(self, now: float) -> None:
        before = self._smoothed_s
        self._smoothed_s += DELAY_WEIGHT * (self._epoch_most_s - self._smoothed_s)
        if self._smoothed_s / self._least_s > MOST_RATIO:
            self._estimate_s -= STEP_S
        elif self._smoothed_s > before:
            self._estimate_s -= STEP_DOWN_S
        else:
            self._estimate_s += STEP_S
        self._estimate_s = min(max(self._least_s, self._estimate_s), MOST_RATIO * self._least_s)
        if now >= self._profile_ends and self._points:
            self._profile_ends = now + PROFILE_EVERY_S
            self._learn_profile(now)
        if self._profile:
            self.window = min(max(2.0, self._inverse(self._estimate_s)), self.window * MOST_GROWTH)

    def _learn_profile(self, now: float) -> None:
        fresh = sorted((point, delay) for point, (delay, at) in self._points.items() if at > now - FRESH_S)
        self._points = {point: self._points[point] for point, _ in fresh}
        if fresh:
            windows, delays = np.array(fresh, float).T
            self._profile = (windows, np.maximum.accumulate(delays))

    def _inverse(self, delay_s: float) -> float:
        """Return the largest window whose delay is at most this."""
        assert self._profile
        windows, delays = self._profile
        at = int(np.searchsorted(delays, delay_s, "right"))
        if at == 0:
            return float(windows[0]) * delay_s / float(delays[0])
        if at == len(windows):
            return float(windows[-1]) * delay_s / float(delays[-1])
        share = (delay_s - delays[at - 1]) / (delays[at] - delays[at - 1])
        return float(windows[at - 1] + share * (windows[at] - windows[at - 1]))

    def _window_at(self, left: float) -> float:
        """Return the window at the moment when a packet left."""
        for at, window in reversed(self._history):
            if at <= left:
                return window
        return self.window
