# SPDX-License-Identifier: MIT
"""Inside a guest: our module, a server and a client in namespaces of their own, any client address, packets seen.

The two hosts are joined by one link with half a round trip of delay each way. The client answers for 10.0.0.0/8 and
fd00::/8, so a connection may come from any prefix. Runs as root of a kernel of its own and nowhere else.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from configtron.lab.internet.links import ip, ip6, sysctl, without_offloads
from configtron.linux.netns import inside
from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.kmod_driver import CONTROL
from configtron.tune.drivers.kmod.module_units import packed
from tests.support.tune.two_hosts import congestion_control, segment_of

SERVER, SERVER6 = "192.0.2.1", "2001:db8::1"
PORT4, PORT6 = 80, 81  # the one listens to IPv4, the other to both
RTT_S = 0.1
# linux/in.h, linux/in6.h, linux/tcp.h, asm-generic/socket.h
IP_FREEBIND, IPV6_FREEBIND, TCP_FASTOPEN, MSG_FASTOPEN, SO_TIMESTAMPNS = 15, 78, 23, 0x20000000, 35
# Unanswered connections end by themselves (tcp_orphan_retries); in virtual time it costs nothing to wait.
DRAIN_S = 900
control = congestion_control
_libc = ctypes.CDLL(None, use_errno=True)
# finit_module(2), delete_module(2) of x86_64: no package is needed for them.
_FINIT, _DELETE = 313, 176


def load(module: str) -> None:
    """Errors: the kernel's `OSError`, whatever the log says besides."""
    assert Path("/proc/sys/kernel/osrelease").read_text().strip() == platform.release()
    file = os.open(module, os.O_RDONLY)
    try:
        if _libc.syscall(_FINIT, file, b"", 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), module)
    finally:
        os.close(file)


def unload() -> int:
    """0, or the error's number."""
    return ctypes.get_errno() if _libc.syscall(_DELETE, b"configtron", os.O_NONBLOCK) else 0


def drained() -> int:
    """Unload once nothing holds the module any more; the last error's number when that does not come to pass."""
    until = time.monotonic() + DRAIN_S
    while (error := unload()) and time.monotonic() < until:
        time.sleep(1)
    return error


def ended() -> dict[str, Any]:
    """Unload the module; the error's number, and what the kernel's log holds that no healthy kernel says."""
    error = drained()
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {"unload": error, "complaints": [line for line in log if re.search("BUG|WARNING|Oops|Call Trace", line)]}


def program(play: Callable[..., dict[str, Any]]) -> None:
    """As a program, `MODULE [WORD ...]`: the module loaded, both hosts raised, a play; print what it found as JSON."""
    load(sys.argv[1])
    with hosts():
        found = play(*sys.argv[2:])
        default("cubic")
    print(json.dumps(found | ended()))


class Seen(NamedTuple):
    """One packet with data that reached the client: when, from which sequence number on, how many bytes."""

    at_s: float
    sequence: int
    length: int


class Wire:
    """All that reaches the client."""

    def __init__(self) -> None:
        with inside("c"):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind(("vc", 3))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.socket.setblocking(False)

    def data(self) -> list[Seen]:
        """Data packets since the last call, in order."""
        found: list[Seen] = []
        while True:
            try:
                frame, reported, _, sender = self.socket.recvmsg(2048, 64)
            except BlockingIOError:
                return found
            if sender[2] != socket.PACKET_OUTGOING and (seen := segment_of(frame)) and seen.size:
                seconds, nanoseconds = struct.unpack("=qq", reported[0][2])
                found.append(Seen(seconds + nanoseconds / 1e9, seen.number, seen.size))


