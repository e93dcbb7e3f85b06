# SPDX-License-Identifier: MIT
"""The kernel's route lookups for clients of tuned prefixes, compared with the routes that the rules require.

Question   Our routing table may be complete, and traffic still not use it, or leave by another way than the
           operator's: an earlier rule diverts it, a foreign route stands in our table, or the main table changed
           later. Does that happen here?
Method     1. The routes that the rules require are computed from the main table as it is now
              (`tune/route_table.py`). Each is compared with the route in our table.
           2. The kernel looks up clients of our prefixes through all rules (RTM_GETROUTE, fib match): the first and the
              last address of each prefix, or of `SAMPLE` evenly spaced ones if there are more; each once without a
              source, and from every local address (up to `SOURCES`). The answer must be the route of step 1: table,
              gateway, device, metrics. A prefix to no part of which the main table leads is a difference as well: no
              profile holds there.
           3. A connection that sends no packet (`dry_connection.py`) is opened to one client of each of these prefixes.
              Its congestion control and window must be the profile's.
           4. Listeners that are bound to a device (a VRF's too) look up routes of that device alone: a connection that
              is bound to it is compared with one that is not.
Reads as   Differences, each once. Earlier rules with a condition that no lookup here meets (a mark, a port, a user)
           are listed apart.
Fails as   A prefix without an address that the kernel connects to (a broadcast, no route) is checked by step 2 only.
Differs    from reading our own table back: that succeeds even if no traffic uses the table.
Source     linux/net/ipv4/route.c (inet_rtm_getroute), fib_rules.c; rtnetlink(7)
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from ipaddress import ip_address, ip_network
from itertools import groupby
from typing import NamedTuple

from configtron.linux.netlink import Netlink
from configtron.linux.netns import inside
from configtron.linux.rtnetlink import FAMILIES, addresses
from configtron.linux.sock_diag import Diag
from configtron.model.nouns import Profile
from configtron.model.tuning import Answers, Difference
from configtron.tune.drivers.route.dry_connection import begun
from configtron.tune.drivers.route.routes import CC_ALGORITHM, Prefix, match, parse, read, text
from configtron.tune.drivers.route.rule import RoutingRule
from configtron.tune.drivers.route.rule import parse as parse_rule
from configtron.tune.drivers.route.table import LOCAL, MAIN, TABLE, RouteTable, SeenRoutes
from configtron.tune.metrics import LOCK, numbers
from configtron.tune.route_table import COPY, DEFAULT, RouteKey, RouteWay, bits, cut, source_bits

# Prefixes that are looked up. If 2 % of many prefixes are diverted, 256 lookups find one with a probability of 99 %.
SAMPLE = 256
# Local addresses that are tried; those that a rule matches are the first.
SOURCES = 16
# struct ifaddrmsg: family, length, flags, scope, index
_UNIVERSE = 0  # RT_SCOPE_UNIVERSE
_TABLES = {MAIN: "main"}
_INITCWND, _CWND = 11, 7
# The loopback's index in every network namespace (LOOPBACK_IFINDEX); no client comes that way.
_LOOPBACK = 1


EVERYWHERE = ("0.0.0.0/0", "::/0")


class Question(NamedTuple):
    """One lookup: a client's `address` in the prefix `scope`, from a local address (b"": the kernel chooses)."""

    scope: str
    version: int
    address: bytes
    source: bytes = b""


class ExpectedRoute:
    """The routes that the rules require, for longest-prefix lookups by a client's address."""

    def __init__(self, routes: Mapping[RouteKey, RouteWay]) -> None:
        self._by_length: dict[int, dict[int, dict[int, list[tuple[RouteKey, RouteWay]]]]] = {4: {}, 6: {}}
        # of one prefix the longest source is the first, then the lowest metric
        for key, way in sorted(routes.items(), key=lambda item: (-source_bits(item[0].source), item[0].metric)):
            at = int.from_bytes(key.address, "big") >> (bits(key.version) - key.length)
            self._by_length[key.version].setdefault(key.length, {}).setdefault(at, []).append((key, way))
        self._lengths = {version: sorted(tables, reverse=True) for version, tables in self._by_length.items()}

    def of(self, version: int, address: bytes, source: bytes = b"") -> tuple[RouteKey, RouteWay] | None:
        """Return the longest route that contains an address, for packets from a source (b"": none is chosen yet); None
        without one, or if that route is `throw`."""
        number = int.from_bytes(address, "big")
        for length in self._lengths[version]:
            for found in self._by_length[version][length].get(number >> (bits(version) - length), ()):
                of = found[0].source
                if not of or ip_address(source or bytes(16)) in ip_network(of):
                    return found if found[1].kind != "throw" else None
        return None


