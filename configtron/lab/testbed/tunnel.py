# SPDX-License-Identifier: MIT
"""A tunnel as Pantheon's: each packet of a flow crosses the link as a datagram with a number of its own.

    with Tunnel(testbed.addresses[origin]) as tunnel:
        ...flows to `INNER` through `DEVICE` of both namespaces

Question   What does a measurement's own tunnel do to the flows that it measures?
Method     A TUN device in the servers' namespace and one in the client's. A thread takes packets from each, writes a
           number of four bytes before them and sends them as UDP datagrams to the other end, which unpacks them.
           So the inner packets can be logged at the devices, and the outer ones on the wire.
Differs    from Pantheon's: 32 bytes a packet in place of 28 and its number; it is one process, not one at each end.
Source     Pantheon (Yan and others 2018), section 3.2; linux/if_tun.h
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
from contextlib import ExitStack, suppress
from typing import NamedTuple

from configtron.lab.internet import links
from configtron.lab.testbed.conditions import PACKET_BYTES
from configtron.lab.testbed.wires import CLIENT, CLIENT_ADDRESS, SERVERS
from configtron.linux.netns import inside

DEVICE = "tunnel0"
# The ends' addresses within the tunnel: the servers', the client's.
INNER, INNER_CLIENT = "10.9.0.1", "10.9.0.2"
# Both ends' port on the wire.
PORT = 6999
NUMBER = struct.Struct(">I")
# IP's and UDP's headers, and the number.
OVERHEAD_BYTES = 28 + NUMBER.size
# <linux/if_tun.h>
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
# The queue of a device, as long as that of the testbed's own devices.
QUEUE_PACKETS = 10_000


class _TunnelEnd(NamedTuple):
    """One end: its device, its socket on the wire."""

    device: int
    wire: socket.socket


class Tunnel:
    """A raised tunnel to the servers' address; it is gone when its context ends."""

    def __init__(self, address: str) -> None:
        self._open = ExitStack()
        self._ends = (self._set_up(SERVERS, INNER, address), self._set_up(CLIENT, INNER_CLIENT, CLIENT_ADDRESS))
        self._ends[0].wire.connect((CLIENT_ADDRESS, PORT))
        self._ends[1].wire.connect((address, PORT))
        self._over = threading.Event()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._carry)

    def __enter__(self) -> Tunnel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        os.write(self._wake_write, b".")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._open.close()

    def _set_up(self, netns: str, inner: str, outer: str) -> _TunnelEnd:
        with inside(netns):
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._open.callback(os.close, device)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
            wire = self._open.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        wire.bind((outer, PORT))
        wire.setblocking(False)
        links.ip(netns, [
            f"addr add {inner}/24 dev {DEVICE}",
            f"link set {DEVICE} mtu {PACKET_BYTES - OVERHEAD_BYTES} txqueuelen {QUEUE_PACKETS} up",
        ])  # fmt: skip
        return _TunnelEnd(device, wire)

    def _carry(self) -> None:
        """Carry packets until the end; each end counts its own."""
        numbers = [0, 0]
        sources = [self._wake_read, *(one for end in self._ends for one in (end.device, end.wire))]
        while not self._over.is_set():
            ready = select.select(sources, [], [])[0]
            for at, end in enumerate(self._ends):
                if end.device in ready:
                    numbers[at] = self._send(end, numbers[at])
                if end.wire in ready:
                    self._deliver(end)

    def _send(self, end: _TunnelEnd, number: int) -> int:
        """Send what waits on the device; return the next number. What the wire has no room for is lost."""
        with suppress(BlockingIOError):
            while True:
                packet = os.read(end.device, PACKET_BYTES)
                with suppress(BlockingIOError, ConnectionError):
                    end.wire.send(NUMBER.pack(number) + packet)
                number = (number + 1) % (1 << 32)
        return number

    def _deliver(self, end: _TunnelEnd) -> None:
        with suppress(BlockingIOError, ConnectionError):
            while True:
                os.write(end.device, end.wire.recv(PACKET_BYTES)[NUMBER.size :])
