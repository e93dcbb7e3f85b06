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
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

from configtron.linux.netlink import Netlink, NetlinkError, attribute, attributes
from configtron.linux.netns import inside
from configtron.linux.rtnetlink import DST, FAMILIES, GET_ROUTE, OIF, PREFSRC, RTMSG, SRC

# Kinds of routes that lead somewhere (rtm_type): elsewhere, or to this host itself.
_UNICAST, _LOCAL = 1, 2


class Route(NamedTuple):
    """The way to an address: by that interface, from that address; `local` if it is this namespace's own."""

    interface: str
    source: str
    local: bool


def route_to(address: str, *, netns: str = "", source: str = "", interface: str = "") -> Route | None:
    """Return the way to an address from a namespace; from that source or by that interface only, where they are
    named."""
    with inside(netns):
        by = _index(interface) if interface else 0
        if by is None:
            return None
        # The kernel refuses a source that it does not have, and explains why.
        with Netlink() as net, suppress(NetlinkError):
            found = net.ask(GET_ROUTE, _question(address, source, by))
            return _answer(found.body, source) if found else None
        return None


def is_local(address: str, netns: str = "") -> bool:
    """Return whether the kernel takes packets for that address as its own, in that namespace."""
    found = route_to(address, netns=netns)
    return found is not None and found.local


def _question(address: str, source: str, by: int) -> bytes:
    parsed = ip_address(address)
    bits = parsed.max_prefixlen
    body = RTMSG.pack(FAMILIES[parsed.version], bits, bits if source else 0, 0, 0, 0, 0, 0, 0)
    body += attribute(DST, parsed.packed)
    if source:
        body += attribute(SRC, ip_address(source).packed)
    return body + attribute(OIF, struct.pack("=I", by)) if by else body


def _answer(body: bytes, source: str) -> Route | None:
    leads = RTMSG.unpack_from(body)[7]
    found = attributes(body, RTMSG.size)
    if leads not in (_UNICAST, _LOCAL) or OIF not in found:
        return None
    preferred = str(ip_address(found[PREFSRC])) if PREFSRC in found else ""
    (number,) = struct.unpack("=I", found[OIF])
    return Route(socket.if_indextoname(number), source or preferred, leads == _LOCAL)


def _index(interface: str) -> int | None:
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        return None
