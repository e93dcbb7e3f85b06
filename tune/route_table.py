# SPDX-License-Identifier: MIT
"""Rules as routes: the routes of a table that the kernel looks up before the main one, so that only metrics change.

Question   Which routes give each prefix its profile's metrics and send no packet another way than before?
Method     For each prefix the main table's own route to it, with the profile's metrics over that route's. Where the
           main table has routes inside the prefix (a subnet on the link, another gateway), these too, each with the
           metrics of the nearest prefix around it; else the wider route would hide them. The default profile is the
           prefix of everything. A prefix that the main table does not lead to is `throw`: the lookup then goes on as
           if our table did not exist.
Rules      A route of the main table that is longer than ours must win, also one that comes later and has
           no copy. So our table is not looked up once, but once for each length of prefix in it, the longest first, and
           before each time the main table for anything longer (`lookups`). The kernel's `suppress_prefixlength` makes
           a lookup reject routes that are not long enough.
Sources    A route of the main table for packets from some prefix only (`default from P via G`) is one more key: each
           prefix of ours gets a route for each source that the main table names, with the way that it has there.
Number     A route's metric (its order among equals) identifies its profile: the profile's number, plus COPY for a
           copy of a main table's route, plus DEFAULT for a route of the default profile. So no prefix has two equal
           ones, and the kernel takes the lowest: a rule before a copy before the default.
Differs    from nexthop objects: those share the kernel's caches, and with them the metrics, between routes.
Source     ip-route(8), ip-rule(8); linux/net/ipv4/fib_trie.c, fib_semantics.c, fib_rules.c (fib4_rule_suppress)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_network
from typing import NamedTuple

from configtron.model.errors import Refused
from configtron.model.tuning import Rules

# Profiles' numbers stay below the first offset; decimal, so that `ip route` shows them legibly.
COPY, DEFAULT = 10_000, 20_000

# The origin of a route (protocol): 67 and 68 are unassigned in iproute2's list (rt_protos). The second marks routes
# that are few, so that the kernel can list these alone: the default's, copies, and prefixes to which none leads.
PROTOCOL, STANDING = 67, 68

# One route a prefix cannot keep such a choice.
BY_SERVICE = (
    "the main table has routes by type of service (ip route show tos all), which this driver would override; "
    "use another: configtron tune doctor"
)

# A lookup skips a destination that has routes by source and none for this one, also if it has a route for all sources
# (`::/0` alone is found then: fib6_node_lookup_1 of linux/net/ipv6/ip6_fib.c). So ours has one for each half.
EVERY_SOURCE = ("::/1", "8000::/1")

# IPv6 knows link-local and multicast destinations by their interface: the main table's business, always.
BY_INTERFACE = ("fe80::/10", "ff00::/8")
# A value that no route of the main table can have.
BY_INTERFACE_METRIC = -1


class Hop(NamedTuple):
    """One way out: interface by its index, gateway as text ("" on the link; of either family), weight from 1."""

    interface: int
    gateway: str = ""
    weight: int = 1
    onlink: bool = False


class RouteWay(NamedTuple):
    """All of a route but for whom: kind as ip-route(8) calls it, scope as IPv4's number, metrics by RTAX number."""

    kind: str = "unicast"
    hops: tuple[Hop, ...] = ()
    source: str = ""
    scope: int = 0
    metrics: tuple[tuple[int, int | str], ...] = ()

    def equals(self, other: RouteWay) -> bool:
        """Return whether both are one way: a lookup of IPv6 lists first the hop that it chose."""
        return sorted(self.hops) == sorted(other.hops) and self._replace(hops=()) == other._replace(hops=())


THROW = RouteWay("throw")


class RouteKey(NamedTuple):
    """Which route: IP version, address in network order, prefix length, metric; the prefix of the packets' source, as
    text, "" for all (IPv6 alone: `default from PREFIX`)."""

    version: int
    address: bytes
    length: int
    metric: int
    source: str = ""

    def follows(self) -> bool:
        """Return whether the route comes and goes with the main table: a copy, or one for some sources."""
        return bool(self.source) or COPY <= self.metric < DEFAULT


class RouteArguments(NamedTuple):
    """One route of the main table. `tos` other than 0 is one for some packets only."""

    version: int
    address: bytes
    length: int
    metric: int
    way: RouteWay
    tos: int = 0
    source: str = ""


class RouteLookup(NamedTuple):
    """One of our rules: whether it looks up the main table, and the longest prefix length that it rejects there.

    longest_rejected   -1: nothing is rejected
    """

    main: bool
    longest_rejected: int


