# SPDX-License-Identifier: MIT
"""A sender of unlimited data in datagrams under any scheme: when the next one may leave, which are lost. Pure.

    sender = DatagramSender(scheme)
    while sender.due(now) <= now: number = sender.send(now)     the caller sends this packet
    sender.acknowledge(now, number, sent_at)                    for each packet that the receiver echoed
    sender.wake(now)                                            after acknowledgements, and by sender.wake_by

Question   When may a flow send its next packet, and which packets are lost, under any scheme and without sockets?
Method     Each datagram has a number of its own and none is sent twice. One that is three numbers or more before an
           acknowledged one is lost (kPacketThreshold of RFC 9002). When nothing is acknowledged for a timeout, all that
           is under way is lost, and timeouts double until an acknowledgement comes. One packet may always be under
           way.
Reads as   `due`, `wake_by`: seconds of the caller's clock. The pacing rate sets the time between packets. A late sender
           catches up by at most `CATCH_UP_S`, so that a timer's error does not lower the rate. No flow is faster than
           its host's line.
Differs    from TCP: nothing is retransmitted; every packet is acknowledged by itself.
Source     RFC 9002 section 6.1.1; RFC 6298 section 5
"""

from __future__ import annotations

from collections import deque
from math import inf

from configtron.lab.schemes.measured_rtt import SmoothedRtt
from configtron.lab.schemes.scheme import PACKET_BYTES, TICK_S, Scheme

# A missing packet is lost once one that many numbers later is acknowledged: kPacketThreshold.
REORDERED = 3
# Timers of Linux are late by 50 us (PR_SET_TIMERSLACK); a busy program by more.
CATCH_UP_S = 0.001
# A host's own line: 400 Mbit/s, several times the fastest path. Without it a scheme that finds no queue (Copa behind a
# policer) has no bound at all. Shorter bursts than `CATCH_UP_S` of it, 33 packets, leave at once.
LINE_RATE = 5e7
# Timeouts double so often at most, to 64 times the first.
MOST_DOUBLED = 6


class DatagramSender:
    """One flow. sent, lost: packets; delivered: bytes."""

    def __init__(self, scheme: Scheme, packet_bytes: int = PACKET_BYTES) -> None:
        self.scheme = scheme
        self.sent = self.delivered = self.lost = 0
        self._packet_bytes = packet_bytes
        self._under_way: deque[int] = deque()
        self._rtt = SmoothedRtt()
        self._doubled = 0
        self._progress_at = self._paced_from = -inf
        self._cwnd = self._pacing_rate = inf
        self._next_tick = -inf

    def due(self, now: float) -> float:
        """Return when the next packet may leave: now or earlier means at once, `inf` that the window is full."""
        waiting = len(self._under_way)
        if waiting and (waiting + 1) * self._packet_bytes > self._cwnd:
            return inf
        return self._paced_from + self._packet_bytes / self._pacing_rate

    def send(self, now: float) -> int:
        """Count a packet as sent; return its number."""
        if not self._under_way:
            self._progress_at = now
        self._paced_from = max(self._paced_from + self._packet_bytes / self._pacing_rate, now - CATCH_UP_S)
        self._under_way.append(self.sent)
        self.sent += 1
        return self.sent - 1

    def acknowledge(self, now: float, number: int, sent_at: float) -> None:
        """Count an acknowledgement; ignore one of a packet that was given up."""
        waiting = self._under_way
        lost = 0
        while waiting and waiting[0] <= number - REORDERED:
            waiting.popleft()
            lost += 1
        if lost:
            self._lose(now, lost)
        if not waiting or number < waiting[0] or not _removed(waiting, number):
            return
        self._progress_at, self._doubled = now, 0
        self._rtt.add(now - sent_at)
        self.delivered += self._packet_bytes
        self.scheme.on_ack(now, now - sent_at, self.delivered, self._packet_bytes)

    def wake(self, now: float) -> None:
        """Give up all packets after a timeout; ask the scheme for its limits."""
        if self._under_way and now >= self._give_up_at:
            lost = len(self._under_way)
            self._under_way.clear()
            self._doubled = min(self._doubled + 1, MOST_DOUBLED)
            self._lose(now, lost)
        self._cwnd, pacing_rate = self.scheme.on_tick(now)
        self._pacing_rate = min(pacing_rate, LINE_RATE)
        self._next_tick = now + TICK_S

    @property
    def wake_by(self) -> float:
        """Return when `wake` must be called at the latest."""
        return min(self._next_tick, self._give_up_at if self._under_way else inf)

    @property
    def _give_up_at(self) -> float:
        return self._progress_at + self._rtt.timeout_s * (1 << self._doubled)

    def _lose(self, now: float, count: int) -> None:
        self.lost += count
        self.scheme.on_loss(now, count)


def _removed(waiting: deque[int], number: int) -> bool:
    """Remove a number; return false if it is not there. Nearly always it is the first."""
    if waiting[0] == number:
        waiting.popleft()
        return True
    try:
        waiting.remove(number)
    except ValueError:
        return False
    return True
