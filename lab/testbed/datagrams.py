# SPDX-License-Identifier: MIT
"""Flows of datagrams between pairs of sockets, each under a congestion control of user space.

    loop = DatagramLoop(library)                                  player.datagrams(program), built outside the guest
    flow = loop.add(made("copa", rng), sender, receiver)          two connected sockets that do not block
    flow.begin()
    loop.run(until_ns)                                            on the monotonic clock

Question   What does a scheme of user space make of the same path and the same wire as the kernel's schemes?
Method     The first bytes of each datagram are its number and the moment when it left. The receiver sends these bytes
           back at once, one acknowledgement a packet. `schemes/sending.py` decides what to send when; this file reads
           the clock, and `datagrams.c` moves bytes: it wakes this program for acknowledgements, never for a packet.
Reads as   packets of 1 500 bytes on the wire, which taps log as they log TCP's: a tap reads the number (`tap.py`).
Fails as   a datagram that the socket does not take is lost like any other.
Differs    from Pantheon's programs: one sender and one receiver for all schemes; the sender's clock is the receiver's.
Source     Indigo's datagrams (Yan and others 2018), which carry the same fields; udp(7)
"""

from __future__ import annotations

import ctypes
import socket
import time
from math import ceil
from pathlib import Path

from configtron.linux.netns import inside
from configtron.schemes.scheme import Scheme
from configtron.schemes.sending import DatagramSender

# Room for two seconds at 100 Mbit/s: packets that wait for this program must not count as losses of the path.
BUFFER_BYTES = 1 << 25
# asm-generic/socket.h: without the limits of net.core.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
# datagrams.c has the same.
BATCH = 64
# A flow that has not begun is due at no moment.
NEVER_NS = 1 << 62


class _Ends(ctypes.Structure):
    """datagrams.c: struct flow."""

    _fields_ = (
        ("sender", ctypes.c_int),
        ("receiver", ctypes.c_int),
        ("sent", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("number", ctypes.c_int64 * BATCH),
        ("sent_at", ctypes.c_double * BATCH),
    )


class DatagramFlow:
    """next_ns: when `send` is due, on the monotonic clock. state: what was sent, delivered and lost.

    The clock of a flow begins with the flow, in whole nanoseconds: the same flow has the same times at any hour.
    """

    def __init__(self, library: ctypes.CDLL, scheme: Scheme, sender: socket.socket, receiver: socket.socket) -> None:
        self.state = DatagramSender(scheme)
        self.next_ns = NEVER_NS
        self.ends = _Ends(sender.fileno(), receiver.fileno())
        self._transmit = library.send_packets
        self._began_ns = 0
        for one in (sender, receiver):
            for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
                one.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)

    def begin(self) -> None:
        """Begin: the first packets leave when the loop runs."""
        self._began_ns = self.next_ns = time.monotonic_ns()

    def send(self, now_ns: int) -> None:
        """Send what may be sent now."""
        state, now = self.state, (now_ns - self._began_ns) / 1e9
        state.wake(now)
        first = state.sent
        while (due := state.due(now)) <= now:
            state.send(now)
        if state.sent > first:
            self._transmit(ctypes.byref(self.ends), first, state.sent - first, ctypes.c_double(now))
        # at least a nanosecond later: rounding must not make the loop come back without end
        self.next_ns = self._began_ns + max(ceil(min(due, state.wake_by) * 1e9), round(now * 1e9) + 1)

    def take_acknowledgements(self, now_ns: int) -> None:
        """Count what the loop has read, and send what that allows."""
        count, acknowledge, now = self.ends.count, self.state.acknowledge, (now_ns - self._began_ns) / 1e9
        for number, sent_at in zip(self.ends.number[:count], self.ends.sent_at[:count], strict=True):
            acknowledge(now, number, sent_at)
        self.send(now_ns)


def connected_pair(sender_netns: str, receiver_netns: str, end: tuple[str, int]) -> tuple[socket.socket, socket.socket]:
    """Return a sender at `end` and its receiver: the kernel numbers the packets of a connected socket in order."""
    with inside(sender_netns):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with inside(receiver_netns):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind(end)
    receiver.connect(end)
    sender.connect(receiver.getsockname())
    for one in (sender, receiver):
        one.setblocking(False)
    return sender, receiver


class DatagramLoop:
    """Flows that share a thread."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.send_packets.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double)
        self._library.send_packets.restype = None
        self._flows: list[DatagramFlow] = []

    def add(self, scheme: Scheme, sender: socket.socket, receiver: socket.socket) -> DatagramFlow:
        """Return a flow that has not begun."""
        self._flows.append(DatagramFlow(self._library, scheme, sender, receiver))
        return self._flows[-1]

    def run(self, until_ns: int, also: int = -1) -> bool:
        """Drive all flows until a moment, or until the descriptor `also` can be read: then return true."""
        flows = self._flows
        ends = (ctypes.c_void_p * len(flows))(*(ctypes.addressof(flow.ends) for flow in flows))
        wait, moment = self._library.wait_for, ctypes.c_int64(time.monotonic_ns())
        now = moment.value
        while now < until_ns:
            for flow in flows:
                if flow.next_ns <= now:
                    flow.send(now)
            next_ns = ctypes.c_int64(min(until_ns, *[flow.next_ns for flow in flows]))
            is_ready = wait(ends, len(flows), also, next_ns, ctypes.byref(moment))
            now = moment.value
            for flow in flows:
                if flow.ends.count:
                    flow.take_acknowledgements(now)
            if is_ready:
                return True
        return False
