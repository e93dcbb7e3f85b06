# SPDX-License-Identifier: MIT
"""Flows of libutp over a scripted path in virtual time: its clock, its socket and its log are callbacks of ours.

flows = run(library, ScriptedPath(4.0, 0.02, 400), starts=[0.0, 8.0], until=30.0)
flows[0].waits      (moment of arrival, seconds in the queue) of each data packet
flows[0].steps      what its congestion control was given, and its window afterwards
"""

from __future__ import annotations

import ctypes
import heapq
import re
import socket
import struct
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, c_char, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from configtron.lab.schemes.scheme import PACKET_BYTES
from tests.support.scripted_path import Link, ScriptedPath

# Names of utp.h, in its order; those that are used here.
ACCEPT, READ, STATE, MILLISECONDS, MICROSECONDS, LOG, SENDTO = 1, 4, 6, 11, 12, 14, 15
LOG_NORMAL, SNDBUF, RCVBUF = 16, 19, 20
WRITABLE = (1, 2)
BUFFER = 4 << 20
# What a datagram with data has at least; others are acknowledgements, which do not queue.
DATA_BYTES = 200
TIMEOUTS_EVERY_S = 0.05
FIRST_PORT = 10_000
STEP = re.compile(rb"our_delay:(\d+) .*max_window:(\d+) .*acked_bytes:(\d+) .*scaled_gain:(-?[\d.]+)")


class _Arguments(ctypes.Structure):
    _fields_ = (
        ("context", c_void_p), ("socket", c_void_p), ("len", c_size_t), ("flags", c_uint32), ("kind", c_int),
        ("buf", POINTER(c_char)), ("address", c_void_p), ("size", c_uint32),
    )  # fmt: skip


CALLBACK = CFUNCTYPE(c_uint64, POINTER(_Arguments))


class Step(NamedTuple):
    """One call of its congestion control: ms of queueing, bytes, and bytes of window after it."""

    delay_ms: int
    acked: int
    window: int
    gain: float


@dataclass
class UtpFlow:
    """What became of a flow."""

    waits: list[tuple[float, float]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def between(self, first: float, last: float) -> tuple[float, float]:
        """Return Mbit/s, by full packets, and the mean seconds in the queue."""
        got = [wait for at, wait in self.waits if first <= at < last]
        return len(got) * PACKET_BYTES * 8e-6 / (last - first), sum(got) / max(1, len(got))


def _answer(answer: Callable[[_Arguments], int], one: ctypes._Pointer[_Arguments]) -> int:
    return answer(one.contents) or 0


def _address(port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, bytes([127, 0, 0, 1]))


class _World:
    """Contexts, the bottleneck, and what is on its way. Even ports send, the odd ones after them receive."""

    def __init__(self, library: Path, path: ScriptedPath) -> None:
        self.library = ctypes.CDLL(str(library))
        for name in ("utp_init", "utp_create_socket"):
            getattr(self.library, name).restype = c_void_p
        self.library.utp_write.restype = ctypes.c_ssize_t
        self.path, self.link, self.now = path, Link(path), 0.0
        self.flows: list[UtpFlow] = []
        self.contexts: list[c_void_p] = []
        self.sockets: list[c_void_p] = []
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self._kept: list[object] = []
        self._data = ctypes.create_string_buffer(1 << 16)

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (when, len(self._kept), what))
        self._kept.append(None)

    def open(self, port: int) -> None:
        context = c_void_p(self.library.utp_init(2))
        self.contexts.append(context)
        answers: dict[int, Callable[[_Arguments], int]] = {
            # without this one a connection is refused
            ACCEPT: lambda _: 0,
            SENDTO: lambda one: self._send(port, one.buf[: one.len]),
            MILLISECONDS: lambda _: int(self.now * 1e3),
            MICROSECONDS: lambda _: int(self.now * 1e6),
            STATE: lambda one: self._write(port) if (one.address or 0) & 0xFFFFFFFF in WRITABLE else 0,
            READ: lambda one: self.library.utp_read_drained(c_void_p(one.socket)) and 0,
            LOG: lambda one: self._log(port, ctypes.string_at(one.buf)),
        }
        for kind, answer in answers.items():
            callback = CALLBACK(partial(_answer, answer))
            self._kept.append(callback)
            self.library.utp_set_callback(context, kind, callback)
        for option, value in ((LOG_NORMAL, 1 - port % 2), (SNDBUF, BUFFER), (RCVBUF, BUFFER)):
            self.library.utp_context_set_option(context, option, value)

    def connect(self, port: int) -> None:
        self.sockets[port // 2] = c_void_p(self.library.utp_create_socket(self.contexts[port]))
        to = _address(FIRST_PORT + port + 1)
        self.library.utp_connect(self.sockets[port // 2], to, len(to))
        self.timeouts(port)

    def timeouts(self, port: int) -> None:
        for one in (port, port + 1):
            self.library.utp_check_timeouts(self.contexts[one])
        self.at(self.now + TIMEOUTS_EVERY_S, lambda: self.timeouts(port))

    def _write(self, port: int) -> int:
        if port % 2 == 0:
            while self.library.utp_write(self.sockets[port // 2], self._data, c_size_t(len(self._data))) > 0:
                pass
        return 0

    def _log(self, port: int, line: bytes) -> int:
        if found := STEP.search(line):
            delay, window, acked = (int(word) for word in found.groups()[:3])
            self.flows[port // 2].steps.append(Step(delay, acked, window, float(found[4])))
        return 0

    def _send(self, port: int, datagram: bytes) -> int:
        other, leaves = port ^ 1, self.now
        if port % 2 == 0 and len(datagram) > DATA_BYTES:
            leaves = self.link.join(self.now)
            if leaves == float("inf"):
                return 0
            waited = leaves - self.path.packet_s(leaves) - self.now
            self.flows[port // 2].waits.append((leaves + self.path.delay_s, max(0.0, waited)))
        self.at(leaves + self.path.delay_s, lambda: self._deliver(other, datagram))
        return 0

    def _deliver(self, port: int, datagram: bytes) -> None:
        origin = _address(FIRST_PORT + (port ^ 1))
        self.library.utp_process_udp(self.contexts[port], datagram, c_size_t(len(datagram)), origin, len(origin))
        self.library.utp_issue_deferred_acks(self.contexts[port])


def run(library: Path, path: ScriptedPath, starts: Sequence[float], until: float) -> list[UtpFlow]:
    """Drive flows over one bottleneck."""
    world = _World(library, path)
    for number, start in enumerate(starts):
        world.flows.append(UtpFlow())
        world.sockets.append(c_void_p())
        world.open(2 * number)
        world.open(2 * number + 1)
        world.at(start, partial(world.connect, 2 * number))
    while world.events and world.events[0][0] < until:
        world.now, _, what = heapq.heappop(world.events)
        what()
    return world.flows
