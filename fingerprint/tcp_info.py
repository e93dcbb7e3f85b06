# SPDX-License-Identifier: MIT
"""What the kernel says of a TCP socket, out of the bytes that inet_diag answers with; `capture/diag.py` asks.

`struct tcp_info` only ever grows at its end, so fields are read by place as far as the kernel has them; the last one
that is needed here (dsack_dups) came with Linux 4.19.

Source     include/uapi/linux/tcp.h, include/uapi/linux/inet_diag.h, include/uapi/linux/sock_diag.h
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

AF_INET, AF_INET6, IPPROTO_TCP = 2, 10, 6
SOCK_DIAG_BY_FAMILY, NLMSG_ERROR, NLMSG_DONE, NLM_F_DUMP, NLM_F_DUMP_INTR = 20, 2, 3, 0x301, 0x10
# Attributes asked for (a bit each) and answered: tcp_info, and BBR's numbers, for which Vegas's bit stands too.
INFO, VEGAS, BBR = 2, 3, 16
EXTENSIONS = 1 << INFO - 1 | 1 << VEGAS - 1
# include/net/tcp_states.h: everything that has been established; not LISTEN, SYN_*, TIME_WAIT, CLOSE.
ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING = 1, 4, 5, 8, 9, 11
STATES = sum(1 << state for state in (ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING))
# Kernel's word for "no largest pacing rate": ~0UL.
UNPACED = 0xFFFFFFFFFFFFFFFF
# Kernel's word for "no round trip yet".
NEVER_US = 0xFFFFFFFF
# The other end of a socket that listens.
NO_PORT = b"\0\0"

HEADER = struct.Struct("=IHHII")  # length, kind, flags, number, port
# struct inet_diag_msg: family, state, timer, retransmissions; ports, addresses, interface, cookie; five counters.
MESSAGE = struct.Struct("=BBBB2s2s16s16sI8sIIIII")
ATTRIBUTE = struct.Struct("=HH")
# Field -> (place in struct tcp_info, format). A kernel that is too old for one leaves it 0.
FIELDS = {
    "rtt_us": (68, "I"), "rttvar_us": (72, "I"), "total_retrans": (100, "I"),
    "pacing_rate": (104, "Q"), "max_pacing_rate": (112, "Q"), "busy_us": (168, "Q"), "rwnd_limited_us": (176, "Q"),
    "sndbuf_limited_us": (184, "Q"),
    "bytes_received": (128, "Q"), "min_rtt_us": (148, "I"), "data_segs_out": (156, "I"),
    "delivery_rate": (160, "Q"), "bytes_sent": (200, "Q"), "bytes_retrans": (208, "Q"), "dsack_dups": (216, "I"),
}  # fmt: skip
# The byte of bit-fields whose lowest bit says that the application, not the path, set the delivery rate.
LIMITED = 7


class TcpInfo(NamedTuple):
    """The fields that features need. Times in microseconds, rates in bytes a second; min_rtt_us None: none yet.

    bytes_sent counts repeats, bytes_received the FIN; the pacing rate is what the sender holds itself to, its largest
    what an application asked for (`UNPACED` if it did not); of the busy time, shares in which the receiver's window or
    the send buffer was full.
    """

    rtt_us: int = 0
    rttvar_us: int = 0
    total_retrans: int = 0
    bytes_received: int = 0
    min_rtt_us: int | None = None
    data_segs_out: int = 0
    delivery_rate: int = 0
    bytes_sent: int = 0
    bytes_retrans: int = 0
    dsack_dups: int = 0
    app_limited: bool = False
    pacing_rate: int = 0
    max_pacing_rate: int = 0
    busy_us: int = 0
    rwnd_limited_us: int = 0
    sndbuf_limited_us: int = 0


class Socket(NamedTuple):
    """A socket as inet_diag reports it; bbr_rate in bytes a second, 0 without BBR.

    best_rate   the largest delivery rate (bytes a second) that earlier looks saw and that nothing but the path limited
    """

    local: bytes
    local_port: int
    remote: bytes
    remote_port: int
    closed: bool
    info: TcpInfo
    bbr_rate: int = 0
    best_rate: int = 0


def question(family: int, number: int) -> bytes:
    """A netlink message that asks for all established sockets of a family."""
    body = struct.pack("=BBBxI", family, IPPROTO_TCP, EXTENSIONS, STATES) + bytes(48)
    return HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, number, 0) + body


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(kind, flags, body) of the netlink messages in a datagram."""
    at = 0
    while at + HEADER.size <= len(data):
        size, kind, flags, _, _ = HEADER.unpack_from(data, at)
        if size < HEADER.size or at + size > len(data):
            return
        yield kind, flags, data[at + HEADER.size : at + size]
        at += size + -size % 4


def socket_of(body: bytes, *, closed: bool = False) -> Socket | None:
    """The socket of one answer; None of one that is no connection: another protocol, a listener, an attempt."""
    if len(body) < MESSAGE.size:
        return None
    family, _, _, _, local_port, remote_port, local, remote, *_ = MESSAGE.unpack_from(body)
    found = dict(attributes(body[MESSAGE.size :]))
    info = info_of(found.get(INFO, b""))
    if family not in (AF_INET, AF_INET6) or remote_port == NO_PORT or not (info.rtt_us or info.bytes_received):
        return None
    size = 4 if family == AF_INET else 16
    bbr = found.get(BBR, b"")
    low, high = struct.unpack_from("=II", bbr) if len(bbr) >= 8 else (0, 0)
    return Socket(
        local[:size], int.from_bytes(local_port, "big"), remote[:size], int.from_bytes(remote_port, "big"),
        closed, info, high << 32 | low,
    )  # fmt: skip


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(kind, value) of netlink attributes, as far as they make sense."""
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        size, kind = ATTRIBUTE.unpack_from(data, at)
        if size < ATTRIBUTE.size or at + size > len(data):
            return
        yield kind, data[at + ATTRIBUTE.size : at + size]
        at += size + -size % 4


def info_of(data: bytes) -> TcpInfo:
    """`struct tcp_info`, however long this kernel's is."""
    values: dict[str, int] = {}
    for name, (at, form) in FIELDS.items():
        if at + struct.calcsize(form) <= len(data):
            (values[name],) = struct.unpack_from(f"={form}", data, at)
    least = values.pop("min_rtt_us", NEVER_US)
    limited = len(data) > LIMITED and bool(data[LIMITED] & 1)
    return TcpInfo(**values, min_rtt_us=None if least == NEVER_US else least, app_limited=limited)
