# SPDX-License-Identifier: MIT
"""Change a few prefixes in a large table without reading it: look each up, write it, look it up again.

The lookup is the kernel's own for a client of the prefix (RTM_GETROUTE, fib match), through every rule. It does not
always show our route: a longer prefix of ours may begin and end with the same addresses, or a route may be `throw`.
Then the update raises `Unclear` and the driver reads the whole table instead. Both ways lead to the same table
(`tests/tune/test_route.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from configtron.model.errors import ConfigtronError, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.tune.drivers.route.annotations import format_note, free
from configtron.tune.drivers.route.routes import Found, Prefix, match
from configtron.tune.drivers.route.table import LOCAL, MAIN, TABLE, RouteTable, SeenRoutes
from configtron.tune.metrics import numbers
from configtron.tune.route_table import PROTOCOL, MainTable, Numbered, Overlay, RouteKey, RouteWay, bits, hold, overlaid

# Above it reading the whole table costs less than looking up each.
FEW = 1000


class Unclear(Exception):
    """Changes touch more than their own prefixes' routes, or lookups cannot show whether these are there."""


def _check_clear(seen: SeenRoutes, main: MainTable, changes: Changes, parsed: Mapping[str, Prefix]) -> None:
    """Check that lookups can show these changes; `seen` is the table's few special routes. Errors: `Unclear`."""
    held = {profile.name: profile for profile in seen.profiles.values()}
    others = any(held.get(name, profile) != profile for name, profile in changes.profiles.items())
    unknown = set(changes.prefixes.values()) - held.keys() - changes.profiles.keys()
    if others or unknown or changes.dropped_profiles or changes.default is not None:
        raise Unclear
    if any(length == 0 for _, _, length in parsed.values()) or overlaid(main, parsed.values()) or main.sources[6][1:]:
        raise Unclear
    thrown = (
        (key.version, key.length, int.from_bytes(key.address, "big"))
        for key, way in seen.routes.items()
        if way.kind == "throw"
    )
    if hold(parsed.values(), thrown) or not all(
        length in seen.ruled.get(version, ()) for version, _, length in parsed.values()
    ):
        raise Unclear
    ways = (main.leads(v, int.from_bytes(address, "big"), length) for v, address, length in parsed.values())
    if not all(way is not None and way.kind == "unicast" for way in ways):
        raise Unclear


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """The route that one prefix had, and the route that it gets."""

    prefix: str
    parsed: Prefix
    old: tuple[RouteKey, RouteWay] | None
    new: tuple[RouteKey, RouteWay] | None

    def stale(self) -> tuple[RouteKey, RouteWay] | None:
        """Return the route that the prefix no longer has."""
        return self.old if self.old and (self.new is None or self.new[0] != self.old[0]) else None


def apply(table: RouteTable, main: MainTable, changes: Changes, parsed: Mapping[str, Prefix], few: int = FEW) -> Rules:
    """Put at most `few` changes in force.

    Errors: `Unclear` before anything is written, `Refused` with everything as before.
    """
    if len(parsed) > few:
        raise Unclear
    seen = table.seen(few=True)
    _check_clear(seen, main, changes, parsed)
    numbered, noted = _numbered(seen.profiles, changes)
    overlay = Overlay(main, numbered)
    steps = [_step(table, overlay, prefix, parsed[prefix], name) for prefix, name in changes.prefixes.items()]
    steps += [
        UpdateStep(prefix, parsed[prefix], held(table, parsed[prefix]), None) for prefix in changes.dropped_prefixes
    ]
    table.notes.write({number: format_note(profile) for number, profile in noted.items()})
    try:
        _take(table, steps)
        for step in steps:
            _check(table, step)
    except ConfigtronError:
        _take(table, [UpdateStep(step.prefix, step.parsed, step.new, step.old) for step in steps])
        table.notes.drop(noted)
        raise
    back = {profile.name: profile for profile in table.profiles().values()}
    return Rules({name: back[name] for name in changes.profiles}, dict(changes.prefixes), seen.rules().default)


def _take(table: RouteTable, steps: list[UpdateStep]) -> None:
    table.write([step.new for step in steps if step.new], [stale for step in steps if (stale := step.stale())])


def _numbered(profiles: Mapping[int, Profile], changes: Changes) -> tuple[dict[str, Numbered], dict[int, Profile]]:
    """Return profiles by name as routes carry them, and profiles that need a note."""
    names = {profile.name for profile in profiles.values()}
    fresh = [profile for name, profile in changes.profiles.items() if name not in names]
    noted = dict(zip(free(profiles), fresh, strict=False)) if fresh else {}
    every = ({**profiles, **noted}).items()
    return {profile.name: Numbered(number, numbers(profile)) for number, profile in every}, noted


def _step(table: RouteTable, overlay: Overlay, prefix: str, parsed: Prefix, name: str) -> UpdateStep:
    return UpdateStep(prefix, parsed, held(table, parsed), overlay.of(prefix, parsed, name))


def held(table: RouteTable, parsed: Prefix) -> tuple[RouteKey, RouteWay] | None:
    """Return the route of ours to that very prefix, None where there is none. Errors: `Unclear`."""
    found = _leading(table, parsed)
    if found is None or found.table not in (TABLE, MAIN):
        raise Unclear  # another program's rule comes before ours
    if found.table == MAIN or found.key.length != parsed[2]:
        return None
    if found.protocol != PROTOCOL or found.key.source:
        raise Unclear  # another program's route, or one of several by source: a read of the whole table names it
    return found.key, found.way


def _leading(table: RouteTable, parsed: Prefix) -> Found | None:
    """Return where the prefix's first or last address leads: the address that no longer prefix hides."""
    version, address, length = parsed
    first = int.from_bytes(address, "big")
    last = first | (1 << (bits(version) - length)) - 1
    for number in (first, last):
        found = match(table.net, version, number.to_bytes(len(address), "big"))
        if found is None or found.table != LOCAL and (found.table != TABLE or found.key.length <= length):
            return found
    raise Unclear


def _check(table: RouteTable, step: UpdateStep) -> None:
    found = _leading(table, step.parsed)
    if step.new is None:
        if found is not None and found.table == TABLE and found.key.length == step.parsed[2]:
            raise Refused(f"{step.prefix}: the route is still there; another program writes to table {TABLE}")
        return
    if found is not None and found.table != TABLE:
        raise Refused(hidden(step.prefix, found.table))
    key, way = step.new
    if found is None or found.key != key or not found.way.equals(way) or found.protocol != PROTOCOL:
        raise Refused(f"{step.prefix}: reads back as {found} instead of {step.new}; see: ip route show table {TABLE}")


def hidden(prefix: str, other: int) -> str:
    """Return the words for a rule that comes first."""
    return (
        f"{prefix}: a rule leads its clients to table {other} before table {TABLE} is looked up (ip rule); "
        "take that rule away, or use another driver: configtron tune doctor"
    )
