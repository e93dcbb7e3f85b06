# SPDX-License-Identifier: MIT
"""Flows of datagrams between pairs of sockets, each under a congestion control of user space.

    ends = open_ends(SERVERS, CLIENT, (address, 7000))
    loop = DatagramLoop(library)                             player.datagrams(program), built outside the guest
    flow = loop.add(made("copa", rng), ends)
    flow.begin()
    loop.run(until_ns)                                       on the monotonic clock

Question   What does a scheme of user space make of the same path and the same wire as the kernel's schemes?
Method     The first bytes of each datagram are its number and the moment when it left. The receiver sends these bytes
           back at once, one acknowledgement a packet. `schemes/sending.py` decides what to send when. `datagrams.c`
           moves bytes and wakes this program for acknowledgements, never for a packet. Where the client's kernel runs
           `echo.bpf.c`, that program is the receiver. An acknowledgement has the moment when the kernel got it.
Reads as   packets of 1 500 bytes on the wire, which taps log as they log TCP's: a tap reads the number (`tap.py`).
Fails as   a datagram that the socket does not take is lost like any other.
Differs    from Pantheon's programs: one sender and one receiver for all schemes; the sender's clock is the receiver's.
Source     Indigo's datagrams (Yan and others 2018), which carry the same fields; udp(7)
"""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from math import ceil
from pathlib import Path

from configtron.lab.schemes.scheme import Scheme
from configtron.lab.schemes.sending import DatagramSender
from configtron.lab.testbed import tap
from configtron.lab.testbed.tap import BLOCK_BYTES, FRAME_BYTES
from configtron.linux import packet
from configtron.linux.netns import inside

# Room for two seconds at 100 Mbit/s: packets that wait for this program must not count as losses of the path.
BUFFER_BYTES = 1 << 25
# asm-generic/socket.h: without the limits of net.core.
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
# datagrams.c has the same; echo.bpf.c has the second and ports from 7000 to 7031.
BATCH, BETWEEN = 64, 1000
# A flow's ring: more acknowledgements than come while this program is away.
FRAMES = 1 << 12
# A filter that lets nothing pass: one instruction, return 0 bytes.
NOTHING = struct.pack("HBBI", 6, 0, 0, 0)
# A flow that has not begun is due at no moment.
NEVER_NS = 1 << 62


class _Ends(ctypes.Structure):
    """datagrams.c: struct flow."""

    _fields_ = (
        ("sender", ctypes.c_int),
        ("receiver", ctypes.c_int),
        ("ring", ctypes.c_int),
        ("frame_bytes", ctypes.c_uint),
        ("frames", ctypes.c_uint),
        ("next", ctypes.c_uint),
        ("memory", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("sent", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("number", ctypes.c_int64 * BATCH),
        ("at_ns", ctypes.c_int64 * BATCH),
        ("sent_at", ctypes.c_double * BATCH),
    )


class FlowEnds:
    """A flow's sockets: `sender` and `receiver`, connected; `ring` sees the acknowledgements, into `memory`."""

    def __init__(self, sender: socket.socket, receiver: socket.socket, ring: socket.socket) -> None:
        self.sender, self.receiver, self.ring = sender, receiver, ring
        request = struct.pack("IIII", BLOCK_BYTES, FRAMES * FRAME_BYTES // BLOCK_BYTES, FRAME_BYTES, FRAMES)
        self.memory = packet.receive_ring(ring, packet.TPACKET_V2, request, FRAMES * FRAME_BYTES)

    def close(self) -> None:
        """Close all."""
        for one in (self.sender, self.receiver, self.ring):
            one.close()


def open_ends(sender_netns: str, receiver_netns: str, end: tuple[str, int]) -> FlowEnds:
    """Return a flow's sockets; the sender's address and port are `end`.

    They are connected, so that the kernel numbers packets in order. The receiver's port is `BETWEEN` above the
    sender's: echo.bpf.c knows the flow by that.
    """
    with inside(sender_netns):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ring = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(packet.ETH_P_IP))
    with inside(receiver_netns):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind(end)
    receiver.bind(("", end[1] + BETWEEN))
    receiver.connect(end)
    sender.connect(receiver.getsockname())
    for one in (sender, receiver):
        one.setblocking(False)
        for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
            one.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    # acknowledgements are read from the ring
    packet.attach_filter(sender, NOTHING)
    packet.attach_filter(ring, tap.packets_from(end[1] + BETWEEN, end[1] + BETWEEN, socket.IPPROTO_UDP))
    # not bound to a device: a host may have several; packets from before the filter are dropped when the ring is made
    return FlowEnds(sender, receiver, ring)


class DatagramFlow:
    """next_ns: when `send` is due, on the monotonic clock. state: what was sent, delivered and lost.

    The clock of a flow begins with the flow, in whole nanoseconds: the same flow has the same times at any hour.
    """

    def __init__(self, library: ctypes.CDLL, scheme: Scheme, ends: FlowEnds) -> None:
        self.state = DatagramSender(scheme)
        self.next_ns = NEVER_NS
        memory = ctypes.addressof(ctypes.c_char.from_buffer(ends.memory))
        files = (one.fileno() for one in (ends.sender, ends.receiver, ends.ring))
        self.ends = _Ends(*files, FRAME_BYTES, FRAMES, 0, memory)
        # the sockets live as long as the flow
        self._open = ends
        self._transmit = library.send_packets
        self._began_ns = 0

    def begin(self) -> None:
        """Begin: the first packets leave when the loop runs."""
        self._began_ns = self.next_ns = time.monotonic_ns()
        self.ends.offset = time.time_ns() - time.monotonic_ns()

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
        ends, acknowledge, began_ns = self.ends, self.state.acknowledge, self._began_ns
        count = ends.count
        for at_ns, number, sent_at in zip(ends.at_ns[:count], ends.number[:count], ends.sent_at[:count], strict=True):
            acknowledge((at_ns - began_ns) / 1e9, number, sent_at)
        self.send(now_ns)


class DatagramLoop:
    """Flows that share a thread."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.send_packets.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double)
        self._library.send_packets.restype = None
        self._flows: list[DatagramFlow] = []

    def add(self, scheme: Scheme, ends: FlowEnds) -> DatagramFlow:
        """Return a flow that has not begun."""
        self._flows.append(DatagramFlow(self._library, scheme, ends))
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
