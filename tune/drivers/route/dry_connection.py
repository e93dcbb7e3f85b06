# SPDX-License-Identifier: MIT
"""A connection that sends no packet: the settings that the kernel gives a client's connection, read from a real socket.

Question   Do the routes, rules and modules of this host give a client's connection what its profile says?
Method     A socket in repair mode (TCP_REPAIR) is connected: the kernel looks up the route and sets congestion control,
           window and clamp as for any connection, but sends nothing. Closing the socket sends nothing either.
Reads as   The congestion control's name, and the congestion window in segments, which is the initial one.
Fails as   None where the kernel refuses such a connection (no CAP_NET_ADMIN, no route, a broadcast address).
Differs    from a client's own connection: this host opens it. So a BPF program that acts on accepted connections alone
           does not see it, and it does not inherit a listener's options.
Source     linux/net/ipv4/tcp_output.c (tcp_connect, tcp_finish_connect); tcp(7), TCP_REPAIR
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from configtron.linux.netns import inside
from configtron.tune.drivers.socket_options import control_of

# linux/tcp.h; absent from Python's socket module.
_TCP_REPAIR = 19
# Of struct tcp_info: where snd_cwnd stands.
_WINDOW_AT = 80
# Any will do: nothing is sent there (RFC 863, discard).
_PORT = 9


class Begun(NamedTuple):
    """The settings with which a connection begins."""

    congestion_control: str
    window: int  # segments


def begun(netns: str, address: str, source: str = "", device: str = "") -> Begun | None:
    """Return how a connection to an address would begin; None if the kernel refuses it.

    source   the local address; "": the kernel chooses
    device   the device that it is bound to, a VRF's too; "": none
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(netns), socket.socket(family, socket.SOCK_STREAM) as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, 1)
            if device:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
            if source:
                one.bind((source, 0))
            one.connect((address, _PORT))
        except OSError:
            return None
        info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _WINDOW_AT + 4)
        return Begun(control_of(one), struct.unpack_from("=I", info, _WINDOW_AT)[0])
