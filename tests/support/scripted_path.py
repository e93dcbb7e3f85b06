# SPDX-License-Identifier: MIT
"""A path in pure Python for schemes of user space: one bottleneck with a queue, delays, losses, on a virtual clock.

    logs = run(ScriptedPath(mbit=10, delay_s=0.02, queue_packets=100), [Starting(Copa()), Starting(Copa(), 5.0)], 30.0)
    logs[0].between(10, 30).mbit, .queueing_s, .loss

Question   Does a scheme settle where its paper's formula puts it, on a path without a machine's noise?
Method     Events in a heap. A packet joins a queue of whole packets, leaves at the bottleneck's rate of that moment,
           arrives after the delay; its acknowledgement comes back after the same delay, in order. Packets are lost
           when the queue is full, and by number or moment as the script has it.
Reads as   `FlowLog`: per acknowledged packet when it left, how long it queued, its round trip.
Differs    from a real link: no cost of a packet, no jitter, acknowledgements never queue.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme
from configtron.lab.schemes.sending import DatagramSender


@dataclass(frozen=True)
class ScriptedPath:
    """mbit: of the bottleneck, a number or a function of seconds; delay_s: one way; loses: by arrival and moment."""

    mbit: float | Callable[[float], float]
    delay_s: float = 0.02
    queue_packets: int = 1000
    loses: Callable[[int, float], bool] = lambda number, at: False

    def packet_s(self, at: float) -> float:
        """How long the bottleneck takes for a packet."""
        mbit = self.mbit(at) if callable(self.mbit) else self.mbit
        return PACKET_BYTES * 8e-6 / mbit


class Starting(NamedTuple):
    """A flow, and when it starts."""

    scheme: Scheme
    at: float = 0.0


class AcknowledgedPacket(NamedTuple):
    """Seconds; left: of the sender."""

    left: float
    queueing_s: float
    rtt_s: float
    acknowledged: float


class FlowFigures(NamedTuple):
    """Means over a span, and the longest wait in the queue; loss: of what came to the queue."""

    mbit: float
    queueing_s: float
    most_queueing_s: float
    loss: float


@dataclass
class FlowLog:
    """What became of a flow's packets."""

    sender: DatagramSender
    packets: list[AcknowledgedPacket] = field(default_factory=list)
    dropped_at: list[float] = field(default_factory=list)

    def between(self, first: float, last: float) -> FlowFigures:
        """Figures of what was acknowledged, or dropped, in these seconds."""
        got = [packet for packet in self.packets if first <= packet.acknowledged < last]
        lost = sum(first <= at < last for at in self.dropped_at)
        waits = [packet.queueing_s for packet in got] or [inf]
        mbit = len(got) * PACKET_BYTES * 8e-6 / (last - first)
        return FlowFigures(mbit, sum(waits) / len(waits), max(waits), lost / max(1, lost + len(got)))


@dataclass
class Link:
    """The bottleneck: departures of the packets that are in it."""

    path: ScriptedPath
    leaving: deque[float] = field(default_factory=deque)
    arrivals: int = 0

    def join(self, now: float) -> float:
        """Return when a packet that comes now leaves the bottleneck; `inf` if it is lost."""
        while self.leaving and self.leaving[0] <= now:
            self.leaving.popleft()
        number, self.arrivals = self.arrivals, self.arrivals + 1
        if len(self.leaving) > self.path.queue_packets or self.path.loses(number, now):
            return inf
        begins = max(now, self.leaving[-1] if self.leaving else now)
        self.leaving.append(begins + self.path.packet_s(begins))
        return self.leaving[-1]


def run(path: ScriptedPath, flows: Sequence[Starting], until: float) -> list[FlowLog]:
    """Drive all flows over one bottleneck."""
    link, logs = Link(path), [FlowLog(DatagramSender(flow.scheme)) for flow in flows]
    # moment, order of events of one moment, flow, acknowledged packet's number or -1, its log's row
    events: list[tuple[float, int, int, int, AcknowledgedPacket | None]] = []
    pending = [flow.at for flow in flows]
    order = 0
    for number, flow in enumerate(flows):
        heapq.heappush(events, (flow.at, order := order + 1, number, -1, None))
    while events and events[0][0] < until:
        now, _, number, acknowledged, packet = heapq.heappop(events)
        log = logs[number]
        if packet is not None:
            log.packets.append(packet)
            log.sender.acknowledge(now, acknowledged, packet.left)
        elif pending[number] != now:
            continue
        log.sender.wake(now)
        while log.sender.due(now) <= now:
            sent, leaves = log.sender.send(now), link.join(now)
            if leaves == inf:
                log.dropped_at.append(now)
                continue
            back = leaves + 2 * path.delay_s
            waited = leaves - path.packet_s(leaves) - now
            row = AcknowledgedPacket(now, max(0.0, waited), back - now, back)
            heapq.heappush(events, (back, order := order + 1, number, sent, row))
        pending[number] = min(log.sender.due(now), log.sender.wake_by)
        heapq.heappush(events, (pending[number], order := order + 1, number, -1, None))
    return logs
