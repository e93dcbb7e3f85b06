# SPDX-License-Identifier: MIT
"""What the kernel tells of its routing tables while nobody asks: whether the main table, ours, or a link has changed,
and to which prefixes of ours routes were written.

Few events tell what happened: when a link goes down the kernel takes IPv4 routes away in silence. So an event is only a
reason to look, and says where; it is never what is believed.
"""

from __future__ import annotations

import errno
import struct

from configtron.tune.drivers.routes import DST, PRIORITY, Prefix
from configtron.tune.drivers.routes import TABLE as TABLE_ATTRIBUTE
from configtron.tune.drivers.rtnetlink import (
    DEL_ROUTE,
    DEL_RULE,
    HEADER,
    NEW_ROUTE,
    NEW_RULE,
    RTMSG,
    VERSIONS,
    Netlink,
    attributes,
)
from configtron.tune.drivers.table import MAIN, NOTES_TABLE, TABLE
from configtron.tune.overlay import COPY

NEW_LINK = 16
# struct ifinfomsg: family, type, index, flags, which of the flags have changed
IFINFO = struct.Struct("=BxHiII")
# RTNLGRP_*: links, IPv4 addresses, routes, rules; IPv6 addresses, routes, rules.
GROUPS = (1, 5, 7, 8, 9, 11, 19)
MAIN_CHANGED, OURS_CHANGED, LINK_CHANGED, LOST = "main", "ours", "link", "lost"
_TABLES = {MAIN: MAIN_CHANGED, NOTES_TABLE: OURS_CHANGED}


class Monitor:
    """Listens from when it is made."""

    def __init__(self, netns: str) -> None:
        self._net = Netlink(netns, GROUPS)
        self._net.socket.setblocking(False)

    def heard(self) -> frozenset[str | Prefix]:
        """What has changed since the last call, and prefixes of ours; LOST where more was told than could be kept."""
        found: set[str | Prefix] = set()
        while True:
            try:
                block = self._net.socket.recv(1 << 17)
            except BlockingIOError:
                return frozenset(found)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                found.add(LOST)
                continue
            found |= set(_told(block))


def _told(block: bytes) -> list[str | Prefix]:
    found: list[str | Prefix] = []
    at = 0
    while at + HEADER.size <= len(block):
        length, kind, _, _, _ = HEADER.unpack_from(block, at)
        body = block[at + HEADER.size : at + length]
        if kind in (NEW_ROUTE, DEL_ROUTE):
            found.append(_written(body))
        elif kind in (NEW_RULE, DEL_RULE):
            found.append(OURS_CHANGED)
        elif kind != NEW_LINK or IFINFO.unpack_from(body)[-1]:
            found.append(LINK_CHANGED)  # an address, or a link that went up, down or away; not one that only tells
        at += max(HEADER.size, (length + 3) & ~3)
    return [word for word in found if word]


def _written(body: bytes) -> str | Prefix:
    """Of which table a route was written; of a prefix's in ours, which. "" for somebody else's."""
    found = attributes(body, RTMSG.size)
    table = _number(found.get(TABLE_ATTRIBUTE), body[4])
    if table != TABLE:
        return _TABLES.get(table, "")
    if body[0] not in VERSIONS or DST not in found or _number(found.get(PRIORITY), 0) >= COPY:
        return OURS_CHANGED  # the default profile's, or a copy of the host's
    return VERSIONS[body[0]], found[DST], body[1]


def _number(packed: bytes | None, otherwise: int) -> int:
    return int(struct.unpack("=I", packed)[0]) if packed else otherwise
