# SPDX-License-Identifier: MIT
"""Routes in the kernel's netlink format: reader and writer.

A table of 100 000 routes holds few different ways. The reader parses the bytes after the destination once for each way
and recognises them later.

Fields     of struct rtmsg are all taken, but of `rtm_flags` only ONLINK. The kernel sets the other flags from the
           present state (dead, no carrier, offloaded). It skips a dead copy too, and the main table then decides. A
           type of service is refused (`tune/route_table.py`).
Attributes taken: destination, source prefix, interface, gateway of either family, metric, preferred source, metrics
           (CC_ALGORITHM is the only name), several ways, table, PREF (which ranks routers' routes of one metric).
           Dropped: NH_ID, since our copies must not share the kernel's caches, and the kernel also lists the object's
           hops; CACHEINFO (ages: an expired route leaves the main table, and a watch then deletes its copy).
           Of each hop of several: only the gateway. A route with any other attribute (encapsulation, realms, ...) is
           refused, and the message names the attribute.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address
from typing import NamedTuple

from configtron.linux.netlink import CREATE, REPLACE, Netlink, attribute, attributes
from configtron.linux.rtnetlink import (
    DEL_ROUTE,
    DST,
    ENCAP,
    FAMILIES,
    GATEWAY,
    GET_ROUTE,
    METRICS,
    MULTIPATH,
    NEW_ROUTE,
    NH_ID,
    OIF,
    PREFSRC,
    PRIORITY,
    RTMSG,
    SRC,
    TABLE,
    TABLE_UNSPEC,
    VERSIONS,
    VIA,
)
from configtron.model.errors import BadInput, Refused
from configtron.tune.route_table import Hop, RouteKey, RouteWay

CC_ALGORITHM = 16  # the only metric that is a name
KINDS = {1: "unicast", 6: "blackhole", 7: "unreachable", 8: "prohibit", 9: "throw"}
# Kinds of routes in the table `local`. A lookup may end there; our table and the main one hold none.
OWN_KINDS = {2: "local", 3: "broadcast", 4: "anycast", 5: "multicast"}
NUMBERS = {kind: number for number, kind in KINDS.items()}
PREF, RANKS = 20, {b"\1": 1, b"\3": -1}  # RTA_PREF: high and low (RFC 4191 2.1)
# RTA_CACHEINFO
UNDERSTOOD = {DST, SRC, OIF, GATEWAY, PRIORITY, PREFSRC, METRICS, MULTIPATH, TABLE, VIA, NH_ID, 12, PREF}
NAMED = {11: "realms", 21: "encapsulation", ENCAP: "encapsulation"}
DST_HEAD = {size: struct.pack("=HH", 4 + size, DST) for size in (4, 16)}
ONLINK = 4  # RTNH_F_ONLINK
NOWHERE = 255  # RT_SCOPE_NOWHERE: in a request to delete, any
FIB_MATCH, LOOKUP_TABLE = 0x2000, 0x1000
# struct rtnexthop: length, flags, weight less one, interface
NEXTHOP = struct.Struct("=HBBi")

Prefix = tuple[int, bytes, int]
RouteShape = tuple[int, str, RouteWay, int, int, int]


class Found(NamedTuple):
    """A route as the kernel lists it: key, way, table, protocol number, rank among routes of one metric, type of
    service."""

    key: RouteKey
    way: RouteWay
    table: int
    protocol: int
    rank: int
    tos: int


def parse(prefix: str) -> Prefix:
    """Return (version, address, length) of a prefix as rules write it. Errors: `BadInput`."""
    address, _, length = prefix.partition("/")
    version = 6 if ":" in address else 4
    try:
        packed, bits = socket.inet_pton(FAMILIES[version], address), int(length)
    except (OSError, ValueError) as error:
        raise BadInput(f"{prefix!r} is no prefix; write e.g. 192.0.2.0/24 or 2001:db8::/48") from error
    width = len(packed) * 8
    if not 0 <= bits <= width or int.from_bytes(packed, "big") & ((1 << (width - bits)) - 1):
        raise BadInput(f"{prefix!r} is no prefix (bits are set below its length); write e.g. 192.0.2.0/24")
    return version, packed, bits


def text(version: int, address: bytes, length: int) -> str:
    """Return a prefix as rules write it."""
    if version == 6 and not any(address[:10]):
        return f"{IPv6Address(address)}/{length}"  # inet_ntop would write the end as an IPv4 address
    return f"{socket.inet_ntop(FAMILIES[version], address)}/{length}"


class Writer:
    """Packs requests for one table; packs the bytes after the destination once for each way.

    hand   returns the protocol number that a route gets
    """

    def __init__(self, table: int, hand: Callable[[RouteKey, RouteWay], int]) -> None:
        self.table, self._hand = table, hand
        self._known: dict[tuple[int, int, int, str, int], tuple[bytes, bytes, RouteWay]] = {}

    def new(self, key: RouteKey, way: RouteWay) -> tuple[int, int, bytes]:
        """Return the request that makes a route, or replaces the route with the same key."""
        version, address, length, metric, source = key
        # the key is the way's identity, which is quick; the entry keeps the way, so no other way gets that identity
        known = self._known.get((version, length, metric, source, id(way)))
        if known is None:
            known = self._known[version, length, metric, source, id(way)] = (*self._around(key, way), way)
        return NEW_ROUTE, CREATE | REPLACE, known[0] + address + known[1]

    def _around(self, key: RouteKey, way: RouteWay) -> tuple[bytes, bytes]:
        flags = ONLINK if len(way.hops) == 1 and way.hops[0].onlink else 0
        scope = way.scope if way.kind == "unicast" else 0
        head = self._head(key, way, scope, NUMBERS[way.kind], flags) + DST_HEAD[len(key.address)]
        return head, self._place(key) + _hops(key.version, way) + _metrics(way)

    def delete(self, key: RouteKey, way: RouteWay) -> tuple[int, int, bytes]:
        """Return the request that deletes the route with that key, if it has our protocol number."""
        return DEL_ROUTE, 0, self._head(key, way, NOWHERE, 0, 0) + attribute(DST, key.address) + self._place(key)

    def _head(self, key: RouteKey, way: RouteWay, scope: int, kind: int, flags: int) -> bytes:
        protocol = self._hand(key, way)
        bits = parse(key.source)[2] if key.source else 0
        return RTMSG.pack(FAMILIES[key.version], key.length, bits, 0, TABLE_UNSPEC, protocol, scope, kind, flags)

    def _place(self, key: RouteKey) -> bytes:
        source = attribute(SRC, parse(key.source)[1]) if key.source else b""
        return source + b"".join(attribute(kind, struct.pack("=I", number))
                                 for kind, number in ((TABLE, self.table), (PRIORITY, key.metric)))  # fmt: skip


def _hops(version: int, way: RouteWay) -> bytes:
    found = attribute(PREFSRC, _packed(way.source)) if way.source else b""
    if len(way.hops) == 1:
        return found + attribute(OIF, struct.pack("=I", way.hops[0].interface)) + _gateway(version, way.hops[0])
    if not way.hops:
        return found
    listed = b""
    for hop in way.hops:
        inner = _gateway(version, hop)
        listed += NEXTHOP.pack(8 + len(inner), ONLINK * hop.onlink, hop.weight - 1, hop.interface) + inner
    return found + attribute(MULTIPATH, listed)


def _gateway(version: int, hop: Hop) -> bytes:
    if not hop.gateway:
        return b""
    packed = _packed(hop.gateway)
    if (version == 6) == (":" in hop.gateway):
        return attribute(GATEWAY, packed)
    return attribute(VIA, struct.pack("=H", socket.AF_INET6) + packed)


def _metrics(way: RouteWay) -> bytes:
    packed = ((number, value.encode() + b"\0" if isinstance(value, str) else struct.pack("=I", value))
              for number, value in way.metrics)  # fmt: skip
    return attribute(METRICS, b"".join(attribute(*one) for one in packed)) if way.metrics else b""


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def read(net: Netlink, version: int, table: int, protocol: int = 0) -> Iterator[Found]:
    """Yield the routes of one table whose kind is in `KINDS`. Errors: `BadInput`, `Refused`."""
    body = RTMSG.pack(FAMILIES[version], 0, 0, 0, TABLE_UNSPEC, protocol, 0, 0, 0)
    shapes: dict[bytes, RouteShape] = {}
    for found in net.dump(GET_ROUTE, body + attribute(TABLE, struct.pack("=I", table))):
        if found[7] in KINDS:
            yield _found(found, shapes)


def _found(body: bytes, shapes: dict[bytes, RouteShape]) -> Found:
    """Return one route. `shapes` caches what was parsed, by the bytes without prefix length and destination."""
    version, length = VERSIONS[body[0]], body[1]
    size = 4 if version == 4 else 16
    at = _destination(body, size) if length else 0
    address = body[at : at + size] if at else bytes(size)
    rest = body[:1] + body[2:at] + body[at + size :] if at else body
    shape = shapes.get(rest)
    if shape is None:
        shape = shapes[rest] = _shape(body)
    metric, source, way, table, protocol, rank = shape
    return Found(RouteKey(version, address, length, metric, source), way, table, protocol, rank, body[3])


def _destination(body: bytes, size: int) -> int:
    """Return the offset of the destination address: behind the table attribute, as all kernels so far write it, or
    elsewhere; 0 if there is none."""
    at = RTMSG.size + 8
    if body[at : at + 4] == DST_HEAD[size]:
        return at + 4
    at = RTMSG.size
    while at + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, at)
        if kind == DST and length == 4 + size:
            return at + 4
        at += max(4, (length + 3) & ~3)
    return 0


def _shape(body: bytes) -> RouteShape:
    family, _, source_bits, _, table, protocol, scope, kind, flags = RTMSG.unpack_from(body)
    found = attributes(body, RTMSG.size)
    if TABLE in found:
        (table,) = struct.unpack("=I", found[TABLE])
    metric = struct.unpack("=I", found[PRIORITY])[0] if PRIORITY in found else 0
    metrics = tuple(sorted(
        (number, value.rstrip(b"\0").decode() if number == CC_ALGORITHM else struct.unpack("=I", value)[0])
        for number, value in attributes(found.get(METRICS, b"")).items()
    ))  # fmt: skip
    origin = text(VERSIONS[family], found[SRC], source_bits) if source_bits else ""
    if kind in OWN_KINDS or KINDS[kind] != "unicast":
        return metric, origin, RouteWay((OWN_KINDS | KINDS)[kind], metrics=metrics), table, protocol, 0
    ways = list(_multipath(found.get(MULTIPATH, b""))) or [(found, flags, 1, 0)]
    hops = tuple(_hop(*one) for one in ways)
    what = {NAMED.get(one, f"attribute {one}") for held in (found, *(one[0] for one in ways))
            for one in held.keys() - UNDERSTOOD}  # fmt: skip
    if NH_ID in found and not hops[0].interface:
        what.add("a nexthop object that is not spelt out (nexthop_compat_mode)")
    if what:
        named = ", ".join(sorted(what))
        raise Refused(f"a route of table {table} has {named}; this driver cannot repeat it: configtron tune doctor")
    source = _address(found[PREFSRC]) if PREFSRC in found else ""
    way = RouteWay("unicast", hops, source, scope if family == socket.AF_INET else 0, metrics)
    return metric, origin, way, table, protocol, RANKS.get(found.get(PREF, b""), 0)


def _hop(found: dict[int, bytes], flags: int, weight: int, interface: int) -> Hop:
    if OIF in found:
        (interface,) = struct.unpack("=I", found[OIF])
    gateway = _address(found[GATEWAY]) if GATEWAY in found else ""
    if VIA in found:
        gateway = _address(found[VIA][2:])
    return Hop(interface, gateway, weight, bool(flags & ONLINK))


def _multipath(listed: bytes) -> Iterator[tuple[dict[int, bytes], int, int, int]]:
    at = 0
    while at + NEXTHOP.size <= len(listed):
        length, flags, weight, interface = NEXTHOP.unpack_from(listed, at)
        yield attributes(listed[at + 8 : at + length]), flags, weight + 1, interface
        at += (length + 3) & ~3


def _address(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def match(net: Netlink, version: int, address: bytes, source: bytes = b"") -> Found | None:
    """Return the route that the kernel finds for an address, by all rules; None if it finds none.

    For an address of this host or a broadcast address it is in the table `local`.

    source   local source address of the packets; empty: the kernel has not chosen one yet
    """
    # IPv6 always reports the table, and refuses this flag
    flags = FIB_MATCH | LOOKUP_TABLE if version == 4 else FIB_MATCH
    head = RTMSG.pack(FAMILIES[version], len(address) * 8, len(source) * 8, 0, 0, 0, 0, 0, flags)
    answer = net.ask(GET_ROUTE, head + attribute(DST, address) + (attribute(SRC, source) if source else b""))
    if answer is None or answer.body[7] not in KINDS | OWN_KINDS:
        return None
    return _found(answer.body, {})
