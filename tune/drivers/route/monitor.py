# SPDX-License-Identifier: MIT
"""Routing events: whether the main table, ours, or a link has changed, and which prefixes of ours were written.

Events do not report every change: when a link goes down the kernel removes IPv4 routes without one. So an event only
selects a table to read again; its content is never trusted.
"""

from __future__ import annotations

import struct

from configtron.linux.netlink import Netlink, NetlinkMessage, attributes
from configtron.linux.rtnetlink import (
    DEL_ROUTE,
    DEL_RULE,
    DST,
    NEW_LINK,
    NEW_ROUTE,
    NEW_RULE,
    PRIORITY,
    RTMSG,
    VERSIONS,
)
from configtron.linux.rtnetlink import TABLE as TABLE_ATTRIBUTE
from configtron.tune.drivers.route.routes import Prefix
from configtron.tune.drivers.route.table import MAIN, NOTES_TABLE, TABLE
from configtron.tune.route_table import COPY

# struct ifinfomsg: family, type, index, flags, which of the flags have changed
IFINFO = struct.Struct("=BxHiII")
# RTNLGRP_*: links, IPv4 addresses, routes, rules; IPv6 addresses, routes, rules.
GROUPS = (1, 5, 7, 8, 9, 11, 19)
MAIN_CHANGED, OURS_CHANGED, LINK_CHANGED, LOST = "main", "ours", "link", "lost"
_TABLES = {MAIN: MAIN_CHANGED, NOTES_TABLE: OURS_CHANGED}


class Monitor:
    """Route, rule, address and link events of a network namespace, from when it is made."""

    def __init__(self, netns: str) -> None:
        self._net = Netlink(netns, groups=GROUPS)

    def heard(self) -> frozenset[str | Prefix]:
        """Return the tables changed since the last call, and prefixes of ours; LOST where events were lost."""
        events, lost = self._net.events()
        found = {change for event in events if (change := _changed(event))}
        return frozenset(found | {LOST} if lost else found)


def _changed(event: NetlinkMessage) -> str | Prefix:
    """Return which table, or which prefix of ours, an event is about; "" for another program's."""
    if event.kind in (NEW_ROUTE, DEL_ROUTE):
        return _written(event.body)
    if event.kind in (NEW_RULE, DEL_RULE):
        return OURS_CHANGED
    # An address, or a link that went up, down or away; not one that only reports.
    return LINK_CHANGED if event.kind != NEW_LINK or IFINFO.unpack_from(event.body)[-1] else ""


def _written(body: bytes) -> str | Prefix:
    """Return which table a route was written to, or the prefix if it is one of ours; "" for another table."""
    found = attributes(body, RTMSG.size)
    table = _number(found.get(TABLE_ATTRIBUTE), body[4])
    if table != TABLE:
        return _TABLES.get(table, "")
    if body[0] not in VERSIONS or DST not in found or body[2] or _number(found.get(PRIORITY), 0) >= COPY:
        return OURS_CHANGED  # the default profile's, a copy of the host's, or one for some sources
    return VERSIONS[body[0]], found[DST], body[1]


def _number(packed: bytes | None, otherwise: int) -> int:
    return int(struct.unpack("=I", packed)[0]) if packed else otherwise
