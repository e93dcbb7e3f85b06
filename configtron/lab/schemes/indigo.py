# SPDX-License-Identifier: MIT
"""Indigo: a small network, trained by imitation of the best window, chooses one of five steps of the window.

Question   Can a congestion control be learned from emulated links whose best window is known?
Method     Each acknowledgement adds to means, each new value by an eighth:
           queueing = RTT - least RTT,   delivery rate = (delivered now - when the packet left) / (the time between),
           sending rate = bytes that left since the packet did / RTT
           Every 10 ms the means, the window and the last action go through one LSTM layer of 32 units and a linear one
           of five, and the largest of the five is the action: window / 2, - 10, + 0, + 10 packets, * 2. The means
           begin anew with each step.
Stop when  never.
Reads as   a window near bandwidth times least RTT, as the search over fixed windows finds it (docs/studies.md).
Fails as   paths unlike those that it was trained on. The base of queueing is the least RTT seen: a flow that begins on
           a full queue takes that for the path's own, and losses change nothing by themselves.
Differs    from Indigo: trained here; inputs are logarithms; the window has at most 5 000 packets; what left since a
           packet did is what the window had under way, since data never ends.
Source     Yan and others, USENIX ATC 2018, section 4
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

from configtron.lab.schemes.indigo_network import ACTIONS, LEAST_WINDOW, MOST_WINDOW, NO_CHANGE, StepState
from configtron.lab.schemes.scheme import INITIAL_CWND, PACKET_BYTES, SendingLimit

STEP_S = 0.010
# Of a mean, to each new value.
NEW_SHARE = 0.125
BIT_TO_MBIT = 8e-6


class Indigo:
    """One flow's window. choose: the action by a step's state; window: packets."""

    def __init__(self, choose: Callable[[StepState], int]) -> None:
        self._choose = choose
        self.window = INITIAL_CWND / PACKET_BYTES
        self._last_action = NO_CHANGE
        self._least_s, self._step_began, self._under_way = inf, -inf, 0
        # queueing in ms, rates of delivery and of sending in Mbit/s
        self._means: tuple[float, float, float] | None = None
        # moments, and what was delivered by then; the first is of the departure of the next acknowledged packet
        self._delivered: deque[tuple[float, int]] = deque()

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Add to the means; take a step when it is time."""
        del bytes
        self._under_way = max(0, self._under_way - 1)
        self._least_s = min(self._least_s, rtt)
        self._add(now, rtt, delivered)
        if self._step_began == -inf:
            self._step_began = now
        if now - self._step_began >= STEP_S:
            self._step(now)

    def on_loss(self, now: float, n: int) -> None:
        """Count what is no longer under way: nothing else."""
        del now
        self._under_way = max(0, self._under_way - n)

    def on_tick(self, now: float) -> SendingLimit:
        """Return the window: the sender fills it at once."""
        del now
        self._under_way = max(self._under_way, int(self.window))
        return SendingLimit(self.window * PACKET_BYTES, inf)

    def _add(self, now: float, rtt: float, delivered: int) -> None:
        """Add an acknowledgement's values to the means."""
        history, left = self._delivered, now - rtt
        if not history:
            history.append((left, 0))
        while len(history) > 1 and history[1][0] <= left:
            history.popleft()
        before, had = history[0]
        rate = (delivered - had) / (now - before) if now > before else 0.0
        sending = self._under_way * PACKET_BYTES / rtt if rtt > 0 else 0.0
        values = ((rtt - self._least_s) * 1e3, rate * BIT_TO_MBIT, sending * BIT_TO_MBIT)
        one, two, three = (
            mean + NEW_SHARE * (value - mean) for mean, value in zip(self._means or values, values, strict=True)
        )
        self._means = one, two, three
        history.append((now, delivered))

    def _step(self, now: float) -> None:
        assert self._means, "an acknowledgement came before"
        state = StepState(*self._means, self.window, self._last_action)
        self._last_action = self._choose(state)
        self.window = min(max(ACTIONS[self._last_action](self.window), LEAST_WINDOW), MOST_WINDOW)
        self._means, self._step_began = None, now
