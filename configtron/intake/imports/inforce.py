# SPDX-License-Identifier: MIT
"""The configuration that a client had: by the rules in force, address by address, in a span of time.

Question   Under which profile was this page loaded?
Method     The history of the rules that `configtron tune` put in force, each with its begin and end. The longest prefix
           that holds the address decides, else the rules' default, else the stack is untouched. Rules of several
           drivers at a time add up.
Reads as   a profile, or a reason why none is known: it changed while the page loaded, or the history begins later.
Fails as   a reason, never a guess.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Rules

Settings = tuple[tuple[str, Value], ...]
CHANGED, EARLIER, NO_DATE = "configuration changed meanwhile", "configuration not kept then", "no date"
# The stack as it is where nothing was ever in force.
UNTOUCHED = Profile("default")
# Addresses whose configurations are remembered.
REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class Deployment:
    """Rules that were in force from one moment to another, ns since the epoch; until None: they still are; rules
    None: half written."""

    since: int
    until: int | None
    rules: Rules | None


class InForce:
    """The history. `known_since`: nothing before it is known; 0: everything is."""

    def __init__(self, history: list[Deployment], known_since: int = 0) -> None:
        self._known_since = known_since
        self._times = sorted({at for one in history for at in (one.since, one.until) if at is not None})
        self._tables = [_Table(one) for one in history]
        self._at = lru_cache(REMEMBERED)(self._between)

    def of(self, address: str, begin: int, end: int) -> Profile | str:
        """Return the profile of an address in that span, ns; or why it is not known."""
        if not end:
            return NO_DATE if self._tables else UNTOUCHED
        if begin < self._known_since:
            return EARLIER
        if not self._tables:
            return UNTOUCHED
        first, last = bisect_right(self._times, begin), bisect_right(self._times, end)
        found = self._at(address, first)
        every = [self._at(address, segment) for segment in range(first, last + 1)]
        return found if all(one == found and one.name != CHANGED for one in every) else CHANGED

    def _between(self, address: str, segment: int) -> Profile:
        """Between two moments at which anything changed; one called `CHANGED` where rules were half written."""
        at = self._times[segment - 1] if segment else -1
        tables = [table for table in self._tables if table.since <= at < table.until]
        if any(table.half for table in tables):
            return Profile(CHANGED)
        settings = {knob: value for table in tables for knob, value in table.settings(address)}
        return profile_of(tuple(sorted(settings.items())))


def profile_of(settings: Settings) -> Profile:
    """Return settings as a profile, named by their values."""
    return Profile("/".join(str(value).replace("/", "") for _, value in settings) or "default", settings)


class _Table:
    """One deployment, looked up by address."""

    def __init__(self, one: Deployment) -> None:
        self.since, self.until = one.since, one.until if one.until is not None else 2**63
        self._rules, self.half = one.rules or Rules(), one.rules is None
        networks = [(ip_network(prefix), name) for prefix, name in self._rules.prefixes.items()]
        self._names = {(n.version, n.prefixlen, int(n.network_address)): name for n, name in networks}
        self._lengths = sorted({(n.version, n.prefixlen) for n, _ in networks}, reverse=True)

    def settings(self, address: str) -> Settings:
        """Return the settings that the client gets."""
        name = self._rules.default
        if address:
            found = ip_address(address)
            number, bits = int(found), found.max_prefixlen
            for version, length in self._lengths:
                key = (version, length, number >> (bits - length) << (bits - length))
                if version == found.version and key in self._names:
                    name = self._names[key]
                    break
        return self._rules.profiles[name].settings if name in self._rules.profiles else ()
