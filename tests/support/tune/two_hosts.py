# SPDX-License-Identifier: MIT
"""A server and a client, each a network namespace, with real sockets: what a driver sets is read from a connection.

The client has an address in each of several prefixes, all behind one gateway, as the Internet is.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from configtron.lab.internet.links import ip, ip6, sysctl, without_offloads
from configtron.linux.netns import inside
from tests.support.waiting import PATIENCE_S, until

SERVER, GATEWAY = "10.9.0.1", "10.9.0.2"
SERVER6, GATEWAY6 = "fd09::1", "fd09::2"
# The client's addresses: in the prefixes 10.1.0.0/16, 10.2.0.0/16, 10.3.0.0/16 and fd01::/32 to fd03::/32.
CLIENTS = ("10.1.0.2", "10.2.0.2", "10.3.0.2")
CLIENTS6 = ("fd01::2", "fd02::2", "fd03::2")
TCP_CONGESTION, TCP_WINDOW_CLAMP = 13, 10


@dataclass(frozen=True, slots=True)
class Info:
    """Of struct tcp_info (linux/tcp.h), what the tests read; options as TCPI_OPT_* bits."""

    options: int
    rto_us: int
    idle_ms: int
    ssthresh: int
    cwnd: int


@dataclass(frozen=True, slots=True)
class Hosts:
    """The namespaces' names; interfaces are `vs` (the server's) and `vc`."""

    server: str
    client: str

    @contextmanager
    def connection(self, source: str, chosen: str = "") -> Iterator[tuple[socket.socket, socket.socket]]:
        """(the server's end, the client's end) of a fresh connection from that address.

        chosen   the congestion control that the listener sets for itself
        """
        family = socket.AF_INET6 if ":" in source else socket.AF_INET
        with inside(self.server):
            listener = socket.socket(family)
        with inside(self.client):
            ours = socket.socket(family)
        with listener, ours:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if chosen:
                listener.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, chosen.encode())
            listener.bind((SERVER6 if ":" in source else SERVER, 0))
            listener.listen()
            listener.settimeout(PATIENCE_S)
            ours.settimeout(PATIENCE_S)
            ours.bind((source, 0))
            ours.connect(listener.getsockname()[:2])
            theirs, _ = listener.accept()
            with theirs:
                theirs.settimeout(PATIENCE_S)
                yield theirs, ours

    def counter(self, name: str) -> int:
        """A counter of the server's stack (`nstat`)."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.server, "nstat", "-asz", name], capture_output=True, text=True, check=True
        )
        return int(done.stdout.split(name)[1].split()[0])

    @contextmanager
    def captured(self) -> Iterator[socket.socket]:
        """A socket that sees every packet of the client's interface, both ways."""
        with inside(self.client):
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        with wire:
            wire.bind(("vc", 3))
            wire.settimeout(PATIENCE_S)
            yield wire


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Raise both, take both away."""
    hosts = Hosts(f"ct-s-{os.getpid()}", f"ct-c-{os.getpid()}")
    try:
        for name in (hosts.server, hosts.client):
            subprocess.run(["ip", "netns", "add", name], check=True)
        ip(hosts.server, [f"link add vs type veth peer name vc netns {hosts.client}", "link set lo up"])
        # the link's addresses that the kernel makes by itself come late, with routes of their own
        ip(hosts.server, ["link set vs addrgenmode none", "addr add fe80::1/64 dev vs nodad"])
        ip(hosts.client, ["link set vc addrgenmode none", "addr add fe80::2/64 dev vc nodad"])
        ip(hosts.server, [f"addr add {SERVER}/24 dev vs", f"addr add {SERVER6}/64 dev vs nodad", "link set vs up"])
        ip(hosts.client, ["link set lo up", f"addr add {GATEWAY}/24 dev vc", f"addr add {GATEWAY6}/64 dev vc nodad"])
        ip(hosts.client, [*(f"addr add {each}/32 dev lo" for each in CLIENTS), "link set vc up"])
        ip6(hosts.client, [f"addr add {each}/128 dev lo nodad" for each in CLIENTS6])
        ip(hosts.server, [f"route add default via {GATEWAY}"])
        ip6(hosts.server, [f"route add default via {GATEWAY6}"])
        # a probe of the tail would add to a first flight
        sysctl(hosts.server, [("net/ipv4/tcp_early_retrans", "0")])
        without_offloads(hosts.server, "vs")
        without_offloads(hosts.client, "vc")
        # routes of a link whose carrier the kernel has not seen yet are marked so
        show = ["ip", "-netns", hosts.server, "link", "show", "vs"]
        until(lambda: " state UP " in subprocess.run(show, check=True, capture_output=True, text=True).stdout)
        yield hosts
    finally:
        for name in (hosts.server, hosts.client):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def info(end: socket.socket) -> Info:
    """The kernel's own words about a connection."""
    tcp_info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 112)
    words = struct.unpack_from("=26I", tcp_info, 8)
    return Info(options=tcp_info[5], rto_us=words[0], idle_ms=words[9], ssthresh=words[17], cwnd=words[18])


