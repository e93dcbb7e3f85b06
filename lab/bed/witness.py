# SPDX-License-Identifier: MIT
"""One new connection to the servers, asked about in their kernel: what a client's first packet would have met.

Question   Is the stack that was set the stack that a connection gets?
Method     A client with an address among the page load's clients, but on a way without delay, connects to a server's
           port; `inet_diag` says of the server's end, before any data, its congestion control and its window, which is
           the initial one. Then the connection is reset. A listener that was open before the stack was set, or chose
           for itself, is thereby seen.
Fails as   `Mismatch` where nobody accepts or the kernel does not know the connection.
Source     linux/inet_diag.h, sock_diag(7); struct tcp_info of linux/tcp.h
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

from configtron.lab.bed.qdiscs import BUFFER_BYTES, ERROR, HEADER, REQUEST, attributes
from configtron.lab.bed.wires import SERVERS, WITNESS_ADDRESS, WITNESSED_ADDRESS
from configtron.linux.netns import inside
from configtron.model.errors import Mismatch

BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
# struct inet_diag_req_v2: family, protocol, extensions, states; ports, addresses, interface, cookie
ASKED = struct.Struct("=BBBxI HH16s16sIQ")
# struct inet_diag_msg, whose attributes follow
TOLD_BYTES = 72
INFO, CONGESTION = 2, 4
NO_COOKIE, ANY_STATE = 2**64 - 1, 2**32 - 1
# Of struct tcp_info: where snd_cwnd stands.
WINDOW_AT = 80
# SO_LINGER: on, 0 s; closing is a reset.
RESET = struct.pack("ii", 1, 0)
# No delay lies between; later is never.
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The server's end of a connection at its beginning."""

    congestion_control: str
    window: int  # segments


class Witness:
    """A listener of our own among the servers, and the questions about connections to it or to another's."""

    def __init__(self) -> None:
        with inside(SERVERS):
            self._listener = socket.create_server((WITNESSED_ADDRESS, 0))
            self._diag = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 4)
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()
        self._diag.close()

    def see(self, port: int = 0) -> Seen:
        """A new connection to that port (0: to our own listener). Errors: `Mismatch`."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.settimeout(PATIENCE_S)
            client.bind((WITNESS_ADDRESS, 0))
            try:
                client.connect((WITNESSED_ADDRESS, port or self.port))
            except OSError as error:
                raise Mismatch(f"no server accepts at port {port or self.port}: {error}") from error
            seen = self._ask(port or self.port, client.getsockname()[1])
            if port in (0, self.port):
                self._listener.accept()[0].close()
            return seen

    def _ask(self, port: int, client_port: int) -> Seen:
        addresses = [socket.inet_aton(address).ljust(16, b"\0") for address in (WITNESSED_ADDRESS, WITNESS_ADDRESS)]
        extensions = 1 << INFO - 1 | 1 << CONGESTION - 1
        ports = socket.htons(port), socket.htons(client_port)
        body = ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, extensions, ANY_STATE, *ports, *addresses, 0, NO_COOKIE)
        self._diag.send(HEADER.pack(16 + len(body), BY_FAMILY, REQUEST, 1, 0) + body)
        answer = self._diag.recv(BUFFER_BYTES)
        _, kind, *_ = HEADER.unpack_from(answer)
        if kind == ERROR:
            number = -struct.unpack_from("=i", answer, HEADER.size)[0]
            raise Mismatch(f"the kernel does not know the connection to port {port}: {os.strerror(number)}")
        told = attributes(answer, HEADER.size + TOLD_BYTES)
        (window,) = struct.unpack_from("=I", told[INFO], WINDOW_AT)
        return Seen(told[CONGESTION].rstrip(b"\0").decode(), window)
