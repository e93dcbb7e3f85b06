# SPDX-License-Identifier: MIT
"""Routing netlink: message kinds and headers of routes, rules, links and addresses; a namespace's addresses.

Dropped: of an address its flags (tentative, deprecated), interface and life, since a lookup takes any local address,
and one that no socket can bind is passed over.

Source     rtnetlink(7); linux/rtnetlink.h, linux/if_addr.h, linux/fib_rules.h
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from configtron.linux.netlink import Netlink, attributes

# struct rtmsg: family, destination and source length, TOS, table, protocol, scope, type, flags
RTMSG = struct.Struct("=BBBBBBBBI")
NEW_LINK = 16
GET_ADDRESS = 22
NEW_ROUTE, DEL_ROUTE, GET_ROUTE = 24, 25, 26
NEW_RULE, DEL_RULE, GET_RULE = 32, 33, 34
TABLE_UNSPEC = 0  # in struct rtmsg's field of 8 bits: the number, which may exceed 255, is an attribute
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
VERSIONS = {int(family): version for version, family in FAMILIES.items()}
# Attributes of a route (RTA_*).
DST, SRC, OIF, GATEWAY, PRIORITY, PREFSRC, METRICS, MULTIPATH, TABLE, VIA, ENCAP, NH_ID = (
    1, 2, 4, 5, 6, 7, 8, 9, 15, 18, 22, 30,
)  # fmt: skip
# struct ifaddrmsg: family, prefix length, flags, scope, interface; its attributes (IFA_*).
_IFADDR, _IFA_ADDRESS, _IFA_LOCAL = struct.Struct("=BBBBI"), 1, 2


def addresses(net: Netlink, version: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield (packed address, scope: RT_SCOPE_*) of each local address; version 0 asks for IPv4 and IPv6.

    Errors: as `Netlink.dump`.
    """
    family = FAMILIES[version] if version else socket.AF_UNSPEC
    for body in net.dump(GET_ADDRESS, _IFADDR.pack(family, 0, 0, 0, 0)):
        found = attributes(body, _IFADDR.size)
        # On a point-to-point link IFA_ADDRESS is the other end's.
        if packed := found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS):
            yield packed, body[3]
