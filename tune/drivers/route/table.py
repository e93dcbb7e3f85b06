# SPDX-License-Identifier: MIT
"""Our routing table and the rules that lead to it: reads both, writes what differs, clears both.

Place      Our rules stand just before the main table's (`RULE_PREFERENCE`) and after the operator's. So packets that an
           operator's rule sends to another table still go there. We change only routes and rules with our protocol
           number.
Order      All our rules have one preference; the kernel keeps rules of one preference in the order of addition. So we
           add a changed sequence whole, behind the old one, and then delete the old one.
Cost       Two rules for each prefix length in our table. For each rule the kernel looks up one more table; with any
           such rule it also looks up the `local` and `main` tables one by one (ip-rule(8)).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import if_nametoindex

from configtron.linux.netlink import CREATE, Netlink, NetlinkError, attribute, attributes
from configtron.linux.netns import inside
from configtron.linux.rtnetlink import DEL_RULE, FAMILIES, GET_RULE, NEW_RULE
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers.route.annotations import Notes, profile_of
from configtron.tune.drivers.route.routes import Found, Writer, read, text
from configtron.tune.metrics import holds, numbers
from configtron.tune.route_table import (
    COPY,
    DEFAULT,
    PROTOCOL,
    STANDING,
    MainTable,
    RouteArguments,
    RouteKey,
    RouteLookup,
    RouteWay,
    hand,
    lookups,
)

# A table may have any number. No other program is likely to count up to these: 0xC0F1 and 0xC0F2.
TABLE, NOTES_TABLE = 49393, 49394
OURS = (PROTOCOL, STANDING)
MAIN, LOCAL = 254, 255
RULE_PREFERENCE = 32765
# struct fib_rule_hdr: family, lengths, tos, table, two reserved, action, flags
RULE = struct.Struct("=BBBBBBBBI")
TO_TABLE = 1  # FR_ACT_TO_TBL
RULE_PRIORITY, RULE_REJECTED, RULE_TABLE, RULE_PROTOCOL = 6, 14, 15, 21
# FRA_SUPPRESS_PREFIXLEN of a rule that rejects no route.
REJECTS_NOTHING = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SeenRoutes:
    """Our routes, profiles and rules as the kernel has them.

    versions   IP versions of this kernel
    ruled      IP versions whose lookups reach our table, each with the prefix lengths that our rules look up
    foreign    other programs' routes in our table
    """

    routes: Mapping[RouteKey, RouteWay]
    profiles: Mapping[int, Profile]
    ruled: Mapping[int, frozenset[int]]
    versions: frozenset[int]
    foreign: tuple[Found, ...] = ()

    def is_ours_alone(self) -> SeenRoutes:
        """Return itself. Errors: `Refused` if our table holds other programs' routes, which ours could replace."""
        for route in self.foreign:
            where = text(*route.key[:3])
            raise Refused(
                f"table {TABLE} holds a route to {where} that is not ours (protocol {route.protocol}); "
                f"move it to another table: ip route show table {TABLE}"
            )
        return self

    def rules(self, *, whole: bool = True) -> Rules:
        """Return the rules that the routes stand for; with `whole` only rules in force: a lookup reaches the route, and
        the route has its profile's metrics."""
        wanted = {number: (profile.name, numbers(profile)) for number, profile in self.profiles.items()}
        versions = self.ruled.keys() if whole else frozenset({4, 6})
        prefixes: dict[str, str] = {}
        defaults: dict[int, str] = {}
        best: dict[str, int] = {}
        fits: dict[tuple[int, int], bool] = {}
        others = {route.key[:3]: route.key.metric for route in self.foreign}
        for key, way in self.routes.items():
            version, address, length, metric, _ = key
            number = metric % COPY
            if number not in wanted or version not in versions or key.follows():
                continue
            if whole and (length not in self.ruled[version] or others.get((version, address, length), metric) < metric):
                continue
            name, metrics = wanted[number]
            if (id(way), number) not in fits:
                fits[id(way), number] = not whole or way.kind != "unicast" or holds(way.metrics, metrics)
            if not fits[id(way), number]:
                continue
            if metric >= DEFAULT:
                defaults[version] = name
                continue
            prefix = text(version, address, length)
            # of two routes to a prefix the kernel takes the lower metric
            if best.setdefault(prefix, metric) >= metric:
                best[prefix], prefixes[prefix] = metric, name
        profiles = {profile.name: profile for profile in self.profiles.values()}
        everywhere = not whole or self.versions <= defaults.keys()
        agreed = next(iter(defaults.values())) if everywhere and len(set(defaults.values())) == 1 else ""
        return Rules(profiles, prefixes, agreed)