def ask(
    table: RouteTable, netns: str, seen: SeenRoutes, routes: Mapping[RouteKey, RouteWay], prefixes: Iterable[str]
) -> Answers:
    """Compare what the kernel has and answers with the routes that the rules require for the prefixes and the default.

    seen     what the driver has read of its own table; its profiles are those of the rules
    routes   what the rules require, from `tune/route_table.py`
    Errors: `Refused` if the tables change faster than they can be read.
    """
    earlier = earlier_rules(table)
    # routes in our table that another program added: their protocol number is not ours
    foreign = ((one.key, f"{words(one.way, netns)} in table {TABLE}, protocol {one.protocol}") for one in seen.foreign)
    written = [*_against_main(seen, routes, netns), *(Difference(text(*k[:3]), "lookup", "", w) for k, w in foreign)]
    known = {difference.scope for difference in written}
    sample = spread([*prefixes, *_defaults(routes, table.versions)])
    questions = [*_questions(sample, earlier, list(_local(table.net, earlier)))]
    expected = ExpectedRoute(routes)
    asked = [*_looked_up(table.net, netns, expected, questions, _unrouted(sample, routes, expected)),
             *_connected(table.net, netns, expected, questions, seen.profiles)]  # fmt: skip
    differences = [*written, *_once(one for one in asked if one.scope not in known)]
    unasked = (f"rule {rule.text} comes before ours; whether it diverts clients by {' and '.join(rule.conditions)} was "
               "not asked" for rule in earlier if rule.conditions)  # fmt: skip
    lines = (*unasked, *_bound(netns, questions))
    return Answers(len({one[:3] for one in questions}), len(sample), tuple(differences), lines)


def earlier_rules(table: RouteTable) -> list[RoutingRule]:
    """Return the rules before ours that can match packets which this host sends itself."""
    return [rule for rule in (parse_rule(*one) for one in table.earlier()) if not rule.forwards]


def diverted(table: RouteTable, prefixes: Iterable[Prefix]) -> tuple[Prefix, int] | None:
    """Return the first prefix that earlier rules divert from every local address, and to which table; None if none is.

    Call it before changes are written: an answer from the main table, the local one or ours is no diversion.
    """
    earlier = earlier_rules(table)
    local = list(_local(table.net, earlier))
    for prefix in prefixes:
        sources = [source for source in local if len(source) == len(prefix[1])]
        found = [match(table.net, prefix[0], _ends(prefix)[0], source) for source in sources]
        tables = {one.table for one in found if one is not None}
        if found and None not in found and not tables & {TABLE, MAIN, LOCAL}:
            return prefix, min(tables)
    return None


def _against_main(seen: SeenRoutes, routes: Mapping[RouteKey, RouteWay], netns: str) -> Iterator[Difference]:
    """Return where our table differs from the routes that the main table requires now.

    A prefix of the rules that has no route in our table is not reported here: reading the rules back shows it.
    """
    for key, way in routes.items():
        have = seen.routes.get(key)
        if have is None and key.follows() and way.kind != "throw":
            name = seen.profiles[key.metric % COPY].name if key.metric % COPY in seen.profiles else "a profile"
            led = f"{name}, {words(way, netns)} from {key.source or 'all'}"
            yield Difference(text(*key[:3]), "route", led, "no such route of ours")
        elif have is not None and have._replace(metrics=()) != way._replace(metrics=()):
            yield Difference(text(*key[:3]), "route", words(way, netns), words(have, netns))
    for key, way in seen.routes.items():
        if key.follows() and key not in routes:
            yield Difference(text(*key[:3]), "route", "", f"{words(way, netns)}, which the main table no longer has")


