# SPDX-License-Identifier: MIT
"""Open one connection to the servers and read its settings from their kernel, as a client's connection has them.

Question   Is the stack that was set the stack that a connection gets?
Method     A client with an address among the page load's clients, but on a way without delay, connects to a server's
           port; `inet_diag` reports the server's end, before any data: its congestion control and its window, which is
           the initial one. Then the client resets the connection. This finds a listener that was open before the stack
           was set, or that sets its own options.
Fails as   `Mismatch` where no server accepts or the kernel does not know the connection.
Source     linux/inet_diag.h, sock_diag(7); struct tcp_info of linux/tcp.h
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from configtron.fingerprint.tcp_info import field_of
from configtron.lab.testbed.wires import SERVERS, WITNESS_ADDRESS, WITNESSED_ADDRESS
from configtron.linux.netns import inside
from configtron.linux.sock_diag import CONGESTION, INFO, Diag, extensions
from configtron.model.errors import Mismatch

# SO_LINGER: on, 0 s; closing is a reset.
RESET = struct.pack("ii", 1, 0)
# No delay lies between; later is never.
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """The server's end of a connection at its beginning."""

    congestion_control: str
    window: int  # segments


class CheckConnection:
    """A listener of our own among the servers, and the questions about connections to it or to another's."""

    def __init__(self) -> None:
        with inside(SERVERS):
            self._listener = socket.create_server((WITNESSED_ADDRESS, 0))
            self._diag = Diag()
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()
        self._diag.close()

    def see(self, port: int = 0) -> ConnectionState:
        """Return the state of a new connection to that port (0: to our own listener). Errors: `Mismatch`."""
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

    def _ask(self, port: int, client_port: int) -> ConnectionState:
        ends = (socket.inet_aton(WITNESSED_ADDRESS), port), (socket.inet_aton(WITNESS_ADDRESS), client_port)
        found = self._diag.look_up(extensions(INFO, CONGESTION), *ends)
        if found is None:
            raise Mismatch(f"the kernel does not know the connection to port {port}")
        name = found.attributes[CONGESTION].rstrip(b"\0").decode()
        return ConnectionState(name, field_of(found.attributes[INFO], "snd_cwnd"))
