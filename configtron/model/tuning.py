# SPDX-License-Identifier: MIT
"""Types that plan, journal and drivers exchange: settable knobs, rules in force, changes.

Rules for this file: those of `nouns.py`. A profile has the settings, a prefix selects the clients; a driver puts both
in force. A prefix has the form that `ipaddress` prints, strictly: "10.1.2.0/24", "2001:db8::/48". IPv4 and IPv6 are
separate; a v4-mapped client (RFC 4291 section 2.5.5.2) is an IPv4 client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from configtron.model.bounds import check_path, check_texts
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile, Value

# From so many prefixes on they are read, compared and written as columns (`prefix_columns.py`): below it loading numpy
# costs more than an object a prefix.
MANY = 20_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a driver acts. netns "" is this process's own; cgroup "" is the root of the version 2 hierarchy.

    interface   the interface of the routes; "" is that of the default route
    listen      local ports, or addresses with a port, as `tune/listeners.py` writes them: "22,192.0.2.1:443"; "" is all
    """

    netns: str = ""
    interface: str = ""
    cgroup: str = ""
    listen: str = ""

    def __post_init__(self) -> None:
        """Check texts and names. Errors: `BadInput`."""
        check_texts(self)
        if not self.listen.isprintable():
            raise BadInput(f"listen: {self.listen!r} names no port")
        for name, value in (("netns", self.netns), ("interface", self.interface), ("cgroup", self.cgroup)):
            check_path(name, value)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a driver reaches with one knob.

    per         "connection" (its clients' connections from their first segment on, each by its prefix), "prefix" (a
                setting that the kernel itself keeps by prefix), "netns", "device", "process"
    values      the values it takes, where they are names or few
    least, most the range it takes, where they are numbers, in the knob's unit (`knobs.py`)
    note        a fact without which a user of this knob by this driver would err
    refused     values that the kernel has and this driver does not take, each with the reason
    """

    knob: str
    per: str = "connection"
    values: tuple[Value, ...] = ()
    least: float | None = None
    most: float | None = None
    note: str = ""
    refused: tuple[tuple[Value, str], ...] = ()

    def takes(self, value: Value) -> bool:
        """Return whether a value lies within reach."""
        if self.why_not(value):
            return False
        if self.values or isinstance(value, str | bool | tuple):
            return value in self.values
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def why_not(self, value: Value) -> str:
        """Return the reason for which the driver refuses this value; "" where it takes it."""
        return dict(self.refused).get(value, "")


@dataclass(frozen=True, slots=True)
class Rules:
    """Profiles by name and prefix -> name of a profile: the wanted rules, or the rules in force.

    default   the profile of clients outside all prefixes; "" leaves them the untouched stack
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    default: str = ""

    @property
    def used(self) -> frozenset[str]:
        """Return the names of the profiles that some client has."""
        return frozenset((self.default, *prefix_counts(self.prefixes))) - {""}


def prefix_counts(prefixes: Mapping[str, str]) -> Mapping[str, int]:
    """Return how many prefixes each profile has, of those that some have."""
    if isinstance(prefixes, dict):
        return Counter(prefixes.values())
    # Few prefixes are a dictionary, and need no numpy.
    from configtron.model.prefix_columns import columns_of

    return columns_of(prefixes).counts()


@dataclass(frozen=True, slots=True)
class Difference:
    """The kernel's answer for clients of a scope (a prefix, `default`, a rule) differs from the applied rules.

    knob            "lookup" (which table or gateway), "route" (a route of ours against the main table), or a profile's
    applied, found  in words; "" for nothing
    """

    scope: str
    knob: str
    applied: str
    found: str


@dataclass(frozen=True, slots=True)
class Answers:
    """The kernel's answers to a driver about rules in force, and the questions that they leave open.

    asked        how many clients' addresses the driver asked about, of how many prefixes
    differences  answers that differ from the applied rules
    unasked      settings that could lead clients elsewhere and that the kernel gives no answer about, one line each
    connections  how many clients' open connections were looked at
    note         why none was, for JSON Lines alone; "" if some were
    """

    asked: int = 0
    prefixes: int = 0
    differences: tuple[Difference, ...] = ()
    unasked: tuple[str, ...] = ()
    connections: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes from one set of rules to another. A default of None stays as it is."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    dropped_profiles: frozenset[str] = frozenset()
    dropped_prefixes: frozenset[str] = frozenset()
    default: str | None = None

    def __bool__(self) -> bool:
        sets = (self.profiles, self.prefixes, self.dropped_profiles, self.dropped_prefixes)
        return any(map(len, sets)) or self.default is not None