def spread(prefixes: list[str]) -> list[str]:
    """Return at most `SAMPLE` prefixes, evenly spaced."""
    if len(prefixes) <= SAMPLE:
        return prefixes
    return [prefixes[place * len(prefixes) // SAMPLE] for place in range(SAMPLE)]


def _defaults(routes: Mapping[RouteKey, RouteWay], versions: Iterable[int]) -> list[str]:
    there = {key.version for key in routes if key.length == 0 and key.metric >= DEFAULT}
    return [text(version, bytes(bits(version) // 8), 0) for version in versions if version in there]


def _questions(sample: list[str], earlier: list[RoutingRule], local: list[bytes]) -> Iterator[Question]:
    parsed = {scope: parse(scope) for scope in sample}
    for scope, prefix in parsed.items():
        for address in _ends(prefix):
            yield Question(scope, prefix[0], address)
            for source in local:
                if len(source) == len(address):
                    yield Question(scope, prefix[0], address, source)
    # A rule may match only a part of one of our prefixes: look up an address of that part.
    for rule in earlier:
        if rule.destination is not None:
            inside = rule.destination.network_address.packed
            for scope, (version, address, length) in parsed.items():
                shift = bits(version) - length
                if version == rule.version and int.from_bytes(inside) >> shift == int.from_bytes(address) >> shift:
                    yield Question(scope, version, inside)


def _ends(prefix: Prefix) -> list[bytes]:
    """Return the first and the last address of a prefix; of the default route an address for documentation."""
    version, address, length = prefix
    if not length:
        return [ip_address("192.0.2.1" if version == 4 else "2001:db8::1").packed]  # RFC 5737, RFC 3849
    first = int.from_bytes(address, "big")
    last = first | (1 << (bits(version) - length)) - 1
    return [number.to_bytes(len(address), "big") for number in sorted({first, last})]


def _local(net: Netlink, earlier: list[RoutingRule]) -> Iterator[bytes]:
    """Return local addresses, first those that an earlier rule matches."""
    for version in (4, 6):
        named = [rule.source for rule in earlier if rule.version == version and rule.source is not None]
        found = [packed for packed, scope in addresses(net, version) if scope == _UNIVERSE]
        found.sort(key=lambda packed: not any(ip_address(packed) in network for network in named))
        yield from found[:SOURCES]


def _unrouted(sample: Iterable[str], routes: Mapping[RouteKey, RouteWay], expected: ExpectedRoute) -> set[str]:
    """Return the prefixes to no part of which the main table leads; the default profile is for what it does lead to."""
    parsed = {parse(scope): scope for scope in sample}
    first = {prefix: expected.of(*prefix[:2]) for prefix in parsed if prefix[2]}
    lacking = {prefix: parsed[prefix] for prefix, led in first.items() if led is None or led[1].kind != "unicast"}
    lengths = {length for _, _, length in lacking}
    for key in (key for key, way in routes.items() if lengths and way.kind == "unicast"):
        for length in lengths:
            lacking.pop(cut(key.version, int.from_bytes(key.address, "big"), min(length, key.length)), None)
    return set(lacking.values())


def _looked_up(
    net: Netlink, netns: str, expected: ExpectedRoute, questions: Iterable[Question], unrouted: set[str]
) -> Iterator[Difference]:
    for scope, version, address, source in questions:
        found = match(net, version, address, source)
        want = expected.of(version, address, source)
        if found is not None and found.table == LOCAL:
            continue
        if scope not in unrouted and (want is None or found is None and want[1].kind != "unicast"):
            continue
        if not found or not want or (found.table, found.key) != (TABLE, want[0]) or not found.way.equals(want[1]):
            asked = f" from {socket.inet_ntop(FAMILIES[version], source)}" if source else ""
            got = f"table {_TABLES.get(found.table, found.table)}, {words(found.way, netns)}" if found else "no route"
            led = f"table {TABLE}, {words(want[1], netns)}" if want else ""
            yield Difference(scope, "lookup", led, f"{got}{asked}")


def _connected(
    net: Netlink, netns: str, expected: ExpectedRoute, questions: list[Question], profiles: Mapping[int, Profile]
) -> Iterator[Difference]:
    for scope, asked in groupby(questions, key=lambda one: one.scope):
        for _, version, address, source in asked:
            want = expected.of(version, address, source)
            if want is None or want[1].kind != "unicast":
                continue
            led = match(net, version, address, source)
            if led is not None and led.table == LOCAL:
                continue
            ends = (socket.inet_ntop(FAMILIES[version], one) if one else "" for one in (address, source))
            found = begun(netns, *ends)
            if found is None:
                continue
            metrics, ours = dict(want[1].metrics), dict(numbers(profiles[want[0].metric % COPY]))
            control = metrics.get(CC_ALGORITHM, found.congestion_control)
            if found.congestion_control != control:
                yield Difference(scope, "tcp_congestion_control", str(control), found.congestion_control)
            # A clamp with its lock bounds connections from a client's second on; the main table's stays on our route.
            is_locked = int(metrics.get(LOCK, 0)) >> _CWND & 1
            later = min(found.window, int(metrics[_CWND]) if is_locked else found.window)
            window = min(int(ours.get(number, 1 << 32)) for number in (_INITCWND, _CWND))
            if _INITCWND in ours and later != window:
                by = "" if later == found.window else ", by the main table's route (ip route: cwnd lock)"
                yield Difference(scope, "initcwnd", str(window), f"{later}{by}")
            break


def _bound(netns: str, questions: Iterable[Question]) -> Iterator[str]:
    """Yield a line for each device to which a listener is bound and whose clients do not get what others get."""
    with closing(Diag(netns)) as diag:
        bound = {one.bound for one in diag.listening()} - {0, _LOOPBACK}
    for device in sorted(_device(index, netns) for index in bound):
        for scope, version, address, _ in questions:
            client = socket.inet_ntop(FAMILIES[version], address)
            plain, there = begun(netns, client), begun(netns, client, device=device)
            if plain != there and plain and there:
                has, other = (f"{one.congestion_control}, window {one.window}" for one in (there, plain))
                yield f"{scope}: clients of a listener that is bound to {device} get {has}; others {other}"
                break


def against_routes(netns: str, prefixes: list[str], wanted: str) -> Answers:
    """Return where a route names another congestion control than `wanted`, which then does not reach its clients: of
    the prefixes as a whole, and of the main table's routes to a part of one (at most `SAMPLE` of each)."""
    sample, found = spread(prefixes), dict[str, Difference]()
    with Netlink(netns) as net:
        parts = [ip_network(text(*one.key[:3])) for version in (4, 6) for one in read(net, version, MAIN)
                 if dict(one.way.metrics).get(CC_ALGORITHM, wanted) != wanted]  # fmt: skip
        asked = [(scope, parse(scope)[0], address) for scope in sample for address in _ends(parse(scope))]
        names, lengths = set(prefixes), {parse(name)[2] for name in prefixes}
        mine = [part for part in parts if any(str(part.supernet(new_prefix=length)) in names for length in lengths
                                              if length <= part.prefixlen)]  # fmt: skip
        for part in mine[:: len(mine) // SAMPLE + 1]:
            # One of them may be this host's own, or of a longer route.
            inside_it = {part[min(1, part.num_addresses - 1)], part[part.num_addresses // 2], part[-1]}
            asked += [(str(part), part.version, address.packed) for address in inside_it]
        for scope, version, address in asked:
            led = match(net, version, address)
            control = dict(led.way.metrics).get(CC_ALGORITHM, wanted) if led else wanted
            if control != wanted:
                by = f"{control}, by a route (ip route: congctl)"
                found[scope] = Difference(scope, "tcp_congestion_control", wanted, by)
    return Answers(len(asked), len(sample), tuple(found.values()))


def _once(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Keep the first difference of each scope and knob: a diverted prefix shows at both its ends."""
    first: dict[tuple[str, str], Difference] = {}
    for one in differences:
        first.setdefault((one.scope, one.knob), one)
    yield from first.values()


def words(way: RouteWay, netns: str) -> str:
    """Return a route as `ip route` prints it in a namespace, without metrics; a device without a name is its index."""
    if way.kind != "unicast":
        return way.kind
    hops = (f"via {hop.gateway}" if hop.gateway else f"dev {_device(hop.interface, netns)}" for hop in way.hops)
    return ", ".join(hops)


def _device(index: int, netns: str) -> str:
    try:
        with inside(netns):
            return socket.if_indextoname(index)
    except OSError:
        return str(index)
