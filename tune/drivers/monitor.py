"""What the kernel tells of its routing tables while nobody asks: whether the main table, ours, or a link has changed.

Few events tell what happened: when a link goes down the kernel takes IPv4 routes away in silence. So an event is only a
reason to look, never what is believed.
"""

from __future__ import annotations

import errno
import struct

from configtron.tune.drivers.routes import TABLE as TABLE_ATTRIBUTE
from configtron.tune.drivers.rtnetlink import (
    DEL_ROUTE,
    DEL_RULE,
    HEADER,
    NEW_ROUTE,
    NEW_RULE,
    RTMSG,
    Netlink,
    attributes,
)
from configtron.tune.drivers.table import MAIN, NOTES_TABLE, TABLE

NEW_LINK = 16
# struct ifinfomsg: family, type, index, flags, which of the flags have changed
IFINFO = struct.Struct("=BxHiII")
# RTNLGRP_*: links, IPv4 addresses, routes, rules; IPv6 addresses, routes, rules.
GROUPS = (1, 5, 7, 8, 9, 11, 19)
MAIN_CHANGED, OURS_CHANGED, LINK_CHANGED, LOST = "main", "ours", "link", "lost"
_TABLES = {MAIN: MAIN_CHANGED, TABLE: OURS_CHANGED, NOTES_TABLE: OURS_CHANGED}


class Monitor:
    """Listens from when it is made."""

    def __init__(self, netns: str) -> None:
        self._net = Netlink(netns, GROUPS)
        self._net.socket.setblocking(False)

    def heard(self) -> frozenset[str]:
        """What has changed since the last call; LOST where more was told than could be kept."""
        found: set[str] = set()
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


def _told(block: bytes) -> list[str]:
    found, at = [], 0
    while at + HEADER.size <= len(block):
        length, kind, _, _, _ = HEADER.unpack_from(block, at)
        body = block[at + HEADER.size : at + length]
        if kind in (NEW_ROUTE, DEL_ROUTE):
            found.append(_TABLES.get(_table(body), ""))
        elif kind in (NEW_RULE, DEL_RULE):
            found.append(OURS_CHANGED)
        elif kind != NEW_LINK or IFINFO.unpack_from(body)[-1]:
            found.append(LINK_CHANGED)  # an address, or a link that went up, down or away; not one that only tells
        at += max(HEADER.size, (length + 3) & ~3)
    return [word for word in found if word]


def _table(body: bytes) -> int:
    long = attributes(body, RTMSG.size).get(TABLE_ATTRIBUTE)
    return int(struct.unpack("=I", long)[0]) if long else body[4]
