# SPDX-License-Identifier: MIT
"""inet_diag: the kernel's own account of its TCP sockets, listed, looked up one by one, or reported as they end.

Question   Which TCP connections does a network namespace have, and what does the kernel keep of each?
Method     `struct inet_diag_req_v2` asks, over a netlink socket of NETLINK_SOCK_DIAG; `struct inet_diag_msg` and its
           attributes answer. Multicast groups report every socket that the kernel destroys. None of it needs root.
Reads as   `DiagSocket`: addresses, ports, state, and attributes as bytes (`struct tcp_info` under INFO). Dropped:
           timers, queues, owner.
Fails as   `Missing` where the kernel has no inet_diag for TCP (module tcp_diag).
Source     sock_diag(7); linux/inet_diag.h, linux/sock_diag.h; net/core/sock_diag.c (sock_diag_broadcast_destroy)
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from typing import NamedTuple

from configtron.linux.netlink import SOCK_DIAG, Netlink, NetlinkError, attributes
from configtron.model.errors import Missing

BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
# Multicast groups (SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY).
TCP_DESTROYED, TCP6_DESTROYED = 1, 3
# Attributes (INET_DIAG_*): `struct tcp_info`, the congestion control's numbers (BBR answers to Vegas's bit), its name.
INFO, VEGAS, CONGESTION, BBR = 2, 3, 4, 16
# include/net/tcp_states.h: states of a connection that was established; not LISTEN, SYN_*, TIME_WAIT, CLOSE.
_ESTABLISHED, _FIN_WAIT1, _FIN_WAIT2, _CLOSE_WAIT, _LAST_ACK, _CLOSING = 1, 4, 5, 8, 9, 11
CONNECTED = sum(1 << state for state in (_ESTABLISHED, _FIN_WAIT1, _FIN_WAIT2, _CLOSE_WAIT, _LAST_ACK, _CLOSING))
LISTENING, ANY_STATE = 1 << 10, 2**32 - 1
_NO_COOKIE = 2**64 - 1
# struct inet_diag_req_v2: family, protocol, extensions, states; ports, addresses, interface, cookie
_REQUEST = struct.Struct("=BBBxI2s2s16s16sIQ")
# struct inet_diag_msg: family, state, timer, retransmissions; ports, addresses, interface, cookie; five counters
MESSAGE = struct.Struct("=BBBB2s2s16s16sI8sIIIII")
# A list during which sockets came and went is asked again; after so many attempts it is taken as it is.
READINGS = 3

Endpoint = tuple[bytes, int]


class DiagSocket(NamedTuple):
    """A socket as inet_diag reports it: packed addresses, ports, attributes by number, SO_COOKIE, inode (0: no process
    holds it yet, or any more), index of the device that it is bound to (0: none)."""

    family: int
    state: int
    local: bytes
    local_port: int
    remote: bytes
    remote_port: int
    attributes: dict[int, bytes]
    cookie: int = 0
    inode: int = 0
    bound: int = 0


def extensions(*kinds: int) -> int:
    """Return the request's bits for attributes up to 8."""
    return sum(1 << kind - 1 for kind in kinds)


def request(
    family: int, asked: int, states: int, local: Endpoint = (b"", 0), remote: Endpoint = (b"", 0), cookie: int = 0
) -> bytes:
    """Return struct inet_diag_req_v2 for TCP.

    asked      attributes, as `extensions` gives them
    states     a bit for each state (`CONNECTED`, `ANY_STATE`)
    """
    ports = (port.to_bytes(2, "big") for _, port in (local, remote))
    places = (address.ljust(16, b"\0") for address, _ in (local, remote))
    return _REQUEST.pack(family, socket.IPPROTO_TCP, asked, states, *ports, *places, 0, cookie)


def parse(body: bytes) -> DiagSocket | None:
    """Return the socket of one message; None where it is too short or of another family."""
    if len(body) < MESSAGE.size:
        return None
    family, state, _, _, local_port, remote_port, local, remote, bound, cookie, *_, inode = MESSAGE.unpack_from(body)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    size = 4 if family == socket.AF_INET else 16
    here, there = int.from_bytes(local_port, "big"), int.from_bytes(remote_port, "big")
    named = int.from_bytes(cookie, sys.byteorder)
    return DiagSocket(family, state, local[:size], here, remote[:size], there, attributes(body, MESSAGE.size), named,
                      inode, bound)  # fmt: skip


class Diag:
    """A client for the TCP sockets of one network namespace."""

    def __init__(self, netns: str = "") -> None:
        self._net = Netlink(netns, SOCK_DIAG)

    def connections(self, asked: int) -> list[DiagSocket]:
        """Return all connections that were established, IPv4 first. Errors: `Missing`, `NetlinkError`."""
        return [found for family in (socket.AF_INET, socket.AF_INET6) for found in self._dumped(family, asked)]

    def listening(self) -> list[DiagSocket]:
        """Return all listening sockets, IPv4 first. Errors: `Missing`, `NetlinkError`."""
        return [found for family in (socket.AF_INET, socket.AF_INET6) for found in self._dumped(family, 0, LISTENING)]

    def _dumped(self, family: int, asked: int, states: int = CONNECTED) -> list[DiagSocket]:
        body = request(family, asked, states)
        try:
            answers = self._net.dump(BY_FAMILY, body, readings=READINGS, torn_ok=True, forgiven=())
        except NetlinkError as error:
            if error.number == errno.ENOENT:
                raise Missing("the kernel has no inet_diag for TCP; run: modprobe tcp_diag") from error
            raise
        return [found for answer in answers if (found := parse(answer)) is not None]

    def look_up(self, asked: int, local: Endpoint, remote: Endpoint) -> DiagSocket | None:
        """Return the socket with exactly these ends; None if the kernel has none. Errors: `NetlinkError`."""
        family = socket.AF_INET if len(local[0]) == 4 else socket.AF_INET6
        answer = self._net.ask(BY_FAMILY, request(family, asked, ANY_STATE, local, remote, _NO_COOKIE))
        return parse(answer.body) if answer else None

    def close(self) -> None:
        """Close the socket."""
        self._net.close()


class Destroyed:
    """TCP sockets of a namespace as the kernel destroys them, from now on.

    lost   how often the buffer overflowed: a lower bound of the endings that were lost

    Errors: `Missing` where the kernel does not report them.
    """

    def __init__(self, netns: str = "", buffer_bytes: int = 0) -> None:
        self.lost = 0
        try:
            self._net = Netlink(netns, SOCK_DIAG, (TCP_DESTROYED, TCP6_DESTROYED), buffer_bytes)
        except OSError as error:
            raise Missing(f"the kernel does not report connections that end: {error.strerror}") from error

    def read(self, timeout_s: float = 0.0) -> list[DiagSocket]:
        """Return those destroyed since the last call; wait for the first at most `timeout_s`."""
        events, lost = self._net.events(timeout_s)
        self.lost += lost
        return [found for event in events if (found := parse(event.body)) is not None]

    def close(self) -> None:
        """Close the socket."""
        self._net.close()