def lookups(version: int, lengths: Iterable[int]) -> tuple[RouteLookup, ...]:
    """Return our rules, in order, for a table that holds prefixes of these lengths.

    With any main table, they lead where the longest route of both tables leads; where both have a route to the same
    prefix, ours wins.
    """
    found: list[RouteLookup] = []
    for length in sorted(set(lengths), reverse=True):
        if length < bits(version):  # nothing is longer
            found.append(RouteLookup(main=True, longest_rejected=length))
        found.append(RouteLookup(main=False, longest_rejected=length - 1))
    return tuple(found)


def lengths_of(routes: Iterable[RouteKey]) -> dict[int, frozenset[int]]:
    """Return the lengths of prefixes by IP version."""
    found: dict[int, set[int]] = {}
    for key in routes:
        found.setdefault(key.version, set()).add(key.length)
    return {version: frozenset(lengths) for version, lengths in found.items()}


def hand(key: RouteKey, way: RouteWay) -> int:
    """Return which of our two protocol numbers a route has."""
    return STANDING if key.metric >= COPY or way.kind == "throw" else PROTOCOL


@dataclass(frozen=True, slots=True)
class Numbered:
    """A profile as routes carry it: its number, and its metrics by RTAX number; 0 takes a metric away."""

    number: int
    metrics: tuple[tuple[int, int | str], ...]


class MainTable:
    """The main table, with a lookup of its route to a prefix."""

    def __init__(self, given: Iterable[RouteArguments], interface: int = 0) -> None:
        """Read the main table's routes. With `interface`, routes by another one are not covered. Errors: `Refused`."""
        self.interface = interface
        best: dict[tuple[int, int, int, str], RouteArguments] = {}
        for route in (*given, *(_by_interface(prefix) for prefix in BY_INTERFACE)):
            at = (route.version, route.length, int.from_bytes(route.address, "big"), route.source)
            if _inside_those(route):
                continue
            if route.tos:
                raise Refused(BY_SERVICE)
            if at not in best or route.metric < best[at].metric:
                best[at] = route
        hidden = {at[:3] for at in best if at[1] and at[3]}
        self.routes = [(at, self._ours(route)) for at, route in best.items() if at[3] or at[:3] not in hidden]
        # Each source prefix with those around it, the longest first: the kernel takes the longest of a destination.
        found = {source for *_, source in best if source}
        named = sorted({"", *found, *(EVERY_SOURCE if found else ())}, key=source_bits, reverse=True)
        self._around = {one: [each for each in named if _within(one, each)] for one in named}
        self.sources = {4: [""], 6: named}
        self._tables: dict[int, dict[int, dict[tuple[int, str], RouteWay]]] = {4: {}, 6: {}}
        for (version, length, number, source), way in self.routes:
            self._tables[version].setdefault(length, {})[number >> (bits(version) - length), source] = way
        self._lengths = {version: sorted(table, reverse=True) for version, table in self._tables.items()}

    def _ours(self, route: RouteArguments) -> RouteWay:
        elsewhere = self.interface and any(hop.interface != self.interface for hop in route.way.hops)
        return THROW if elsewhere else route.way

    def leads(self, version: int, number: int, length: int, source: str = "") -> RouteWay | None:
        """Return the way to a prefix, for packets from one of `sources`, by the longest route that holds all of it;
        None where there is none."""
        width, tables = bits(version), self._tables[version]
        for shorter in self._lengths[version]:
            if shorter <= length:
                for around in self._around[source]:
                    way = tables[shorter].get((number >> (width - shorter), around))
                    if way is not None:
                        return way
        return None


def source_bits(source: str) -> int:
    """Return the length of a source prefix as a route's key has it."""
    return int(source.partition("/")[2] or 0)


def _within(source: str, other: str) -> bool:
    return not other or bool(source) and IPv6Network(source).subnet_of(IPv6Network(other))


def bits(version: int) -> int:
    """Return the length of an address, bits."""
    return 32 if version == 4 else 128


def _by_interface(prefix: str) -> RouteArguments:
    network = ip_network(prefix)
    return RouteArguments(6, network.network_address.packed, network.prefixlen, BY_INTERFACE_METRIC, THROW)


def _inside_those(route: RouteArguments) -> bool:
    if route.version == 4 or route.metric == BY_INTERFACE_METRIC:
        return False
    return route.address[0] == 0xFF or (route.address[0] == 0xFE and route.address[1] & 0xC0 == 0x80)


