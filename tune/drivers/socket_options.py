# SPDX-License-Identifier: MIT
"""Settings of an open connection as socket options: read from a socket, and set on it.

Source     tcp(7), socket(7); linux/net/ipv4/tcp.c (do_tcp_setsockopt), net/core/sock.c (SO_MAX_PACING_RATE)
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from configtron.model.knobs import KERNEL
from configtron.model.nouns import Profile, Value
from configtron.tune.drivers.bpf.layout import WRAPPED

CONTROL = "tcp_congestion_control"
_CONTROL_BYTES = 16
_TCP_CONGESTION = 13
# linux/socket.h
_SO_COOKIE, _COOKIE_BYTES = 57, 8
# Of struct tcp_info (linux/tcp.h): time-out (us), congestion window, retransmitted segments, most pacing rate, data
# segments sent.
_INFO = struct.Struct("=8xI68xI16xI8xQ36xI")
INFO_BYTES = _INFO.size


@dataclass(frozen=True, slots=True)
class Option:
    """A knob as a socket option: level, number, width in bytes; `unset` is written in place of a listener's 0."""

    level: int
    number: int
    width: int = 4
    unset: int = 0

    def get(self, descriptor: socket.socket) -> int:
        """Return its value on a socket. Errors: `OSError`."""
        return int.from_bytes(descriptor.getsockopt(self.level, self.number, self.width), sys.byteorder)

    def set(self, descriptor: socket.socket, value: int) -> None:
        """Set it on a socket. Errors: `OSError`."""
        descriptor.setsockopt(self.level, self.number, (value or self.unset).to_bytes(self.width, sys.byteorder))


# Width and value that unsets it, where they are not 4 and 0. A window clamp is unset by the kernel's own first value,
# the largest of RFC 7323.
SHAPES: Mapping[str, tuple[int, ...]] = {"max_pacing_rate": (8,), "window_clamp": (4, 65535 << 14)}
OPTIONS: Mapping[str, Option] = {
    knob: Option(*names.option, *SHAPES.get(knob, ()))
    for knob, names in KERNEL.items()
    if names.option and names.option[1] < 1000  # above: bpf_setsockopt alone
}


def as_options(profile: Profile | None) -> dict[str, Value]:
    """Return knob -> value as the socket option has it: `nagle` is the inverse of TCP_NODELAY."""
    settings = dict(profile.settings) if profile else {}
    if "nagle" in settings:
        settings["nagle"] = 1 - int(str(settings["nagle"]))
    return settings


def told(info: bytes, control: str) -> dict[str, Value]:
    """Return knob -> value as struct tcp_info and the congestion control's name tell it; also `cwnd` and `rto_us`."""
    rto_us, window, repeated, rate, sent = _INFO.unpack_from(info)
    begun = {} if repeated or sent else {"initcwnd": window}
    return {CONTROL: WRAPPED.get(control, control), "max_pacing_rate": rate, "cwnd": window, "rto_us": rto_us, **begun}


def control_of(one: socket.socket) -> str:
    """Return the name of a socket's congestion control. Errors: `OSError`."""
    return one.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _CONTROL_BYTES).split(b"\0")[0].decode()


def set_control(one: socket.socket, name: str) -> bool:
    """Set a socket's congestion control; return whether the kernel took it."""
    try:
        one.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, name.encode())
    except OSError:
        return False
    return True


def cookie_of(one: socket.socket) -> int:
    """Return SO_COOKIE, by which inet_diag names a socket too. Errors: `OSError`."""
    return int.from_bytes(one.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, _COOKIE_BYTES), sys.byteorder)


def option_value(one: socket.socket, knob: str) -> Value:
    """Return a knob's value on a socket: `CONTROL` or one of `OPTIONS`. Errors: `OSError`."""
    return control_of(one) if knob == CONTROL else OPTIONS[knob].get(one)


def set_option(one: socket.socket, knob: str, value: Value) -> bool:
    """Set a knob on a socket: `CONTROL` or one of `OPTIONS`; return whether the kernel took it."""
    if knob == CONTROL:
        return set_control(one, str(value))
    try:
        OPTIONS[knob].set(one, int(str(value)))
    except OSError:
        return False
    return True