def congestion_control(end: socket.socket) -> str:
    return end.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).split(b"\0")[0].decode()


def window_clamp(end: socket.socket) -> int:
    return end.getsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP)


def send_all(sender: socket.socket, receiver: socket.socket, size: int) -> None:
    """Bytes from one end to the other, read there."""
    left = unsent = size
    while left:
        readable, writable, _ = select.select([receiver], [sender] if unsent else [], [], PATIENCE_S)
        assert readable or writable, f"{left} bytes have not arrived"
        if writable:
            unsent -= sender.send(bytes(min(unsent, 65536)), socket.MSG_DONTWAIT)
        if readable:
            left -= len(receiver.recv(min(left, 65536)))


def first_flight(hosts: Hosts, source: str) -> int:
    """Segments that the server sends while it hears no acknowledgement, counted until one comes again."""
    version, server = ("-6", SERVER6) if ":" in source else ("-4", SERVER)
    route = ["ip", version, "-netns", hosts.client, "route"]
    with hosts.captured() as wire, hosts.connection(source) as (theirs, _):
        subprocess.run([*route, "add", "blackhole", server], check=True)
        try:
            theirs.send(bytes(200_000), socket.MSG_DONTWAIT)
            numbers: set[int] = set()
            for segment in _segments(wire):
                if segment.size and segment.number in numbers:
                    break
                if segment.size:
                    numbers.add(segment.number)
        finally:
            subprocess.run([*route, "del", "blackhole", server], check=True)
    return len(numbers)


@dataclass(frozen=True, slots=True)
class Segment:
    """Of a TCP segment on the wire: sequence number, bytes of data, flags, the window as written."""

    number: int
    size: int
    flags: int
    window: int


def segment_of(frame: bytes) -> Segment | None:
    """The TCP segment in an Ethernet frame, without IP options or extension headers."""
    if frame[12:14] == b"\x08\x00" and frame[23] == 6:
        at, size = 34, int.from_bytes(frame[16:18], "big") - 20
    elif frame[12:14] == b"\x86\xdd" and frame[20] == 6:
        at, size = 54, int.from_bytes(frame[18:20], "big")
    else:
        return None
    number, _, offset, flags, window = struct.unpack_from("!IIBBH", frame, at + 4)
    return Segment(number, size - (offset >> 4) * 4, flags, window)


def _segments(wire: socket.socket) -> Iterator[Segment]:
    while True:
        if (segment := segment_of(wire.recv(2048))) is not None:
            yield segment


def synack_window(hosts: Hosts, source: str) -> int:
    """The receive window of the server's SYN-ACK, bytes."""
    with hosts.captured() as wire, hosts.connection(source):
        return next(segment.window for segment in _segments(wire) if segment.flags & 0x12 == 0x12)


def delayed_acks(hosts: Hosts, source: str) -> int:
    """How often the server's timer had to send the acknowledgement of a last word after a talk: once or never."""
    with hosts.connection(source) as (theirs, ours):
        for _ in range(20):  # more than the acknowledgements that a fresh connection sends at once (16)
            send_all(ours, theirs, 100)
            send_all(theirs, ours, 100)
        before = hosts.counter("TcpExtDelayedACKs")
        send_all(ours, theirs, 100)
        while fcntl.ioctl(ours, termios.TIOCOUTQ, bytes(4)) != bytes(4):
            select.select([], [], [], 0.01)  # a guest's time passes only while all wait
        return hosts.counter("TcpExtDelayedACKs") - before


def unsent(hosts: Hosts, source: str) -> int:
    """Bytes that the server's socket takes while the client reads none, until it says that it is full."""
    with hosts.connection(source) as (theirs, _):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        taken = 0
        while select.select([], [theirs], [], 0)[1]:
            taken += theirs.send(bytes(4096), socket.MSG_DONTWAIT)
        return taken


def corked(hosts: Hosts, source: str) -> int:
    """How many of the server's small writes wait for an earlier packet that has not left the host yet."""
    slow = ["tc", "-netns", hosts.server, "qdisc", "add", "dev", "vs", "root", "tbf"]
    subprocess.run([*slow, *"rate 8kbit burst 1600 limit 100000".split()], check=True)
    try:
        with hosts.connection(source) as (theirs, _):
            theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            before = hosts.counter("TcpExtTCPAutoCorking")
            for size in (1000, 1000, 1000, 10, 10):
                theirs.send(bytes(size))
            return hosts.counter("TcpExtTCPAutoCorking") - before
    finally:
        subprocess.run(["tc", "-netns", hosts.server, "qdisc", "del", "dev", "vs", "root"], check=True)


def window_after_idle(hosts: Hosts, source: str) -> tuple[int, int]:
    """The server's congestion window, grown, and when it sends again after it was idle for its own time-out."""
    with hosts.connection(source) as (theirs, ours):
        send_all(theirs, ours, 2_000_000)
        grown = info(theirs)
        while info(theirs).idle_ms * 1000 <= 2 * grown.rto_us:
            select.select([ours], [], [], 0.02)
        send_all(theirs, ours, 1)
        return grown.cwnd, info(theirs).cwnd
