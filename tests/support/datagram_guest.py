# SPDX-License-Identifier: MIT
"""In the lab's guest: the same flow by Python alone, by the library, and by the library with the kernel's echo.

    python -m tests.support.datagram_guest PLAYER SECONDS KIND...  kinds: RUNS; PLAYER: player.program(), built outside

The output folder gets KIND-LOAD.npz for each kind and load: acknowledgements, round trips, losses, packets sent.
"""

from __future__ import annotations

import select
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil, inf
from pathlib import Path

import numpy as np

from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme, SendingLimit
from configtron.lab.schemes.sending import DatagramSender
from configtron.lab.testbed import player
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.datagrams import BUFFER_BYTES, SO_RCVBUFFORCE, SO_SNDBUFFORCE
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.single_flow import REST_S, FlowLog, NotedScheme, run_flow
from configtron.lab.testbed.tap import UDP_HEADERS_BYTES
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.linux.netns import inside

# Flows of datagrams by Python alone, a call a packet: what `datagrams.py` of the testbed must do, written plainly.

# A packet's number modulo 2^32; the moment when it left, seconds of the flow's clock.
HEADER = struct.Struct("!Id")
NUMBERS = 1 << 32
PADDING = bytes(PACKET_BYTES - UDP_HEADERS_BYTES - HEADER.size)
PORT = 7000


class PlainFlow:
    """next_ns: when `send` is due, on the monotonic clock; None before the first.

    The clock of a flow begins with the flow, in whole nanoseconds: the same flow has the same times at any hour.
    """

    def __init__(self, scheme: Scheme, sender: socket.socket, receiver: socket.socket) -> None:
        self._state = DatagramSender(scheme)
        self._sender, self._receiver = sender, receiver
        self.next_ns: int | None = None
        self._began_ns = 0
        for one in (sender, receiver):
            for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
                one.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)

    def send(self) -> None:
        """Send what may be sent now; the first call begins the flow."""
        if self.next_ns is None:
            self._began_ns = time.monotonic_ns()
        state, send, pack = self._state, self._sender.send, HEADER.pack
        now = self._now()
        state.wake(now)
        while (due := state.due(now)) <= now:
            number = state.send(now)
            with suppress(BlockingIOError, ConnectionRefusedError):
                send(pack(number % NUMBERS, now) + PADDING)
        # at least a nanosecond later: rounding must not make the caller ask again without end
        self.next_ns = self._began_ns + max(ceil(min(due, state.wake_by) * 1e9), round(now * 1e9) + 1)

    def take_acknowledgements(self) -> None:
        """Read the acknowledgements that have arrived, and send what they allow."""
        receive, unpack, acknowledge = self._sender.recv, HEADER.unpack, self._state.acknowledge
        with suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                number, sent_at = unpack(receive(HEADER.size))
                # the newest number below what was sent that has these 32 bits
                sent = self._state.sent
                acknowledge(self._now(), sent - (sent - number) % NUMBERS, sent_at)
        self.send()

    def _now(self) -> float:
        return (time.monotonic_ns() - self._began_ns) / 1e9

    @property
    def sent(self) -> int:
        """Return how many packets left."""
        return self._state.sent

    def echo(self) -> None:
        """Acknowledge each packet that has arrived."""
        receive, send = self._receiver.recv, self._receiver.send
        with suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                send(receive(HEADER.size))


def run_plainly(testbed: Testbed, scheme: Scheme, duration_s: float) -> FlowLog:
    """Send for so many seconds of the guest's clock."""
    noted = NotedScheme(scheme)
    with inside(SERVERS):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with inside(CLIENT):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender, receiver:
        sender.bind((next(iter(testbed.addresses.values())), PORT))
        receiver.connect(sender.getsockname())
        sender.connect(receiver.getsockname())
        for one in (sender, receiver):
            one.setblocking(False)
        flow = PlainFlow(noted, sender, receiver)
        _drive(flow, sender, receiver, time.monotonic_ns() + round(duration_s * 1e9))
        time.sleep(REST_S)
    return noted.log(flow.sent, duration_s)


def _drive(flow: PlainFlow, sender: socket.socket, receiver: socket.socket, end_ns: int) -> None:
    while (now := time.monotonic_ns()) < end_ns:
        if flow.next_ns is None or flow.next_ns <= now:
            flow.send()
        assert flow.next_ns is not None
        until = min(end_ns, flow.next_ns)
        ready, _, _ = select.select([sender, receiver], [], [], max(0, until - now) / 1e9)
        if sender in ready:
            flow.take_acknowledgements()
        if receiver in ready:
            flow.echo()


# 20 Mbit/s and 20 ms there and back: 33.3 packets fill the path, and 60 more may wait.
MBIT, WAY_MS, QUEUE_PACKETS = 20.0, 10.0, 60
EVEN = Condition("even", LinkDirection(MBIT * 1e3, WAY_MS, queue_packets=QUEUE_PACKETS), LinkDirection(delay_ms=WAY_MS))
# The player's: one packet in fifty is lost.
LOSSY = Condition("lossy", LinkDirection(6e3, WAY_MS, loss=0.02, kind="bursts"), LinkDirection(delay_ms=WAY_MS))


class Fixed:
    """Always the same allowance: what the loop makes of it is the loop's doing."""

    def __init__(self, packets: float = inf, mbit: float = inf) -> None:
        self.limit = SendingLimit(packets * PACKET_BYTES, mbit * 1.25e5)

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        pass

    def on_loss(self, now: float, n: int) -> None:
        pass

    def on_tick(self, now: float) -> SendingLimit:
        return self.limit


# What a scheme can ask for: a window below the path's, one that overflows the queue, a pace, a window under losses.
LOADS: dict[str, tuple[Condition, Callable[[], Scheme]]] = {
    "window": (EVEN, lambda: Fixed(packets=30)), "overflow": (EVEN, lambda: Fixed(packets=120)),
    "paced": (EVEN, lambda: Fixed(mbit=15.0)), "lossy": (LOSSY, lambda: Fixed(packets=15)),
}  # fmt: skip


def library_alone(program: Path) -> Path:
    """Return the library in a folder without the echo's program."""
    return Path(shutil.copy(player.datagrams(program), tempfile.mkdtemp()))


RUNS: dict[str, Callable[[Testbed, Path, Scheme, float], FlowLog]] = {
    "plain": lambda testbed, _, scheme, seconds: run_plainly(testbed, scheme, seconds),
    "library": lambda testbed, program, scheme, seconds: run_flow(testbed, library_alone(program), scheme, seconds),
    "echo": lambda testbed, program, scheme, seconds: run_flow(testbed, player.datagrams(program), scheme, seconds),
}


def main(arguments: Sequence[str]) -> int:
    """Each kind with each load."""
    program, seconds, kinds = Path(arguments[0]), float(arguments[1]), arguments[2:]
    testbed = raise_testbed(EVEN, ["a.test"], player=program)
    try:
        for kind in kinds:
            for name, (condition, make) in LOADS.items():
                testbed.change(condition, seed=1)
                log = RUNS[kind](testbed, program, make(), seconds)
                np.savez(
                    Path(GUEST_OUTPUT, f"{kind}-{name}.npz"),
                    at_s=log.at_s, rtt_s=log.rtt_s, lost_at_s=log.lost_at_s, sent=log.sent,
                )  # fmt: skip
    finally:
        testbed.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
