# SPDX-License-Identifier: MIT
"""What became of each packet of a flow, from two logs, and a flow's metrics out of that. Pure: logs are arguments.

Question   How fast was a flow, how late its packets, how many were lost, when every packet is logged at both ends?
Method     IP numbers a connection's packets one after another, in sixteen bits: the number, counted on through its
           wraps, names a packet, a retransmission too. What left and did not arrive was lost. Sequence numbers must
           agree, or the logs are not of one flow.
Reads as   `FlowMetrics`: throughput of all that arrived, IP's headers and retransmissions too, over the time counted,
           Pantheon counts; the delay that 95 % of the packets stayed under; the share lost; power, which is the natural
           logarithm of throughput in Mbit/s over that delay in ms (Kleinrock's power, as Pantheon plots it).
Fails as   `Mismatch` for logs that do not belong together; a flow without an arrival has a reason.
Differs    from Pantheon: its tunnel numbers packets itself and adds 28 bytes to each; its clocks are synchronised by
           NTP, ours are one.
Source     Pantheon (Yan and others 2018), section 3.2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from configtron.model.errors import Mismatch

# Half the numbers there are: a step is read as the shortest way from one number to the next.
HALF = 1 << 15
LATE = 0.95
SILENT = "no-packet-arrived"


class Transits(NamedTuple):
    """A flow's packets in the order they were sent; arrived_ns is -1 for what was lost."""

    sent_ns: NDArray[np.int64]
    arrived_ns: NDArray[np.int64]
    length: NDArray[np.int64]

    @property
    def arrived(self) -> NDArray[np.bool_]:
        """Which of them arrived."""
        found: NDArray[np.bool_] = self.arrived_ns >= 0
        return found


@dataclass(frozen=True, slots=True)
class FlowMetrics:
    """mbit: per second; late_ms: of one way, 95th percentile; loss: a fraction; bytes: arrived; sent: packets.

    reason   "" or why there is no throughput or delay
    """

    mbit: float
    late_ms: float
    loss: float
    bytes: int
    sent: int
    reason: str = ""

    @property
    def power(self) -> float:
        """ln(Mbit/s / ms); NaN where nothing arrived."""
        return math.log(self.mbit / self.late_ms) if self.mbit > 0 and self.late_ms > 0 else math.nan


def transits(sent: NDArray[np.void], arrived: NDArray[np.void]) -> Transits:
    """Match two logs (`tap.PACKET`) of one flow's data. Errors: `Mismatch`."""
    numbers = unwrapped(sent["number"])
    came = np.full(len(sent), -1, np.int64)
    if len(arrived):
        if not len(sent):
            raise Mismatch(f"{len(arrived)} packets arrived of a flow that sent none")
        first = (int(arrived["number"][0]) - int(sent["number"][0])) % (2 * HALF)
        sought = unwrapped(arrived["number"]) + first
        places = np.searchsorted(numbers, sought).clip(max=len(numbers) - 1)
        if (numbers[places] != sought).any() or (sent["sequence"][places] != arrived["sequence"]).any():
            raise Mismatch("two logs do not belong together: a packet arrived that was not sent")
        came[places] = arrived["at_ns"]
    return Transits(sent["at_ns"].astype(np.int64), came, sent["length"].astype(np.int64))


def unwrapped(numbers: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return numbers of sixteen bits counted on from 0, whatever the first is."""
    wide = numbers.astype(np.int64)
    steps: NDArray[np.int64] = np.diff(wide, prepend=wide[:1])
    return np.cumsum((steps + HALF) % (2 * HALF) - HALF)


def flow_metrics(found: Transits, from_ns: int, to_ns: int) -> FlowMetrics:
    """Of what was sent from one moment to another; throughput of what arrived between them."""
    counted = (found.sent_ns >= from_ns) & (found.sent_ns < to_ns)
    sent, arrived = int(counted.sum()), counted & found.arrived
    within = found.arrived & (found.arrived_ns >= from_ns) & (found.arrived_ns < to_ns)
    carried = int(found.length[within].sum())
    if not arrived.any():
        return FlowMetrics(0.0, math.nan, 1.0 if sent else 0.0, carried, sent, SILENT)
    late = np.percentile(found.arrived_ns[arrived] - found.sent_ns[arrived], 100 * LATE) / 1e6
    loss = 1 - int(arrived.sum()) / sent
    return FlowMetrics(carried * 8e3 / (to_ns - from_ns), float(late), loss, carried, sent)
