# SPDX-License-Identifier: MIT
"""Netlink: one socket client for routes, addresses, queueing disciplines, socket diagnostics and generic families.

Question   How does a process query, change and watch the kernel's network state, without a fork of a command?
Method     A socket of one netlink protocol in one network namespace. `dump` lists, `ask` looks one thing up, `write`
           changes many things in batches whose last request asks for an acknowledgement, `events` reads what the
           kernel broadcasts to the groups joined. Errors name the request of a batch and carry the kernel's extended
           explanation (NLMSGERR_ATTR_MSG).
           Dropped: the sender's port, since only root can send in the kernel's place; other flags.
Fails as   a dump that the kernel flags as torn (NLM_F_DUMP_INTR: the table changed meanwhile) is asked again; events
           that the socket's buffer had no room for are reported as lost.
Differs    from pyroute2: messages stay bytes, and callers unpack only the attributes that they need: decision 0040.
Source     netlink(7), rtnetlink(7), sock_diag(7); linux/netlink.h
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from configtron.linux.netns import inside
from configtron.model.errors import Missing, Refused

# Protocols (linux/netlink.h).
ROUTE, SOCK_DIAG, GENERIC = 0, 4, 16
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, kind, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length, kind
ERROR, DONE = 2, 3
REQUEST, ACK, REPLACE, CREATE, DUMP = 1, 4, 0x100, 0x400, 0x300
_DUMP_INTERRUPTED, _CAPPED, _HAS_TEXT = 0x10, 0x100, 0x200
_SOL_NETLINK, _ADD_MEMBERSHIP, _CAP_ACK, _EXT_ACK, _STRICT_CHECK = 270, 1, 10, 11, 12
_SO_RCVBUFFORCE = 33
# An attribute's kind without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
_KIND_MASK = 0x3FFF
# Requests in one message to the kernel: their answers, should all fail, must fit the socket's buffer.
BATCH = 64
# A table that changes during each of that many dumps is being rewritten by another program.
READINGS = 10
# The kernel fills at most this much at once (NLMSG_GOODSIZE grows to what the reader offers).
BUFFER_BYTES = 1 << 17


class NetlinkMessage(NamedTuple):
    """One message of the kernel: its kind and what follows the header."""

    kind: int
    body: bytes


class NetlinkError(Refused):
    """A request that the kernel refused: its position in the batch, its errno, the kernel's explanation."""

    def __init__(self, position: int, number: int, explanation: str) -> None:
        super().__init__(explanation or os.strerror(number))
        self.position, self.number = position, number


def attribute(kind: int, body: bytes) -> bytes:
    """Return struct nlattr with its value, padded to four bytes."""
    return _ATTRIBUTE.pack(4 + len(body), kind) + body + bytes(-len(body) % 4)


