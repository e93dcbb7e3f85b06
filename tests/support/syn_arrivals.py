# SPDX-License-Identifier: MIT
"""SYNs as they arrive in a network namespace: when, from where, to where."""

from __future__ import annotations

import socket
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import NamedTuple

from configtron.linux import packet as packets
from configtron.linux.netns import inside
from configtron.probe.wire.filter import compile_filter

_SO_TIMESTAMPNS, _ETH_P_ALL = 35, 3
_RECEIVE_BYTES = 1 << 22
# From the IP header on (LINKTYPE_RAW as libpcap counts on Linux): what a SOCK_DGRAM socket delivers.
_DLT_RAW = 12
SYNS = "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn"


class Arrival(NamedTuple):
    """A SYN: the kernel's time (s), and the connection's ends."""

    at: float
    source: str
    source_port: int
    target: str
    port: int


@contextmanager
def syn_arrivals(netns: str, prefix: str) -> Iterator[list[Arrival]]:
    """Listen for IPv4 SYNs to addresses that begin so; the list grows until the block ends."""
    found: list[Arrival] = []
    over = Event()
    with inside(netns):
        ear = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    # The kernel picks the SYNs out: this process would take half a processor for what a fast campaign sends.
    packets.attach_filter(ear, compile_filter(SYNS, link=_DLT_RAW))
    ear.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    ear.settimeout(0.2)
    thread = Thread(target=_listen, args=(ear, prefix, found, over))
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        ear.close()


def _listen(ear: socket.socket, prefix: str, found: list[Arrival], over: Event) -> None:
    while not over.is_set():
        try:
            packet, ancillary, _, source = ear.recvmsg(128, socket.CMSG_SPACE(16))
        except TimeoutError:
            continue
        if source[2] == socket.PACKET_OUTGOING or len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != 6:
            continue
        at, target = (packet[0] & 15) * 4, socket.inet_ntoa(packet[16:20])
        if packet[at + 13] & 0x12 == 0x02 and target.startswith(prefix):
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            ports = struct.unpack("!HH", packet[at : at + 4])
            arrival = Arrival(seconds + nanoseconds / 1e9, socket.inet_ntoa(packet[12:16]), ports[0], target, ports[1])
            found.append(arrival)


def fullest_second(times: Sequence[float]) -> int:
    """Return arrivals in the fullest half-open window of one second."""
    ordered = sorted(times)
    return max((bisect_left(ordered, at + 1) - n for n, at in enumerate(ordered)), default=0)
