# SPDX-License-Identifier: MIT
"""Which way a packet would leave: the kernel's own answer, for one destination at a time.

Question   By which interface, and from which address, does this namespace reach a target?
Method     RTM_GETROUTE over netlink, as `ip route get` asks: rules, tables, metrics and the cache are the kernel's.
Reads as   a `Route`; None where the kernel has none (unreachable, prohibited, or a source it does not have).
Source     rtnetlink(7); include/uapi/linux/rtnetlink.h; net/ipv4/route.c (inet_rtm_getroute)
"""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address
from typing import NamedTuple

from configtron.linux.netns import inside

# linux/netlink.h, linux/rtnetlink.h.
_HEADER, _ROUTE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI"), struct.Struct("=HH")
_NLM_F_REQUEST, _RTM_NEWROUTE, _RTM_GETROUTE = 1, 24, 26
_DESTINATION, _SOURCE, _OUTPUT, _PREFERRED = 1, 2, 4, 7
# Kinds of routes that lead somewhere (rtm_type): elsewhere, or to this host itself.
_UNICAST, _LOCAL = 1, 2
_ANSWER_BYTES = 1 << 14


class Route(NamedTuple):
    """The way to an address: by that interface, from that address; `local` if it is this namespace's own."""

    interface: str
    source: str
    local: bool


def route_to(address: str, *, netns: str = "", source: str = "", interface: str = "") -> Route | None:
    """The way to an address from a namespace; from that source or by that interface only, where they are named."""
    with inside(netns):
        by = _index(interface) if interface else 0
        if by is None:
            return None
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
            link.send(_question(address, source, by))
            return _answer(link.recv(_ANSWER_BYTES), source)


def is_local(address: str, netns: str = "") -> bool:
    """Whether the kernel takes packets for that address as its own, in that namespace."""
    found = route_to(address, netns=netns)
    return found is not None and found.local


def _question(address: str, source: str, by: int) -> bytes:
    packed = ip_address(address).packed
    family, bits = (socket.AF_INET, 32) if len(packed) == 4 else (socket.AF_INET6, 128)
    body = _ROUTE.pack(family, bits, bits if source else 0, 0, 0, 0, 0, 0, 0) + _attribute(_DESTINATION, packed)
    if source:
        body += _attribute(_SOURCE, ip_address(source).packed)
    if by:
        body += _attribute(_OUTPUT, struct.pack("=I", by))
    return _HEADER.pack(_HEADER.size + len(body), _RTM_GETROUTE, _NLM_F_REQUEST, 1, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _answer(data: bytes, source: str) -> Route | None:
    size, kind, *_ = _HEADER.unpack_from(data)
    if kind != _RTM_NEWROUTE:
        return None
    at = _HEADER.size + _ROUTE.size
    leads = _ROUTE.unpack_from(data, _HEADER.size)[7]
    found: dict[int, bytes] = {}
    while at + _ATTRIBUTE.size <= size:
        length, name = _ATTRIBUTE.unpack_from(data, at)
        found[name] = data[at + _ATTRIBUTE.size : at + length]
        at += length + -length % 4
    if leads not in (_UNICAST, _LOCAL) or _OUTPUT not in found:
        return None
    preferred = str(ip_address(found[_PREFERRED])) if _PREFERRED in found else ""
    (number,) = struct.unpack("=I", found[_OUTPUT])
    return Route(socket.if_indextoname(number), source or preferred, leads == _LOCAL)


def _index(interface: str) -> int | None:
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        return None
