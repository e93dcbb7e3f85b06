# SPDX-License-Identifier: MIT
"""`struct tcp_info` and the connections that features are made of; `configtron/linux/sock_diag.py` asks the kernel.

`struct tcp_info` only ever grows at its end, so fields are read by place as far as the kernel has them; the last ones
that are needed here came with Linux 4.19 (dsack_dups) and 5.4 (snd_wnd; 0 before).

Dropped: what no feature needs (state, options, PMTU, reordering seen, ECN, times since the last packet).

Source     include/uapi/linux/tcp.h, include/uapi/linux/inet_diag.h, include/uapi/linux/sock_diag.h
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

# Attributes of inet_diag's answer (INET_DIAG_*): `struct tcp_info`, and BBR's numbers (struct tcp_bbr_info).
INFO, BBR = 2, 16
# Kernel's word for "no largest pacing rate": ~0UL.
UNPACED = 0xFFFFFFFFFFFFFFFF
# Kernel's word for "no round trip yet".
NEVER_US = 0xFFFFFFFF

# Field -> (place in struct tcp_info, format). A kernel that is too old for one leaves it 0.
FIELDS = {
    "rtt_us": (68, "I"), "rttvar_us": (72, "I"), "total_retrans": (100, "I"),
    "pacing_rate": (104, "Q"), "max_pacing_rate": (112, "Q"), "busy_us": (168, "Q"), "rwnd_limited_us": (176, "Q"),
    "sndbuf_limited_us": (184, "Q"),
    "bytes_received": (128, "Q"), "segs_in": (140, "I"), "min_rtt_us": (148, "I"), "data_segs_out": (156, "I"),
    "delivery_rate": (160, "Q"), "bytes_sent": (200, "Q"), "bytes_retrans": (208, "Q"), "dsack_dups": (216, "I"),
    "snd_cwnd": (80, "I"), "reordering": (88, "I"), "bytes_acked": (120, "Q"), "snd_wnd": (228, "I"),
    "snd_ssthresh": (76, "I"),
}  # fmt: skip
# The byte of bit-fields whose lowest bit says that the application, not the path, set the delivery rate.
LIMITED = 7


class TcpInfo(NamedTuple):
    """The fields that features need. Times in microseconds, rates in bytes a second; min_rtt_us None: none yet.

    bytes_sent counts repeats, bytes_received the FIN; the pacing rate is the sender's own, its largest the
    application's request (`UNPACED` if none); of the busy time, shares in which the receiver's window or the send
    buffer was full.
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
    reordering: int = 0
    snd_wnd: int = 0


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


_READ = tuple(name for name in TcpInfo._fields if name in FIELDS and name != "min_rtt_us")


def socket_of(
    local: tuple[bytes, int], remote: tuple[bytes, int], attributes: Mapping[int, bytes], *, closed: bool = False
) -> Socket | None:
    """Return a socket by its ends (packed address, port) and inet_diag's attributes, which are raw bytes by number.

    None for one that is no connection: a listener (no remote port), an attempt without a round trip.
    """
    info = info_of(attributes.get(INFO, b""))
    if not remote[1] or not (info.rtt_us or info.bytes_received):
        return None
    bbr = attributes.get(BBR, b"")
    low, high = struct.unpack_from("=II", bbr) if len(bbr) >= 8 else (0, 0)
    return Socket(*local, *remote, closed, info, high << 32 | low)


def field_of(data: bytes, name: str, absent: int = 0) -> int:
    """Return one field of `struct tcp_info` by its name in `FIELDS`; `absent` where the kernel is too old for it."""
    at, form = FIELDS[name]
    return int(struct.unpack_from(f"={form}", data, at)[0]) if at + struct.calcsize(form) <= len(data) else absent


def info_of(data: bytes) -> TcpInfo:
    """Return `struct tcp_info`, however long this kernel's is."""
    values = {name: field_of(data, name) for name in _READ}
    least = field_of(data, "min_rtt_us", NEVER_US)
    limited = len(data) > LIMITED and bool(data[LIMITED] & 1)
    return TcpInfo(**values, min_rtt_us=None if least == NEVER_US else least, app_limited=limited)
