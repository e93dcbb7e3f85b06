# SPDX-License-Identifier: MIT
"""The agent's socket, which connects outwards only: DEALER.

A manager that refuses a key does not tell the agent: libzmq goes on trying. The socket's monitor reports failed
handshakes, so that the agent can report them.
"""

from __future__ import annotations

import zmq
from zmq.utils.monitor import recv_monitor_message

from configtron.fleet.messages import MOST_FRAME
from configtron.fleet.transport.curve_keys import CurvePair, ManagerAddress
from configtron.fleet.transport.manager_sockets import GONE_MS, HANDSHAKE_MS, HEARTBEAT_MS
from configtron.model.errors import BadInput

# Frames that wait for the manager: a batch, a beat, a few reports. What does not fit is sent again by the session.
QUEUE_OUT, QUEUE_IN = 16, 600
# ms until a reconnection is tried, doubled each time: 500 agents do not all come back at once.
RECONNECT_MS, RECONNECT_MAX_MS = 200, 5000

_FAILED = (zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
           | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)  # fmt: skip
_MONITORED = _FAILED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CONNECT_RETRIED


class AgentSockets:
    """The connected socket of an agent; several agents of one process may share a context. Errors: `BadInput`."""

    def __init__(self, address: ManagerAddress, pair: CurvePair, context: zmq.Context[zmq.Socket[bytes]] | None = None
                 ) -> None:  # fmt: skip
        self._own = context is None
        self._context = context if context is not None else zmq.Context()
        self._address = address
        self.dealer = self._socket(pair, address)
        self._monitor = self.dealer.get_monitor_socket(_MONITORED)
        self._complaint = ""
        self.unsent = 0
        try:
            self.dealer.connect(address.endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise BadInput(f"{address.endpoint}: no address to connect to ({error.strerror}); join anew by a line of"
                           " `configtron learn manager enroll` with the manager's address") from error  # fmt: skip

    def _socket(self, pair: CurvePair, address: ManagerAddress) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.curve_publickey, socket.curve_secretkey = pair.public, pair.secret
        socket.curve_serverkey = address.curve.encode()
        socket.linger = 0
        socket.sndhwm, socket.rcvhwm = QUEUE_OUT, QUEUE_IN
        # Without a connection a frame is not queued: the session sends it again.
        socket.immediate = True
        socket.sndtimeo = 0
        socket.maxmsgsize = MOST_FRAME
        socket.handshake_ivl = HANDSHAKE_MS
        socket.heartbeat_ivl, socket.heartbeat_timeout = HEARTBEAT_MS, GONE_MS
        socket.reconnect_ivl, socket.reconnect_ivl_max = RECONNECT_MS, RECONNECT_MAX_MS
        socket.ipv6 = True
        return socket

    def wait(self, timeout_s: float) -> None:
        """Wait for a frame of the manager's."""
        self.dealer.poll(max(round(timeout_s * 1000), 0))

    def receive(self) -> list[bytes]:
        """Return the frames that have arrived."""
        found: list[bytes] = []
        while True:
            try:
                found += self.dealer.recv_multipart(zmq.NOBLOCK)[:1]
            except zmq.Again:
                return found

    def send(self, data: bytes) -> None:
        """Send a frame; without a connection, or with a full queue, it is counted in `unsent`."""
        try:
            self.dealer.send(data)
        except zmq.ZMQError:
            self.unsent += 1

    def complaint(self) -> str:
        """Return why there is no connection, in one line, once for each reason; else ""."""
        latest = ""
        while self._monitor.poll(0):
            event = int(recv_monitor_message(self._monitor)["event"])
            latest = self._explain(event)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._complaint = ""
        if latest and latest != self._complaint:
            self._complaint = latest
            return latest
        return ""

    def _explain(self, event: int) -> str:
        if event & _FAILED:
            why = "it was revoked or never enrolled, or the manager has another key"
            remedy = "on the manager: configtron learn manager agents"
            return f"{self._address.endpoint}: the manager refuses this host's key: {why}; {remedy}"
        if event == zmq.EVENT_CONNECT_RETRIED:
            return f"{self._address.endpoint}: no manager answers there; the agent goes on with the map it has"
        return ""

    def close(self) -> None:
        """Close the sockets, without waiting for what was not sent."""
        self.dealer.disable_monitor()
        self._monitor.close(0)
        self.dealer.close(0)
        if self._own:
            self._context.term()
