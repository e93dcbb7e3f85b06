# SPDX-License-Identifier: MIT
"""This host's connections: all that are established, and each one at the moment it ends.

Question   Which statistics does the kernel have of every connection now, and of each one at its end?
Method     inet_diag over netlink (`configtron/linux/sock_diag.py`); each answer's `struct tcp_info` becomes a `Socket`.
Reads as   `Socket`s. It needs no root.
Fails as   an ending that the buffer had no room for is lost and counted (`lost`), never waited for.
Source     sock_diag(7)
"""

from __future__ import annotations

from typing import Self

from configtron.fingerprint.tcp_info import Socket, socket_of
from configtron.linux import rtnetlink
from configtron.linux.netlink import Netlink
from configtron.linux.sock_diag import INFO, VEGAS, Destroyed, Diag, DiagSocket, extensions

# Endings that wait to be read: some ten thousand.
BUFFER_BYTES = 16 << 20


def established() -> list[Socket]:
    """Return all established TCP sockets of this namespace. Errors: `Missing`."""
    diag = Diag()
    try:
        found = (_socket(one) for one in diag.connections(extensions(INFO, VEGAS)))
        return [one for one in found if one is not None]
    finally:
        diag.close()


def addresses() -> frozenset[bytes]:
    """Return every address, packed, that the kernel has in this namespace."""
    with Netlink() as net:
        return frozenset(packed for packed, _ in rtnetlink.addresses(net))


class Endings:
    """Sockets as they are destroyed, from now on. Errors: `Missing`."""

    def __init__(self) -> None:
        self._destroyed = Destroyed(buffer_bytes=BUFFER_BYTES)

    @property
    def lost(self) -> int:
        """Return how often the kernel's buffer overflowed; each time, at least one ending was lost."""
        return self._destroyed.lost

    def heard(self, timeout_s: float) -> list[Socket]:
        """Return those destroyed since the last call; wait for the first at most `timeout_s`."""
        found = (_socket(one, closed=True) for one in self._destroyed.read(timeout_s))
        return [one for one in found if one is not None]

    def close(self) -> None:
        """Close the socket."""
        self._destroyed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _socket(one: DiagSocket, *, closed: bool = False) -> Socket | None:
    return socket_of((one.local, one.local_port), (one.remote, one.remote_port), one.attributes, closed=closed)
