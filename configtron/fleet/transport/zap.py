# SPDX-License-Identifier: MIT
"""Answers to libzmq's question whether a connecting key is welcome (ZAP), in the manager's own loop.

Question   Which keys may connect?
Method     libzmq sends each handshake as a request to inproc://zeromq.zap.01 and waits for the reply; the reply's
           User-Id is the key, which libzmq gives with each later frame of the connection.
Fails as   400 with a reason. The client is not given it: its monitor reports a failed handshake.
Differs    from pyzmq's ThreadAuthenticator: no thread, so the same loop decides in the same order.
Source     ZeroMQ RFC 27 (ZAP)
"""

from __future__ import annotations

from collections.abc import Callable, Container

import zmq
from zmq.utils import z85

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"configtron"
VERSION = b"1.0"
# Frames of a request: version, id, domain, address, identity, mechanism, key.
FRAMES = 7


class ZapSocket:
    """The reply side of ZAP. One for each context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], allowed: Callable[[], Container[str]]) -> None:
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(ENDPOINT)
        self._allowed = allowed
        self.refused = 0

    def answer(self) -> None:
        """Answer one request that waits."""
        frames = self.socket.recv_multipart()
        self.socket.send_multipart(self._reply(frames))

    def _reply(self, frames: list[bytes]) -> list[bytes]:
        number = frames[1] if len(frames) > 1 else b""
        if len(frames) == FRAMES and frames[2] == DOMAIN and frames[5] == b"CURVE":
            key = z85.encode(frames[6]).decode()
            if key in self._allowed():
                return [VERSION, number, b"200", b"OK", key.encode(), b""]
        self.refused += 1
        return [VERSION, number, b"400", b"this key is not enrolled", b"", b""]

    def close(self) -> None:
        """Close the socket."""
        self.socket.close(0)
