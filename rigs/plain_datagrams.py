# SPDX-License-Identifier: MIT
"""A flow of datagrams between two sockets, under a congestion control of user space.

    flow = DatagramFlow(made("copa", rng), sender, receiver)     two connected sockets that do not block
    flow.send()                                                  the first packets
    flow.take_acknowledgements(); flow.echo()                    when `sender`, or `receiver`, can be read
    flow.send()                                                  not later than `flow.next_ns`

Question   What does a scheme of user space make of the same path and the same wire as the kernel's schemes?
Method     The first bytes of each datagram are its number and the moment when it left. The receiver sends these bytes
           back at once, one acknowledgement a packet. `schemes/sending.py` decides what to send when; this file moves
           bytes and reads the clock.
Reads as   packets of 1 500 bytes on the wire, which taps log as they log TCP's: a tap reads the number (`tap.py`).
Fails as   a datagram that the socket does not take is lost like any other.
Differs    from Pantheon's programs: one sender and one receiver for all schemes; the sender's clock is the receiver's.
Source     Indigo's datagrams (Yan and others 2018), which carry the same fields; udp(7)
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from math import ceil

from configtron.lab.testbed.tap import UDP_HEADERS_BYTES
from configtron.schemes.scheme import PACKET_BYTES, Scheme
from configtron.schemes.sending import DatagramSender

# A packet's number modulo 2^32; the moment when it left, seconds of the flow's clock.
HEADER = struct.Struct("!Id")
NUMBERS = 1 << 32
PADDING = bytes(PACKET_BYTES - UDP_HEADERS_BYTES - HEADER.size)
# Room for two seconds at 100 Mbit/s: packets that wait for this program must not count as losses of the path.
BUFFER_BYTES = 1 << 25
# asm-generic/socket.h: without the limits of net.core.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33


class DatagramFlow:
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

    def echo(self) -> None:
        """Acknowledge each packet that has arrived."""
        receive, send = self._receiver.recv, self._receiver.send
        with suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                send(receive(HEADER.size))