class RouteTable:
    """Our table in one network namespace."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.net = Netlink(place.netns)
        self.notes = Notes(self.net, NOTES_TABLE, PROTOCOL)
        self.writer = Writer(TABLE, hand)
        with inside(place.netns):
            self.versions = (4, 6) if Path("/proc/sys/net/ipv6").exists() else (4,)

    def main(self) -> MainTable:
        """Return the main table. Errors: `BadInput`; `Refused` if a route of it cannot be copied."""
        found = [route for version in self.versions for route in read(self.net, version, MAIN)]
        found.sort(key=lambda route: -route.rank)  # of routes with one metric, the first counts
        given = [RouteArguments(*route.key[:4], route.way, route.tos, route.key.source) for route in found]
        return MainTable(given, self._interface())

    def _interface(self) -> int:
        name = self._place.interface
        if not name:
            return 0
        with inside(self._place.netns):
            try:
                return if_nametoindex(name)
            except OSError as error:
                raise BadInput(f"no interface is called {name!r}; see: ip link") from error

    def profiles(self) -> dict[int, Profile]:
        """Return the noted profiles by number."""
        profiles = {number: profile_of(note) for number, note in self.notes.read().items()}
        return {number: profile for number, profile in profiles.items() if profile is not None}

    def seen(self, *, few: bool = False) -> SeenRoutes:
        """Return all routes of our table; with `few` only those with the protocol number `STANDING`: the default
        profile's, copies, and prefixes to which the main table has no route."""
        routes: dict[RouteKey, RouteWay] = {}
        foreign: list[Found] = []
        for version in self.versions:
            for route in read(self.net, version, TABLE, STANDING * few):
                if route.protocol in OURS:
                    routes[route.key] = route.way
                else:
                    foreign.append(route)
        return SeenRoutes(routes, self.profiles(), self.ruled(), frozenset(self.versions), tuple(foreign))

    def change(self, have: Mapping[RouteKey, RouteWay], want: Mapping[RouteKey, RouteWay]) -> None:
        """Write new and changed routes, then delete those that are not wanted. Errors: `Refused`."""
        stale = [(key, way) for key, way in have.items() if key not in want]
        self.write([(key, way) for key, way in want.items() if have.get(key) != way], stale)

    def write(self, fresh: Iterable[tuple[RouteKey, RouteWay]], stale: Iterable[tuple[RouteKey, RouteWay]]) -> None:
        """Make or replace routes, then delete routes; a prefix that changes its profile always has a route."""
        # routes without a gateway first: IPv6 looks up a gateway in the table that gets the route
        fresh = sorted(fresh, key=lambda item: bool(item[1].hops and item[1].hops[0].gateway))
        try:
            self.net.write(self.writer.new(key, way) for key, way in fresh)
        except NetlinkError as error:
            raise Refused(_refusal(fresh, error)) from error
        self.net.write((self.writer.delete(*each) for each in stale), forgiven=(errno.ESRCH, errno.ENOENT))

    def ruled(self) -> dict[int, frozenset[int]]:
        """Return the IP versions whose rules of ours are complete and in order, each with their prefix lengths."""
        found = {}
        for version in self.versions:
            there = self._rules(version)
            lengths = frozenset(one.longest_rejected + 1 for one in there if not one.main)
            if there and there == lookups(version, lengths):
                found[version] = lengths
        return found

    def rule(self, wanted: Mapping[int, Iterable[int]]) -> None:
        """Add the rules for prefixes of these lengths in each IP version, and delete our other rules."""
        for version in self.versions:
            there, want = self._rules(version), lookups(version, wanted.get(version, ()))
            if there != want:
                self.net.write((NEW_RULE, CREATE, _rule(version, one)) for one in want)
                self.net.write((DEL_RULE, 0, _rule(version, one)) for one in there)

    def _rules(self, version: int) -> tuple[RouteLookup, ...]:
        return tuple(one for body in self._all_rules(version) if (one := _our_lookup(body)) is not None)

    def _all_rules(self, version: int) -> list[bytes]:
        return self.net.dump(GET_RULE, RULE.pack(FAMILIES[version], 0, 0, 0, 0, 0, 0, 0, 0))

    def earlier(self) -> list[tuple[int, bytes]]:
        """Return (IP version, rule) of other programs' rules before the first of ours, without `lookup local`."""
        found = []
        for version in self.versions:
            for body in self._all_rules(version):
                of_rule = attributes(body, RULE.size)
                (preference,) = struct.unpack("=I", of_rule.get(RULE_PRIORITY, bytes(4)))
                if _our_lookup(body) is not None or preference > RULE_PREFERENCE:
                    break
                if of_rule.get(RULE_TABLE) != struct.pack("=I", LOCAL):
                    found.append((version, body))
        return found

    def ours(self) -> str:
        """Return in words how many routes, rules and profiles of ours the kernel holds; "" if none."""
        routes = sum(1 for v in self.versions for ours in OURS for _ in read(self.net, v, TABLE, ours))
        rules = sum(len(self._rules(version)) for version in self.versions)
        names = len(self.notes.read())
        counts = ((routes, f"routes in table {TABLE}"), (rules, "rules"), (names, f"profiles in table {NOTES_TABLE}"))
        return ", ".join(f"{count} {what}" for count, what in counts if count)

    def others(self) -> tuple[str, ...]:
        """Return other programs' routes in our table and rules that lead to it, each with the command to remove it."""
        found = []
        for version in self.versions:
            command = "ip" if version == 4 else "ip -6"
            for route in read(self.net, version, TABLE):
                if route.protocol not in OURS:
                    at = f"{text(*route.key[:3])} table {TABLE} metric {route.key.metric}"
                    found.append(f"a route of protocol {route.protocol}: {command} route del {at}")
            for body in self._all_rules(version):
                of_rule = attributes(body, RULE.size)
                if _our_lookup(body) is None and of_rule.get(RULE_TABLE) == struct.pack("=I", TABLE):
                    (preference,) = struct.unpack("=I", of_rule.get(RULE_PRIORITY, bytes(4)))
                    found.append(f"a rule of another program: {command} rule del pref {preference} lookup {TABLE}")
        return tuple(found)

    def clear(self) -> None:
        """Remove all of our state: the rules first, so that the main table decides at once."""
        self.rule({})
        for version in self.versions:
            ours = [(route.key, route.way) for ours in OURS for route in read(self.net, version, TABLE, ours)]
            self.write((), ours)
        self.notes.clear()


