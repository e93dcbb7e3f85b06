# SPDX-License-Identifier: MIT
"""Profiles as metrics of routes: every kernel supports them by prefix, without a module or a BPF program.

Question   How do the clients of a prefix get their initial window, congestion control and timers from routes alone?
Method     A table of our own, which the kernel looks up before the main one, repeats the main table's way to each
           prefix and carries the profile's metrics on it (`tune/route_table.py`). The driver makes few changes one by
           one, each with the kernel's own lookup before and after; it writes many as a difference of whole tables.
Reads as   The metrics on the routes, the profile's number in their order, its name in the notes
           (`annotations.py`). A prefix is not in force where no rule leads to the table, or where its route's
           metrics differ from its profile's.
Fails as   `BadInput` for a knob that routes have no metric for; `Refused` where a rule of the operator's comes first,
           another program's route is in our table, or the main table chooses by type of service. Then nothing changes.
Differs    from the other drivers: a metric belongs to the route, so open connections feel min_rto and quickack at once,
           and the window after idle is the profile's.
Source     linux/net/ipv4/fib_semantics.c, tcp_metrics.c; ip-route(8)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from socket import if_nameindex

from configtron.linux import netns
from configtron.model.errors import BadInput, ConfigtronError, Missing, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Answers, Changes, Place, Reach, Rules
from configtron.tune.drivers.route import answers, incremental_update, tcp_metrics_cache
from configtron.tune.drivers.route.annotations import format_note, free, pieces
from configtron.tune.drivers.route.monitor import LINK_CHANGED, LOST, MAIN_CHANGED, OURS_CHANGED, Monitor
from configtron.tune.drivers.route.routes import Prefix, match, parse, text
from configtron.tune.drivers.route.table import LOCAL, NOTES_TABLE, RULE_PREFERENCE, TABLE, RouteTable, SeenRoutes
from configtron.tune.export import Draft
from configtron.tune.guard import DriverReach, check_reach
from configtron.tune.listeners import BY_EBPF_ALONE
from configtron.tune.metrics import METRICS, REFUSED, holds, numbers
from configtron.tune.route_table import COPY, MainTable, Numbered, Overlay, RouteKey, RouteWay, lengths_of
from configtron.tune.rules import after
from configtron.tune.rules import check as check_names

REACHES: Mapping[str, Reach] = {metric.reach.knob: metric.reach for metric in METRICS}
# The number of prefixes that the driver looks up after a large change, as the kernel would for their clients.
LOOKED_UP = 16

IN_VRF = "a VRF looks up its own table first (rule l3mdev): clients of servers in it are not tuned; for those use ebpf"
log = logging.getLogger("configtron.tune")

__all__ = ["REACHES", "REFUSED", "RouteDriver"]


class RouteDriver:
    """Routes of one network namespace."""

    name = "route"
    reachable, unreachable = REACHES, REFUSED

    def __init__(self, place: Place, few: int = incremental_update.FEW) -> None:
        """Open the driver of a place; it checks up to `few` changed prefixes one by one."""
        self.place, self._few = place, few
        self._marked = ""
        self._followed: object = None
        # Events that were read and are not yet followed; `mark` reports them too.
        self._unfollowed: set[str | Prefix] = set()
        # Prefixes of ours that were written, and whether more may have changed than these, since all was looked at.
        self._written: set[Prefix] = set()
        self._more = True
        # The routes behind the last mark, for a `read` right after it, which drops them.
        self._seen: SeenRoutes | None = None

    @cached_property
    def _table(self) -> RouteTable:
        if why := self.missing():
            raise (BadInput if netns.is_absent(self.place.netns) else Missing)(f"the driver route: {why}")
        return RouteTable(self.place)

    @cached_property
    def _monitor(self) -> Monitor:
        return Monitor(self.place.netns)

    def missing(self) -> str:
        if self.place.listen:
            return f"a route is the same whichever listener a client came to; {BY_EBPF_ALONE}"
        if self.place.cgroup:
            return "a route is the same for every cgroup; leave --cgroup out, or use the driver ebpf"
        return netns.absent(self.place.netns)

    def settable(self) -> Mapping[str, Reach]:
        return REACHES

    def before(self) -> str:
        """Return "": the driver overwrites no setting of the host."""
        return json.dumps({})

    def apply(self, changes: Changes) -> Rules:
        for profile in changes.profiles.values():
            check_reach(profile, DriverReach(self.name, REACHES, REFUSED))
            numbers(profile)
        table, parsed = self._table, {p: parse(p) for p in (*changes.prefixes, *changes.dropped_prefixes)}
        everyone = [parse("0.0.0.0/0")] if changes.default else []
        if lost := answers.diverted(table, islice((*parsed.values(), *everyone), LOOKED_UP)):
            raise Refused(incremental_update.hidden(text(*lost[0]), lost[1]))
        if any("l3mdev" in rule.conditions for rule in answers.earlier_rules(table)):
            log.warning("%s", IN_VRF)
        main, clamps = table.main(), self._clamps()
        try:
            with suppress(incremental_update.Unclear):  # then nothing is written yet
                return incremental_update.apply(table, main, changes, parsed, self._few)
            return self._apply_all(changes, main, parsed)
        finally:
            tcp_metrics_cache.forget(table.net, self.place.netns, clamps)

    def _clamps(self) -> set[int]:
        """Return the window clamps of profiles, which the kernel may have copied from their routes."""
        settings = (dict(profile.settings) for profile in self._table.profiles().values())
        return {int(str(found["cwnd_clamp"])) for found in settings if "cwnd_clamp" in found}

    def _apply_all(self, changes: Changes, main: MainTable, parsed: Mapping[str, Prefix]) -> Rules:
        """Apply changes by reading and comparing whole tables."""
        table, seen = self._table, self._table.seen().is_ours_alone()
        want = check_names(after(seen.rules(whole=False), changes))
        profiles = _numbered(seen.profiles, want.profiles)
        routes = self._routes(main, profiles, want, parsed)
        try:
            table.notes.write({n: format_note(p) for n, p in profiles.items() if seen.profiles.get(n) != p})
            table.change(seen.routes, routes)
            table.rule(lengths_of(routes))
            table.notes.drop(seen.profiles.keys() - profiles.keys())
            self._read_back(routes)
            back = {profile.name: profile for profile in table.profiles().values()}
            return Rules({name: back[name] for name in changes.profiles}, dict(changes.prefixes), want.default)
        except ConfigtronError:
            self._put_back(seen)
            raise

    def _routes(
        self, main: MainTable, profiles: Mapping[int, Profile], want: Rules, parsed: Mapping[str, Prefix]
    ) -> dict[RouteKey, RouteWay]:
        numbered = {profile.name: Numbered(number, numbers(profile)) for number, profile in profiles.items()}
        whole = {prefix: parsed.get(prefix) or parse(prefix) for prefix in want.prefixes}
        routes = Overlay(main, numbered).all(want, whole)
        if 6 in self._table.versions:
            return routes
        for prefix, (version, _, _) in whole.items():
            if version == 6:
                raise Refused(f"{prefix}: IPv6 is off here (no /proc/sys/net/ipv6)")
        return {key: way for key, way in routes.items() if key.version == 4}

    def _read_back(self, routes: Mapping[RouteKey, RouteWay]) -> None:
        """Check that the whole table is as wanted and that the kernel's lookups reach it. Errors: `Refused`."""
        seen = self._table.seen()
        if seen.routes != routes:
            other = next(key for key in (*routes, *seen.routes) if seen.routes.get(key) != routes.get(key))
            found = seen.routes.get(other)
            raise Refused(f"{text(*other[:3])}: reads back as {found} instead of {routes.get(other)}")
        unicast = (key for key, way in routes.items() if way.kind == "unicast" and key.metric < COPY)
        for key in islice(unicast, LOOKED_UP):
            found_by = match(self._table.net, key.version, key.address)
            if found_by is not None and found_by.table not in (TABLE, LOCAL):
                raise Refused(incremental_update.hidden(text(*key[:3]), found_by.table))

    def _put_back(self, seen: SeenRoutes) -> None:
        """Restore the table from before a change that failed."""
        table = self._table
        now = table.seen()
        table.change(now.routes, seen.routes)
        table.rule(seen.ruled)
        table.notes.write({n: format_note(p) for n, p in seen.profiles.items() if now.profiles.get(n) != p})
        table.notes.drop(now.profiles.keys() - seen.profiles.keys())

    def read(self) -> Rules:
        if self._seen is not None:
            self._listen()
        seen, self._seen = self._seen, None
        return (seen or self._table.seen()).rules()

    def mark(self) -> str:
        self._listen()
        if self._marked:
            self._seen = None
        else:
            self._written, self._more = set(), False
            self._marked = self._digest()
        return self._marked

    def news(self) -> tuple[frozenset[str], Rules] | None:
        """Return the prefixes written since the last call (or `mark`), with their rules now in force.

        None where only `mark` and `read` can show them. A lookup costs a thousandth of reading a large table.
        """
        self._listen()
        if self._more or len(self._written) > self._few:
            return None
        written, self._written = self._written, set()
        if not written:
            return frozenset(), Rules()
        table = self._table
        try:
            routes = dict(filter(None, (incremental_update.held(table, prefix) for prefix in written)))
        except incremental_update.Unclear:
            self._more = True
            return None
        seen = SeenRoutes(routes, table.profiles(), table.ruled(), frozenset(table.versions))
        return frozenset(text(*prefix) for prefix in written), seen.rules()

    def _listen(self) -> None:
        """Note the changes since the last call: a mark and its reading are valid until the next change."""
        heard = self._monitor.heard()
        self._unfollowed |= heard & {MAIN_CHANGED, LINK_CHANGED, LOST}
        written = {one for one in heard if not isinstance(one, str)}
        self._more = self._more or bool(heard & {OURS_CHANGED, LINK_CHANGED, LOST})
        self._written |= written
        if written or heard & {OURS_CHANGED, LINK_CHANGED, LOST}:
            self._marked, self._seen = "", None

    def _digest(self) -> str:
        """Return prefixes, profiles and metrics as text, without the ways, which follow the main table."""
        seen = self._seen = self._table.seen()
        besides = (self._table.earlier(), _reached(seen), sorted(map(str, seen.profiles.items())), seen.foreign)
        digest = blake2b(repr(besides).encode(), digest_size=8)
        held: dict[tuple[RouteWay, int], bytes] = {}
        for key, way in seen.routes.items():
            if not key.follows():
                number = key.metric % COPY
                if (way, number) not in held:
                    held[way, number] = b"%d" % _is_whole(seen, number, way)
                digest.update(b"%d %b %d %d " % key[:4] + held[way, number])
        return digest.hexdigest()

    def follow(self, wanted: Rules | None = None) -> int:
        """Lead our routes where the main table now leads; return how many it wrote. Cheap while nothing has changed.

        A watch calls this twice a second. Routes that the kernel removed with a link are made again from `wanted`
        (without it: from the routes that remain). Changes by another program stay, and `mark` shows them.
        """
        self._listen()
        heard, self._unfollowed = self._unfollowed, set()
        if self._followed is not None and not heard:
            return 0
        table, main = self._table, self._table.main()
        if self._followed == main.routes and not heard & {LINK_CHANGED, LOST}:
            return 0  # the main table reported a route that is as it was
        self._followed, seen = main.routes, table.seen()
        rules = seen.rules(whole=False) if wanted is None else wanted
        profiles = _numbered(seen.profiles, rules.profiles)
        routes = self._routes(main, profiles, rules, {})
        again = bool(heard & {LINK_CHANGED, LOST})
        fresh = [item for item in routes.items() if _moved(seen, *item, again=again)]
        stale = [(key, way) for key, way in seen.routes.items() if key.follows() and key not in routes]
        table.write(fresh, stale)
        longer = {version: lengths | seen.ruled[version] for version, lengths in lengths_of(routes).items()
                  if version in seen.ruled}  # fmt: skip
        if any(lengths != seen.ruled[version] for version, lengths in longer.items()):
            table.rule({**seen.ruled, **longer})
        return len(fresh) + len(stale)

    def ask(self, rules: Rules) -> Answers:
        """Return the kernel's answers for clients of these rules, and where the main table now leads elsewhere."""
        table = self._table
        seen = table.seen()
        profiles = _numbered(seen.profiles, rules.profiles)
        routes = self._routes(table.main(), profiles, rules, {})
        return answers.ask(table, self.place.netns, replace(seen, profiles=profiles), routes, rules.prefixes)

    def ours(self) -> str:
        """Return routes, rules and names with our protocol numbers."""
        if self.missing():
            return ""
        return self._table.ours()

    def others(self) -> tuple[str, ...]:
        """Return foreign routes in our table, and foreign rules that lead to it."""
        return () if self.missing() else self._table.others()

    def draft(self, rules: Rules) -> Draft:
        """Return the routes that `apply` would write if nothing were in force yet. Errors: those of `apply`."""
        table, known = self._table, self._table.profiles()
        for profile in rules.profiles.values():
            check_reach(profile, DriverReach(self.name, REACHES, REFUSED))
        profiles = _numbered(known, check_names(rules).profiles)
        with netns.inside(self.place.netns):
            interfaces = dict(if_nameindex())
        routes = self._routes(table.main(), profiles, rules, {})
        notes = pieces({number: format_note(profile) for number, profile in profiles.items()})
        return Draft(routes, notes, TABLE, NOTES_TABLE, RULE_PREFERENCE, interfaces)

    def revert(self, before: str) -> None:
        json.loads(before)
        clamps = self._clamps()
        self._table.clear()
        tcp_metrics_cache.forget(self._table.net, self.place.netns, clamps)
        self._marked = ""