@contextmanager
def hosts() -> Iterator[None]:
    """Namespaces `s` and `c`; the module is asked in `s`."""
    for name in ("s", "c"):
        subprocess.run(["ip", "netns", "add", name], check=True)
    ip("s", ["link add vs type veth peer name vc netns c", "link set lo up", f"addr add {SERVER}/24 dev vs"])
    ip("c", ["link set lo up", "addr add 192.0.2.2/24 dev vc", "addr add 2001:db8::2/64 dev vc nodad"])
    ip("s", [f"addr add {SERVER6}/64 dev vs nodad", "link set vs up"])
    ip("c", ["link set vc up", "route add local 10.0.0.0/8 dev lo"])
    ip6("c", ["route add local fd00::/8 dev lo"])
    ip("s", ["route add 10.0.0.0/8 via 192.0.2.2"])
    ip6("s", ["route add fd00::/8 via 2001:db8::2"])
    for name, end in (("s", "vs"), ("c", "vc")):
        without_offloads(name, end)
        tc(name, "add", f"{end} root netem delay {RTT_S / 2}s limit 100000")
        # no probe of the tail among the retransmissions, no window or round trip remembered from the last connection
        settings = {"tcp_early_retrans": "0", "tcp_no_metrics_save": "1", "tcp_fastopen": str(0x607)}
        sysctl(name, [(f"net/ipv4/{key}", value) for key, value in settings.items()])
    # the client offers 65535 bytes at once, the most that a first window can say
    sysctl("c", [("net/ipv4/tcp_rmem", "4096 1000000 6291456")])
    sysctl("s", [("net/ipv4/tcp_wmem", "4096 4000000 8000000")])
    yield
    for name in ("s", "c"):
        subprocess.run(["ip", "netns", "del", name], check=True)


def tc(netns: str, verb: str, words: str) -> None:
    subprocess.run(["ip", "netns", "exec", netns, "tc", "qdisc", verb, "dev", *words.split()], check=True)


def delayed(way_s: float = RTT_S / 2, names: str = "sc", words: str = "") -> None:
    """Delay what leaves these hosts so long, and let more befall it."""
    for name in names:
        tc(name, "change", f"v{name} root netem delay {way_s}s{words} limit 100000")


@contextmanager
def device(netns: str = "s") -> Iterator[Device]:
    with inside(netns):
        opened = Device()
    with opened:
        yield opened


def profile(reported: Device, prefixes: tuple[str, ...], **settings: int | str) -> int:
    """A profile of these settings, in the module's own units, for these prefixes."""
    made = reported.new_profile("p")
    reported.set_settings(made, {KEY_OF[knob]: value for knob, value in settings.items()})
    reported.set_prefixes(packed(dict.fromkeys(prefixes, made)))
    return made


def default(name: str, netns: str = "s") -> None:
    sysctl(netns, [("net/ipv4/tcp_congestion_control", name)])


def switch_on(reported: Device) -> None:
    reported.set_options(FLAGS["ENABLED"], 0, "cubic")
    default(CONTROL)


def listener(port: int) -> socket.socket:
    family = socket.AF_INET6 if port == PORT6 else socket.AF_INET
    with inside("s"):
        made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 16)
    if port == PORT6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.bind(("", port))
    made.listen(64)
    return made


def client_at(source: str, port: int = 0) -> socket.socket:
    """A client at any address of the client's host, connected when there is a port."""
    six = ":" in source
    with inside("c"):
        client = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    client.setsockopt(*((socket.IPPROTO_IPV6, IPV6_FREEBIND) if six else (socket.IPPROTO_IP, IP_FREEBIND)), 1)
    client.bind((source, 0))
    if port:
        client.connect((SERVER6 if six else SERVER, port))
    return client


def connected(
    at: socket.socket, source: str, port: int, fast_open: bool = False
) -> tuple[socket.socket, socket.socket]:
    """(the client's end, the server's end) of a connection from any address of the client's."""
    client = client_at(source, 0 if fast_open else port)
    if fast_open:
        client.sendto(b"x", MSG_FASTOPEN, (SERVER6 if ":" in source else SERVER, port))
    served, _ = at.accept()
    if fast_open:
        served.recv(1)
    return client, served


def aborted(*ends: socket.socket) -> None:
    """Close without TIME-WAIT at either side: the first end resets."""
    for one in ends:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


def window(one: socket.socket) -> int:
    return int(struct.unpack_from("=I", one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 80)[0])


def failure(call: Callable[[], object]) -> str:
    """The error's name, or "" when there is none."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""