def _rule(version: int, lookup: RouteLookup) -> bytes:
    head = RULE.pack(FAMILIES[version], 0, 0, 0, 0, 0, 0, TO_TABLE, 0)
    longest = lookup.longest_rejected
    rejected = attribute(RULE_REJECTED, struct.pack("=I", longest)) if longest >= 0 else b""
    return (
        head
        + attribute(RULE_TABLE, struct.pack("=I", MAIN if lookup.main else TABLE))
        + attribute(RULE_PRIORITY, struct.pack("=I", RULE_PREFERENCE))
        + attribute(RULE_PROTOCOL, bytes([PROTOCOL]))
        + rejected
    )


def _our_lookup(body: bytes) -> RouteLookup | None:
    """Return a rule of ours: it has our protocol number and looks up our table, or the main one for longer prefixes;
    None for any other rule."""
    found = attributes(body, RULE.size)
    (table,) = struct.unpack("=I", found.get(RULE_TABLE, bytes(4)))
    (rejected,) = struct.unpack("=I", found.get(RULE_REJECTED, b"\xff" * 4))
    is_ours = found.get(RULE_PROTOCOL) == bytes([PROTOCOL]) and table in (TABLE, MAIN)
    if not is_ours or (table, rejected) == (MAIN, REJECTS_NOTHING):
        return None
    return RouteLookup(table == MAIN, -1 if rejected == REJECTS_NOTHING else rejected)


def _refusal(fresh: list[tuple[RouteKey, RouteWay]], error: NetlinkError) -> str:
    key = fresh[error.position][0]
    where = "the default profile" if key.metric >= DEFAULT else text(*key[:3])
    return (
        f"the kernel refuses the route of {where}: {error} (the {error.position + 1}. of {len(fresh)} to write); "
        "all is as it was before"
    )
