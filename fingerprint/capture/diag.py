# SPDX-License-Identifier: MIT
"""The kernel's own account of its TCP sockets: inet_diag over netlink.

Question   What does the kernel know of every connection now, and of each one at the moment it ends?
Method     A dump request for each family gives all established sockets with tcp_info. A second socket stands in the
           group that the kernel notifies of every socket that it destroys, with its last tcp_info.
Reads as   `Socket`s. Root is not needed; the group holds back nothing but what its buffer loses.
Fails as   an ending that the buffer had no room for is lost and counted (`lost`), never waited for.
Why not    pyroute2: well kept, but it makes an object of each of 60 fields, which costs far more than the asking.
Source     sock_diag(7); net/core/sock_diag.c (sock_diag_broadcast_destroy)
"""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from configtron.fingerprint import tcp_info
from configtron.fingerprint.tcp_info import Socket
from configtron.model.errors import Missing

_NETLINK_SOCK_DIAG, _NETLINK_ROUTE = 4, 0
# Groups of sock_diag (SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY), a bit each.
_DESTROYED = 1 << 0 | 1 << 2
_SO_RCVBUFFORCE = 33
# Endings that wait for us: some ten thousand. Without CAP_NET_ADMIN the kernel gives what rmem_max allows.
BUFFER_BYTES = 16 << 20
# The largest datagram of a dump: the kernel fills pages up to 32 kB.
DATAGRAM_BYTES = 1 << 16
# A dump that sockets came and went under says so; after so many attempts it is taken as it is.
ATTEMPTS = 3
# struct ifaddrmsg, and the attributes that hold an address.
_RTM_GETADDR, _RTM_NEWADDR, _IFADDR_BYTES, _IFA_ADDRESS, _IFA_LOCAL = 22, 20, 8, 1, 2


def established() -> list[Socket]:
    """All established TCP sockets of this namespace."""
    return [found for family in (tcp_info.AF_INET, tcp_info.AF_INET6) for found in _dumped(family)]


def _dumped(family: int) -> list[Socket]:
    found: list[Socket] = []
    for number in range(1, ATTEMPTS + 1):
        answers = list(_dump(_NETLINK_SOCK_DIAG, tcp_info.question(family, number)))
        found = [one for _, _, body in answers if (one := tcp_info.socket_of(body)) is not None]
        if not any(flags & tcp_info.NLM_F_DUMP_INTR for _, flags, _ in answers):
            break
    return found


def _dump(protocol: int, question: bytes) -> Iterator[tuple[int, int, bytes]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as link:
        link.send(question)
        while True:
            for kind, flags, body in tcp_info.messages(link.recv(DATAGRAM_BYTES)):
                if kind == tcp_info.NLMSG_DONE:
                    return
                if kind == tcp_info.NLMSG_ERROR:
                    code = -int(struct.unpack_from("=i", body)[0])
                    if code == errno.ENOENT:
                        raise Missing("the kernel has no inet_diag for TCP; run: modprobe tcp_diag")
                    raise OSError(code, f"inet_diag: {errno.errorcode.get(code, code)}")
                yield kind, flags, body


def addresses() -> frozenset[bytes]:
    """Every address that the kernel has in this namespace."""
    question = tcp_info.HEADER.pack(tcp_info.HEADER.size + _IFADDR_BYTES, _RTM_GETADDR, tcp_info.NLM_F_DUMP, 1, 0)
    found = set()
    for kind, _, body in _dump(_NETLINK_ROUTE, question + bytes(_IFADDR_BYTES)):
        if kind == _RTM_NEWADDR:
            about = dict(tcp_info.attributes(body[_IFADDR_BYTES:]))
            # On a point-to-point link IFA_ADDRESS is the other end's.
            found.add(about.get(_IFA_LOCAL) or about.get(_IFA_ADDRESS, b""))
    return frozenset(found - {b""})


class Endings:
    """Sockets as they are destroyed, from now on."""

    def __init__(self) -> None:
        self.lost = 0
        self._link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        try:
            try:
                self._link.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
            except PermissionError:
                self._link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._link.bind((0, _DESTROYED))
        except OSError as error:
            self._link.close()
            raise Missing(f"the kernel does not report connections that end: {error.strerror}") from error
        self._link.setblocking(False)

    def heard(self, timeout_s: float) -> list[Socket]:
        """Those destroyed since the last call; waits for the first up to the time given."""
        select.select([self._link], [], [], max(timeout_s, 0))
        found: list[Socket] = []
        while True:
            try:
                data = self._link.recv(DATAGRAM_BYTES)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                # One notice, however many were lost.
                self.lost += 1
                continue
            for _, _, body in tcp_info.messages(data):
                one = tcp_info.socket_of(body, closed=True)
                if one is not None:
                    found.append(one)

    def close(self) -> None:
        """Hear no more."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
