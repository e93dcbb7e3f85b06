# SPDX-License-Identifier: MIT
"""A flow of datagrams between two sockets, under a congestion control of user space.

    flow = DatagramFlow(made("copa", rng), sender, receiver)     two connected sockets that do not block
    flow.send()                                                  the first packets
    flow.take_acknowledgements(); flow.echo()                    when `sender`, or `receiver`, can be read
    flow.send()                                                  not later than `flow.next_at`

Question   What does a scheme that no kernel has make of a path, beside those that kernels have?
Method     Each datagram has its number and the moment it left in its first bytes; the receiver sends these bytes back
           at once, one acknowledgement a packet. What to send when is `schemes/sending.py`; this file moves bytes and
           reads the clock.
Reads as   packets on the wire, which taps log as they log TCP's (`tap.py`): a packet of 1 500 bytes has its number
           where a tap reads it.
Fails as   a datagram that the socket does not take is lost like any other.
Differs    from Pantheon's programs: one sender and one receiver for all schemes; the sender's clock is the receiver's.
Source     Indigo's datagrams (Yan and others 2018) carry the same; udp(7)
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from math import inf

from configtron.schemes.scheme import PACKET_BYTES, Scheme
from configtron.schemes.sending import DatagramSender

# A packet's number, from which 32 bits count on; seconds of the monotonic clock.
HEADER = struct.Struct("!Id")
NUMBERS = 1 << 32
# IP's and UDP's headers.
HEADERS_BYTES = 28
PADDING = bytes(PACKET_BYTES - HEADERS_BYTES - HEADER.size)
# Room for two seconds at 100 Mbit/s: what waits for this program is not the path's loss.
BUFFER_BYTES = 1 << 25
# asm-generic/socket.h: without the limits of net.core.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33


class DatagramFlow:
    """next_at: when `send` is due, on the monotonic clock."""

    def __init__(self, scheme: Scheme, sender: socket.socket, receiver: socket.socket) -> None:
        self._state = DatagramSender(scheme)
        self._sender, self._receiver = sender, receiver
        self.next_at = inf
        for one in (sender, receiver):
            for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
                one.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)

    def send(self) -> None:
        """Send what may be sent now."""
        state, send, pack = self._state, self._sender.send, HEADER.pack
        now = time.monotonic()
        state.wake(now)
        while (due := state.due(now)) <= now:
            number = state.send(now)
            with suppress(BlockingIOError, ConnectionRefusedError):
                send(pack(number % NUMBERS, now) + PADDING)
        self.next_at = min(due, state.wake_by)

    def take_acknowledgements(self) -> None:
        """Read those that are there, and send what they allow."""
        receive, unpack, acknowledge = self._sender.recv, HEADER.unpack, self._state.acknowledge
        with suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                number, sent_at = unpack(receive(HEADER.size))
                # the number of 32 bits that is nearest below what was sent
                sent = self._state.sent
                acknowledge(time.monotonic(), sent - (sent - number) % NUMBERS, sent_at)
        self.send()

    def echo(self) -> None:
        """Acknowledge each packet that has arrived."""
        receive, send = self._receiver.recv, self._receiver.send
        with suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                send(receive(HEADER.size))
