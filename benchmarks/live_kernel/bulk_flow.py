# SPDX-License-Identifier: MIT
"""A neighbour: one cubic flow of another host through the link of an access network, all the time.

Its bytes are counted at the receiver in bins of time, so that what it got while a page loaded is known afterwards.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter

from benchmarks.live_kernel.place import BULK, BULK_ADDRESS, AccessNetwork
from configtron.linux.netns import inside

PORT = 7100
# s; bytes of a receive that wakes the reader, and of a write.
BIN_S, LOW_WATER, CHUNK = 0.1, 1 << 15, memoryview(bytes(1 << 18))


class BulkFlow:
    """bins: number of a bin since boot -> bytes that came in it."""

    def __init__(self, network: AccessNetwork) -> None:
        self.bins: Counter[int] = Counter()
        with inside(BULK), socket.create_server((BULK_ADDRESS, PORT + network.number)) as listener:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            with inside(network.netns):
                self._client = socket.socket()
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOW_WATER)
            self._client.connect((BULK_ADDRESS, PORT + network.number))
            self._sender = listener.accept()[0]
        self._into = bytearray(1 << 20)
        for one in (self._client, self._sender):
            one.setblocking(False)

    def start(self) -> None:
        """Send and count from now on."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._client.fileno(), self._receive)
        loop.add_writer(self._sender.fileno(), self._send)

    def _send(self) -> None:
        self._sender.send(CHUNK)

    def _receive(self) -> None:
        # MSG_TRUNC: the kernel counts the bytes and discards them without a copy
        got = self._client.recv_into(self._into, 0, socket.MSG_TRUNC)
        self.bins[int(time.clock_gettime(time.CLOCK_BOOTTIME) / BIN_S)] += got

    def stop(self) -> None:
        """End the flow."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._client.fileno())
        loop.remove_writer(self._sender.fileno())
        self._client.close()
        self._sender.close()
