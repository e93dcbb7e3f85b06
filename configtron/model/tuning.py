# SPDX-License-Identifier: MIT
"""Types that plan, journal and drivers exchange: settable knobs, rules in force, changes.

Rules for this file: those of `nouns.py`. A profile says *what*, a prefix says *for whom*; a driver puts both in force.
A prefix is written as `ipaddress` prints it, strictly: "10.1.2.0/24", "2001:db8::/48". IPv4 and IPv6 stand apart; a
v4-mapped client (RFC 4291 section 2.5.5.2) is an IPv4 client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from configtron.model.bounds import check_path, check_texts
from configtron.model.nouns import Profile, Value


@dataclass(frozen=True, slots=True)
class Place:
    """Where a driver acts. netns "" is the one we are in; cgroup "" is the root of the version 2 hierarchy.

    interface   whose routes are meant; "" that of the default route
    listen      which local ports, or addresses with a port, as `tune/listeners.py` writes them: "22,192.0.2.1:443"; ""
                all
    """

    netns: str = ""
    interface: str = ""
    cgroup: str = ""
    listen: str = ""

    def __post_init__(self) -> None:
        """Check texts and names. Errors: `BadInput`."""
        check_texts(self)
        for name, value in (("netns", self.netns), ("interface", self.interface), ("cgroup", self.cgroup)):
            check_path(name, value)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a driver reaches with one knob.

    per         "connection" (its clients' connections from their first segment on, each by its prefix), "prefix" (what
                the kernel itself keeps by prefix), "netns", "device", "process"
    values      the values it takes, where they are names or few
    least, most the range it takes, where they are numbers, in the knob's unit (`knobs.py`)
    note        what a user of this knob by this driver would get wrong without it
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
        """Whether a value lies within reach."""
        if self.why_not(value):
            return False
        if self.values:
            return value in self.values
        if isinstance(value, str | bool | tuple):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def why_not(self, value: Value) -> str:
        """The reason why a value is refused by name; "" where it is not."""
        return dict(self.refused).get(value, "")


@dataclass(frozen=True, slots=True)
class Rules:
    """Profiles by name and prefix -> name of a profile: what is wanted, or what is in force.

    default   the profile of clients that no prefix holds; "" leaves them the untouched stack
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    default: str = ""

    @property
    def used(self) -> frozenset[str]:
        """Return the names of the profiles that some client has."""
        return frozenset((self.default, *self.prefixes.values())) - {""}


@dataclass(frozen=True, slots=True)
class Difference:
    """What the kernel answers for clients of a scope (a prefix, `default`, a rule) is not what was applied.

    knob            "lookup" (which table or gateway), "route" (a route of ours against the main table), or a profile's
    applied, found  in words; "" for nothing
    """

    scope: str
    knob: str
    applied: str
    found: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What a driver has asked the kernel about rules in force, and what the answers leave open.

    asked        how many clients' addresses were asked about, of how many prefixes
    differences  where the answer is not what was applied
    unasked      what could lead clients elsewhere and cannot be asked about, one line each
    """

    asked: int = 0
    prefixes: int = 0
    differences: tuple[Difference, ...] = ()
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """From one set of rules to another. A default of None stays as it is."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    dropped_profiles: frozenset[str] = frozenset()
    dropped_prefixes: frozenset[str] = frozenset()
    default: str | None = None

    def __bool__(self) -> bool:
        sets = (self.profiles, self.prefixes, self.dropped_profiles, self.dropped_prefixes)
        return any(map(len, sets)) or self.default is not None
