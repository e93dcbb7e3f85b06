# SPDX-License-Identifier: MIT
"""One HTTP request to a web server on this host, by a client at any address."""

from __future__ import annotations

import socket

from tests.support.draws import IP_FREEBIND


def connected(port: int, address: str) -> socket.socket:
    """A connection of a client at an address of ours."""
    client = socket.socket()
    client.setsockopt(*IP_FREEBIND, 1)
    client.bind((address, 0))
    client.connect(("127.0.0.1", port))
    return client


def ask(port: int, address: str, head: str, body: bytes = b"") -> str:
    """One request of a client at an address of ours; the answer's head."""
    with connected(port, address) as client:
        return answered(client, head, body)


def answered(client: socket.socket, head: str, body: bytes = b"") -> str:
    """Send one request by a connection that is open; return the answer's head."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    client.sendall(f"{head}\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n".encode() + body)
    answer = b""
    while got := client.recv(65536):
        answer += got
    return answer.decode()