def attributes(body: bytes, at: int = 0) -> dict[int, bytes]:
    """Return the attributes from byte `at` on, by kind; the last of a kind. Stops at one that is cut off."""
    found, end = {}, len(body)
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < 4 or at + length > end:
            break
        found[kind & _KIND_MASK] = body[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def messages(block: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (kind, flags, sequence, body) of each message in a datagram. Stops at one that is cut off."""
    at, end = 0, len(block)
    while at + HEADER.size <= end:
        length, kind, flags, sequence, _ = HEADER.unpack_from(block, at)
        if length < HEADER.size or at + length > end:
            break
        yield kind, flags, sequence, block[at + HEADER.size : at + length]
        at += (length + 3) & ~3


class Netlink:
    """A socket of one netlink protocol in one network namespace ("": where this thread stands).

    groups         multicast groups to join, by number (RTNLGRP_*, SKNLGRP_*); `events` reads them
    buffer_bytes   receive buffer for events; without CAP_NET_ADMIN the kernel grants what rmem_max allows

    Errors: `OSError` where the kernel lacks the protocol or a group.
    """

    def __init__(
        self, netns: str = "", protocol: int = ROUTE, groups: Sequence[int] = (), buffer_bytes: int = 0
    ) -> None:
        with inside(netns):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        try:
            for option in (_CAP_ACK, _EXT_ACK, _STRICT_CHECK):
                self.socket.setsockopt(_SOL_NETLINK, option, 1)
            if buffer_bytes:
                self._enlarge(buffer_bytes)
            self.socket.bind((0, 0))
            for group in groups:
                self.socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        except OSError:
            self.socket.close()
            raise
        self.socket.setblocking(not groups)
        self.port: int = self.socket.getsockname()[0]
        self._sequence = 0

    def _enlarge(self, buffer_bytes: int) -> None:
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def dump(
        self,
        kind: int,
        body: bytes,
        *,
        flags: int = DUMP,
        readings: int = READINGS,
        torn_ok: bool = False,
        forgiven: Sequence[int] = (errno.ENOENT,),
    ) -> list[bytes]:
        """Return the bodies of everything that the kernel lists for a request.

        readings   how often a torn list is asked again; then it is returned if `torn_ok`
        forgiven   errors that end the list like its regular end; a table that does not exist is empty

        Errors: `NetlinkError`, `Refused` if each reading is torn, `Missing` where the kernel's answer was lost.
        """
        answers: list[bytes] = []
        for _ in range(readings):
            answers, whole = self._dump(kind, flags, body, forgiven)
            if whole:
                return answers
        if torn_ok:
            return answers
        raise Refused("the kernel's tables change faster than they can be read; try again when they rest")

    def _dump(self, kind: int, flags: int, body: bytes, forgiven: Sequence[int]) -> tuple[list[bytes], bool]:
        self._sequence += 1
        self.socket.send(HEADER.pack(16 + len(body), kind, flags | REQUEST, self._sequence, 0) + body)
        found: list[bytes] = []
        flagged, unpack = 0, HEADER.unpack_from
        while True:
            # Written out rather than by `messages`: a table of 100 000 routes passes here.
            block, at = self._block(), 0
            while at < len(block):
                length, answered, marks, sequence, _ = unpack(block, at)
                if sequence == self._sequence:
                    flagged |= marks
                    if answered not in (DONE, ERROR):
                        found.append(block[at + 16 : at + length])
                    else:
                        _raise_unless(block[at + 16 : at + length], marks, forgiven)
                        return found, not flagged & _DUMP_INTERRUPTED
                at += (length + 3) & ~3

    def _block(self) -> bytes:
        try:
            return self.socket.recv(BUFFER_BYTES)
        except OSError as error:
            raise Missing(f"netlink: {error.strerror}; try again") from error

    def ask(self, kind: int, body: bytes) -> NetlinkMessage | None:
        """Return the single answer to a request; None where there is none (no route, no such socket).

        Errors: `NetlinkError` where the kernel explains why it does not understand the question.
        """
        self._sequence += 1
        self.socket.send(HEADER.pack(16 + len(body), kind, REQUEST, self._sequence, 0) + body)
        while True:
            for answered, flags, sequence, answer in messages(self._block()):
                if sequence != self._sequence:
                    continue
                if answered != ERROR:
                    return NetlinkMessage(answered, answer)
                # The kernel explains only requests that it does not understand.
                if explanation := _explanation(answer, flags):
                    raise NetlinkError(0, _errno(answer), explanation)
                return None

    def write(self, requests: Iterable[tuple[int, int, bytes]], forgiven: Sequence[int] = ()) -> int:
        """Send (kind, flags, body) of each request; return how many.

        forgiven   errors (errno) that are no failure

        Errors: `NetlinkError` of the first request that failed; no further batch is sent.
        """
        first, batch = self._sequence + 1, []
        for request in requests:
            batch.append(request)
            if len(batch) == BATCH:
                self._send(batch, first, forgiven)
                batch = []
        if batch:
            self._send(batch, first, forgiven)
        return self._sequence + 1 - first

    def _send(self, batch: list[tuple[int, int, bytes]], first: int, forgiven: Sequence[int]) -> None:
        sequence, parts, pack = self._sequence, [], HEADER.pack
        for kind, flags, body in batch:
            sequence += 1
            parts.append(pack(16 + len(body), kind, flags | REQUEST, sequence, 0))
            parts.append(body)
        kind, flags, body = batch[-1]
        parts[-2] = pack(16 + len(body), kind, flags | REQUEST | ACK, sequence, 0)
        self._sequence = sequence
        self.socket.send(b"".join(parts))
        refused: NetlinkError | None = None
        while True:
            for answered, marks, at, answer in messages(self._block()):
                if answered != ERROR or at < first:
                    continue
                number = _errno(answer)
                if number and number not in forgiven and refused is None:
                    refused = NetlinkError(at - first, number, _explanation(answer, marks))
                if at == sequence:
                    if refused:
                        raise refused
                    return

    def events(self, timeout_s: float = 0.0) -> tuple[list[NetlinkMessage], int]:
        """Return what the kernel broadcast since the last call, and how often its buffer overflowed meanwhile.

        timeout_s   how long to wait for the first event

        An overflow is reported once, however many events were lost.
        """
        if timeout_s > 0:
            select.select([self.socket], [], [], timeout_s)
        found: list[NetlinkMessage] = []
        lost = 0
        with suppress(BlockingIOError):
            while True:
                try:
                    block = self.socket.recv(BUFFER_BYTES)
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise
                    lost += 1
                    continue
                found += [NetlinkMessage(kind, body) for kind, _, _, body in messages(block)]
        return found, lost


def _errno(body: bytes) -> int:
    return -int(struct.unpack_from("=i", body)[0]) if len(body) >= 4 else 0


def _raise_unless(body: bytes, flags: int, forgiven: Sequence[int]) -> None:
    """Check the last message of a dump. Errors: `NetlinkError`."""
    number = _errno(body)
    if number and number not in forgiven:
        raise NetlinkError(0, number, _explanation(body, flags))


def _explanation(body: bytes, flags: int) -> str:
    """Return the kernel's own explanation (NLMSGERR_ATTR_MSG), "" where it gives none."""
    if not flags & _HAS_TEXT:
        return ""
    found = attributes(body, 20 if flags & _CAPPED else 4 + struct.unpack_from("=I", body, 4)[0])
    return found.get(1, b"").split(b"\0")[0].decode(errors="replace")