def _reached(seen: SeenRoutes) -> list[tuple[int, int]]:
    """Return the lengths of our prefixes that our rules reach; those of copies follow the main table."""
    held = lengths_of(key for key in seen.routes if not key.follows())
    return sorted((version, length) for version, lengths in held.items()
                  for length in lengths & seen.ruled.get(version, frozenset()))  # fmt: skip


def _moved(seen: SeenRoutes, key: RouteKey, way: RouteWay, *, again: bool) -> bool:
    """Return whether a route is to be led elsewhere, rather than left as another program wrote it."""
    have = seen.routes.get(key)
    if have is None:
        return again or key.follows()
    return have != way and _is_whole(seen, key.metric % COPY, have)


def _is_whole(seen: SeenRoutes, number: int, way: RouteWay) -> bool:
    """Return whether a route carries its profile's metrics, or leads nowhere."""
    profile = seen.profiles.get(number)
    return way.kind != "unicast" or (profile is not None and holds(way.metrics, numbers(profile)))


def _numbered(have: Mapping[int, Profile], want: Mapping[str, Profile]) -> dict[int, Profile]:
    """Return wanted profiles by number: their old number, else a free one."""
    old = {profile.name: number for number, profile in have.items() if profile.name in want}
    fresh: Iterable[int] = free(have)
    return {old[name] if name in old else next(iter(fresh)): profile for name, profile in sorted(want.items())}
