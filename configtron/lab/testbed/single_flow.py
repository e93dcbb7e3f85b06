# SPDX-License-Identifier: MIT
"""One flow of one scheme of user space over a testbed, alone, acknowledgement by acknowledgement. In the guest.

    testbed = raise_testbed(condition, [ORIGIN], player=program)
    log = run_flow(testbed, player.datagrams(program), FixedWindow(80), duration_s=10)
    log.mbit(2.0), np.percentile(log.rtt_s, 95)

Reads as   `FlowLog`: arrays, a row an acknowledgement, in the order they came. The scheme is any object with the
           methods of `schemes/scheme.py`, which may keep a log of its own.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme, SendingLimit
from configtron.lab.testbed.datagrams import DatagramLoop, open_ends
from configtron.lab.testbed.echo import attach
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed
from configtron.lab.testbed.player import echo
from configtron.lab.testbed.wires import CLIENT_DEVICE, FAR

PORT = 7000
# Whatever is under way when a flow ends has arrived, or is lost, before the next one begins.
REST_S = 0.5


@dataclass(frozen=True)
class FlowLog:
    """at_s, rtt_s: of each acknowledgement, since the flow began; lost_at_s: of each loss; sent: packets."""

    at_s: NDArray[np.float64]
    rtt_s: NDArray[np.float64]
    lost_at_s: NDArray[np.float64]
    sent: int
    duration_s: float

    def mbit(self, from_s: float = 0.0) -> float:
        """Return what was acknowledged from a moment on, a second."""
        return float((self.at_s >= from_s).sum() * PACKET_BYTES * 8e-6 / (self.duration_s - from_s))


class NotedScheme:
    """A scheme whose calls are noted, as a `FlowLog` has them."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.acknowledged: list[tuple[float, float]] = []
        self.lost_at: list[float] = []

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        self.acknowledged.append((now, rtt))
        self.scheme.on_ack(now, rtt, delivered, bytes)

    def on_loss(self, now: float, n: int) -> None:
        self.lost_at += [now] * n
        self.scheme.on_loss(now, n)

    def on_tick(self, now: float) -> SendingLimit:
        return self.scheme.on_tick(now)

    def log(self, sent: int, duration_s: float) -> FlowLog:
        """Return what was noted."""
        at_s, rtt_s = np.array(self.acknowledged, np.float64).reshape(-1, 2).T
        return FlowLog(at_s, rtt_s, np.array(self.lost_at, np.float64), sent, duration_s)


def run_flow(testbed: Testbed, library: Path, scheme: Scheme, duration_s: float) -> FlowLog:
    """Send for so many seconds of the guest's clock. The testbed's condition is as it is."""
    noted = NotedScheme(scheme)
    played = testbed.condition is not None and testbed.condition.is_played
    attach(echo(library), CLIENT, FAR if played else CLIENT_DEVICE)
    with closing(open_ends(SERVERS, CLIENT, (next(iter(testbed.addresses.values())), PORT))) as ends:
        loop = DatagramLoop(library)
        flow = loop.add(noted, ends)
        with testbed.changing():
            flow.begin()
            loop.run(flow.next_ns + round(duration_s * 1e9))
        time.sleep(REST_S)
    return noted.log(flow.state.sent, duration_s)