def merged(
    own: tuple[tuple[int, int | str], ...], over: tuple[tuple[int, int | str], ...]
) -> tuple[tuple[int, int | str], ...]:
    """Return a profile's metrics over a route's own; 0 takes one away; locks (metric 1) of both hold."""
    mixed = dict(own)
    locks = int(mixed.pop(1, 0)) | int(dict(over).get(1, 0))
    mixed |= {number: value for number, value in over if number != 1}
    if locks:
        mixed[1] = locks
    return tuple(sorted((number, value) for number, value in mixed.items() if value != 0))


class Overlay:
    """Makes routes over the main table; all prefixes with one profile over one way share one object."""

    def __init__(self, main: MainTable, profiles: Mapping[str, Numbered]) -> None:
        self.main = main
        self.profiles = profiles
        self._made: dict[tuple[int, str], RouteWay] = {}

    def covered(self, way: RouteWay | None, name: str) -> RouteWay:
        """Return a way with the profile's metrics; `THROW` where no route leads."""
        if way is None or way.kind == "throw":
            return THROW
        made = self._made.get((id(way), name))
        if made is None:
            made = way._replace(metrics=merged(way.metrics, self.profiles[name].metrics))
            self._made[id(way), name] = made
        return made

    def of(self, prefix: str, parsed: tuple[int, bytes, int], name: str, source: str = "") -> tuple[RouteKey, RouteWay]:
        """Return the route of one prefix, for one of the main table's sources. Errors: `Refused`."""
        version, address, length = parsed
        way = self.main.leads(version, int.from_bytes(address, "big"), length, source)
        if way is THROW and self.main.interface:
            raise Refused(f"{prefix}: its clients are not reached through the interface that was named")
        return RouteKey(version, address, length, self.profiles[name].number, source), self.covered(way, name)

    def all(self, rules: Rules, parsed: Mapping[str, tuple[int, bytes, int]]) -> dict[RouteKey, RouteWay]:
        """Return every route that the rules need."""
        sources = self.main.sources
        routes = dict(self.of(prefix, parsed[prefix], name, source) for prefix, name in rules.prefixes.items()
                      for source in sources[parsed[prefix][0]])  # fmt: skip
        routes.update(self._copies(rules, parsed))
        if rules.default:
            number = DEFAULT + self.profiles[rules.default].number
            for version, source in ((each, source) for each in (4, 6) for source in sources[each]):
                way = self.covered(self.main.leads(version, 0, 0, source), rules.default)
                routes[RouteKey(version, bytes(bits(version) // 8), 0, number, source)] = way
        return routes

    def _copies(
        self, rules: Rules, parsed: Mapping[str, tuple[int, bytes, int]]
    ) -> Iterator[tuple[RouteKey, RouteWay]]:
        """Yield copies of the main table's routes that a wider route of ours would hide."""
        named = {parsed[prefix]: name for prefix, name in rules.prefixes.items()}
        lengths = {version: sorted({p[2] for p in named if p[0] == version}, reverse=True) for version in (4, 6)}
        for (version, length, number, source), way in self.main.routes:
            size = bits(version) // 8
            if length == 0 or (version, number.to_bytes(size, "big"), length) in named:
                continue
            around = (cut(version, number, shorter) for shorter in lengths[version] if shorter < length)
            name = next((named[key] for key in around if key in named), rules.default)
            if name:
                key = RouteKey(version, number.to_bytes(size, "big"), length, COPY + self.profiles[name].number, source)
                yield key, self.covered(way, name)


def cut(version: int, number: int, length: int) -> tuple[int, bytes, int]:
    """Return the prefix of that length around an address."""
    width = bits(version)
    return version, (number >> (width - length) << (width - length)).to_bytes(width // 8, "big"), length


def overlaid(main: MainTable, parsed: Iterable[tuple[int, bytes, int]]) -> bool:
    """Return whether a prefix contains, or equals, a route of the main table: then other routes change with it."""
    return hold(parsed, (key[:3] for key, _ in main.routes))


def hold(prefixes: Iterable[tuple[int, bytes, int]], others: Iterable[tuple[int, int, int]]) -> bool:
    """Return whether one of the prefixes holds, or is, one of the others: (version, length, address as a number)."""
    changed = set(prefixes)
    lengths = {version: {p[2] for p in changed if p[0] == version} for version in (4, 6)}
    return any(
        cut(version, number, shorter) in changed
        for version, length, number in others
        for shorter in lengths[version]
        if shorter <= length
    )
