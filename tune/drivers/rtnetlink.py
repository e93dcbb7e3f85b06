# SPDX-License-Identifier: MIT
"""The kernel's routing tables by netlink: whole tables read, many routes written at once.

Rules for this file: it knows the wire format and nothing of profiles. Every request that changes something asks for
an answer or stands in a batch whose last does; an error names the request it belongs to. What the kernel cannot say
in a table's dump because the table changed meanwhile (NLM_F_DUMP_INTR) is asked again.

Cost       `python -m benchmarks.tune_scale --drivers route`. Packing one by hand takes a tenth of what a general
           library takes.
Source     linux/netlink.h, linux/rtnetlink.h, linux/fib_rules.h; rtnetlink(7)
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from configtron.linux.netns import inside
from configtron.model.errors import Missing, Refused

HEADER = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
RTMSG = struct.Struct("=BBBBBBBBI")  # family, dst length, src length, tos, table, protocol, scope, type, flags
NEW_ROUTE, DEL_ROUTE, GET_ROUTE = 24, 25, 26
NEW_RULE, DEL_RULE, GET_RULE = 32, 33, 34
ERROR = 2
REQUEST, ACK, REPLACE, EXCL, CREATE, DUMP = 1, 4, 0x100, 0x200, 0x400, 0x300
DUMP_INTERRUPTED, CAPPED, HAS_TEXT = 0x10, 0x100, 0x200
TABLE_UNSPEC = 0  # in the short field: the true number, which may exceed 255, is an attribute
SOL_NETLINK, CAP_ACK, EXT_ACK, STRICT_CHECK = 270, 10, 11, 12
# Requests in one message to the kernel: their answers, should all fail, must fit the socket's buffer.
BATCH = 64
# A table that changes under each of that many readings is in somebody else's hands just now.
READINGS = 10
# What the kernel fills at once at most (NLMSG_GOODSIZE grows to it when the reader offers as much).
BUFFER_BYTES = 1 << 17
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
VERSIONS = {int(family): version for version, family in FAMILIES.items()}


class Answer(NamedTuple):
    """One message of the kernel: its kind and what follows the header."""

    kind: int
    body: bytes


class KernelSaysNo(Refused):
    """A request that the kernel refused: which of the batch, its errno, its own words."""

    def __init__(self, position: int, number: int, words: str) -> None:
        super().__init__(words or os.strerror(number))
        self.position, self.number = position, number


def attribute(kind: int, body: bytes) -> bytes:
    """struct rtattr, padded to four bytes."""
    return struct.pack("=HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)


def attributes(body: bytes, at: int = 0) -> dict[int, bytes]:
    """The attributes that follow a message's fixed part, by kind; the last of a kind."""
    found, end = {}, len(body)
    while at + 4 <= end:
        length, kind = struct.unpack_from("=HH", body, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = body[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


class Netlink:
    """A socket to the routing tables of one network namespace."""

    def __init__(self, netns: str = "", groups: Sequence[int] = ()) -> None:
        with inside(netns):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        for option in (CAP_ACK, EXT_ACK, STRICT_CHECK):
            self.socket.setsockopt(SOL_NETLINK, option, 1)
        self.socket.bind((0, 0))
        for group in groups:
            self.socket.setsockopt(SOL_NETLINK, 1, group)  # NETLINK_ADD_MEMBERSHIP
        self.port: int = self.socket.getsockname()[0]
        self._sequence = 0

    def close(self) -> None:
        """Give the socket back."""
        self.socket.close()

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """All that the kernel lists for a request, without headers; nothing where there is no such table.

        Errors: `Refused`.
        """
        for _ in range(READINGS):
            answers, whole = self._dump(kind, body)
            if whole:
                return answers
        raise Refused("the routing tables change faster than they can be read; try again when they rest")

    def _dump(self, kind: int, body: bytes) -> tuple[list[bytes], bool]:
        self._sequence += 1
        self.socket.send(HEADER.pack(16 + len(body), kind, REQUEST | DUMP, self._sequence, 0) + body)
        found: list[bytes] = []
        flagged, unpack = 0, HEADER.unpack_from
        while True:
            block, at = self._block(), 0
            while at < len(block):
                length, told, flags, sequence, _ = unpack(block, at)
                if sequence == self._sequence:
                    flagged |= flags
                    if told == kind - 2:  # RTM_NEW... is two before RTM_GET...
                        found.append(block[at + 16 : at + length])
                    else:
                        _ended(block[at + 16 : at + length], flags)
                        return found, not flagged & DUMP_INTERRUPTED
                at += (length + 3) & ~3

    def _block(self) -> bytes:
        try:
            return self.socket.recv(BUFFER_BYTES)
        except OSError as error:
            raise Missing(f"netlink: {error.strerror}; try again") from error

    def _received(self) -> Iterator[tuple[Answer, int, int]]:
        block, at = self._block(), 0
        while at + 16 <= len(block):
            length, kind, flags, sequence, _ = HEADER.unpack_from(block, at)
            yield Answer(kind, block[at + 16 : at + length]), flags, sequence
            at += (length + 3) & ~3

    def ask(self, kind: int, body: bytes) -> Answer | None:
        """The one answer to a question; None where there is none (no route leads there). Errors: `KernelSaysNo`."""
        self._sequence += 1
        self.socket.send(HEADER.pack(16 + len(body), kind, REQUEST, self._sequence, 0) + body)
        while True:
            for answer, flags, sequence in self._received():
                if sequence == self._sequence and answer.kind != ERROR:
                    return answer
                if sequence == self._sequence:
                    # it explains only requests that it does not understand
                    if words := _words(answer.body, flags):
                        raise KernelSaysNo(0, -struct.unpack_from("=i", answer.body)[0], words)
                    return None

    def write(self, requests: Iterable[tuple[int, int, bytes]], forgiven: Sequence[int] = ()) -> int:
        """Send (kind, flags, body) each; how many. Errors: `KernelSaysNo`, after which no batch is begun."""
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
        refused: KernelSaysNo | None = None
        while True:
            for answer, answer_flags, answered in self._received():
                if answer.kind != ERROR or answered < first:
                    continue
                number = -struct.unpack_from("=i", answer.body)[0]
                if number and number not in forgiven and refused is None:
                    refused = KernelSaysNo(answered - first, number, _words(answer.body, answer_flags))
                if answered == sequence:
                    if refused:
                        raise refused
                    return


def _ended(body: bytes, flags: int) -> None:
    """The last message of a dump. Errors: `KernelSaysNo`, unless the table is only absent."""
    number = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
    if number not in (0, errno.ENOENT):
        raise KernelSaysNo(0, number, _words(body, flags))


def _words(body: bytes, flags: int) -> str:
    """The kernel's own explanation (NLMSGERR_ATTR_MSG), "" where it gives none."""
    if not flags & HAS_TEXT:
        return ""
    found = attributes(body, 20 if flags & CAPPED else 4 + struct.unpack_from("=I", body, 4)[0])
    return found.get(1, b"").split(b"\0")[0].decode(errors="replace")
