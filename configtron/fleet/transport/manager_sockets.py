# SPDX-License-Identifier: MIT
"""The manager's socket: ROUTER, with CURVE, the key with each frame.

libzmq drops what a queue has no room for; `send` counts it (ROUTER_MANDATORY), and the agent asks again.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import zmq

from configtron.fleet.messages import MOST_FRAME
from configtron.fleet.transport.curve_keys import CurvePair, ManagerAddress
from configtron.fleet.transport.zap import DOMAIN, ZapSocket
from configtron.model.errors import Busy

# Frames that wait for one slow agent, and from all agents: some chunks of a map; batches of outcomes.
QUEUE_OUT, QUEUE_IN = 300, 2000
# ms; a handshake that hangs holds a descriptor so long.
HANDSHAKE_MS = 5000
# ms between two heartbeats of an idle connection, and until a peer without an answer is dropped.
HEARTBEAT_MS, GONE_MS = 5000, 15_000
BACKLOG = 1024
# Handshakes that are answered in a row: a flood of them must not keep enrolled agents waiting.
MOST_ANSWERS = 100


class ArrivedFrame(NamedTuple):
    """A frame, the connection it came by, and the key (Z85) that the connection was authenticated by."""

    connection: bytes
    key: str
    data: bytes


class ManagerSockets:
    """The bound socket of a manager, and the one that answers about keys.

    Errors: `Busy` where the address is in use, or not this host's yet.
    """

    def __init__(self, endpoint: str, pair: CurvePair, allowed: dict[str, str]) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.allowed = allowed
        self._zap = ZapSocket(self._context, self._keys)
        self._router = self._socket(pair)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # An agent that comes back before its old connection is noticed as gone takes its place.
        self._router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            self._router.bind(ManagerAddress(endpoint, "x" * 40, "0" * 64).endpoint)
        except zmq.ZMQError as error:
            self.close()
            why = f"{error}; another manager runs there, or the address is not this host's"
            raise Busy(f"{endpoint}: {why}") from error
        self._poller = zmq.Poller()
        for socket in (self._zap.socket, self._router):
            self._poller.register(socket, zmq.POLLIN)
        self.unsent = 0

    def _keys(self) -> Container[str]:
        return self.allowed

    def _socket(self, pair: CurvePair) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.ROUTER)
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = pair.public, pair.secret
        socket.zap_domain = DOMAIN
        socket.linger = 0
        socket.sndhwm, socket.rcvhwm = QUEUE_OUT, QUEUE_IN
        socket.sndtimeo = 0
        socket.maxmsgsize = MOST_FRAME
        socket.handshake_ivl = HANDSHAKE_MS
        socket.heartbeat_ivl, socket.heartbeat_timeout = HEARTBEAT_MS, GONE_MS
        socket.backlog = BACKLOG
        socket.ipv6 = True
        return socket

    def wait(self, timeout_s: float) -> None:
        """Wait for a frame, and answer what libzmq asks about keys meanwhile."""
        ready = dict(self._poller.poll(max(round(timeout_s * 1000), 0)))
        for _ in range(MOST_ANSWERS if self._zap.socket in ready else 0):
            self._zap.answer()
            if not self._zap.socket.poll(0):
                break

    def receive(self, most: int) -> list[ArrivedFrame]:
        """Return frames that have arrived, at most so many."""
        found: list[ArrivedFrame] = []
        while len(found) < most:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            if len(frames) == 2:
                found.append(ArrivedFrame(frames[0].bytes, _user_id(frames[1]), frames[1].bytes))
        return found

    def send(self, connection: bytes, data: bytes) -> None:
        """Send a frame to a connection; one that is gone or slow loses it, counted in `unsent`."""
        try:
            self._router.send_multipart([connection, data])
        except zmq.ZMQError:
            self.unsent += 1

    @property
    def refused(self) -> int:
        """Return how many connections were refused for their key."""
        return self._zap.refused

    def close(self) -> None:
        """Close the sockets, without waiting for what was not sent."""
        self._router.close(0)
        self._zap.close()
        self._context.term()


def _user_id(frame: zmq.Frame) -> str:
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
