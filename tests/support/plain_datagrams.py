# SPDX-License-Identifier: MIT
"""Flows of datagrams by Python alone, a call a packet: what `datagrams.py` of the testbed must do, written plainly.

    log = run_plainly(testbed, scheme, duration_s=10)      as configtron/lab/testbed/single_flow.run_flow does

Differs    from the product's loop: the clock is read for each acknowledgement, and timers are whole microseconds.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from contextlib import suppress
from math import ceil

from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme
from configtron.lab.schemes.sending import DatagramSender
from configtron.lab.testbed.datagrams import BUFFER_BYTES, SO_RCVBUFFORCE, SO_SNDBUFFORCE
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed
from configtron.lab.testbed.single_flow import REST_S, FlowLog, NotedScheme
from configtron.lab.testbed.tap import UDP_HEADERS_BYTES
from configtron.linux.netns import inside

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
