# SPDX-License-Identifier: MIT
"""Open connections follow a class change: those of the prefixes alone whose class a map changed.

Question   Which profile does an open connection get when its prefix comes to another class?
Method     What a new connection of its client would get: the class's mix drawn for the client (with a driver that does
           not draw: for the prefix) by the map's key in the epoch that is in force. A client that is held back gets
           what its listener has. Longer prefixes inside a changed one keep what they have. A class without a mix yet
           waits for the turn of the epoch that brings it. Mixes have no profile that the operator's bounds, the guard
           or the driver refuse (`applier.py`).
Stop when  no prefix waits; each call lasts `TURN_S` at most, so that leases are renewed meanwhile.
Reads as   `RetuneCount` of each call that met connections.
Fails as   one line; the prefixes wait for the next call, `TRIES` times.
Source     CT section 5: a class's configuration holds for its clients from the update on
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import TYPE_CHECKING, Protocol

import numpy as np

from configtron.model.draw import HELD, draws, unit_of
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.drawing import DrawnMap, prefix_unit
from configtron.tune.plan import UNTOUCHED

if TYPE_CHECKING:
    from configtron.service.lease.retuning import Choice, RetuneCount, SocketTarget
    from configtron.tune.drivers.pidfd_options import OpenClient

log = logging.getLogger("configtron.fleet")

# s of a call; calls that may fail before the prefixes are given up.
TURN_S, TRIES = 0.25, 20


class ConnectionRetuner(Protocol):
    """What sets open connections (`enforcement.JournaledEnforcement`)."""

    def retune(self, choose: Choice, profiles: Iterable[Profile], until_s: float) -> RetuneCount:
        """Give open connections what `choose` wants, until a time of `time.monotonic`. Errors: `ConfigtronError`."""


class ClassRetuning:
    """Prefixes of an applier whose open connections are to follow their class."""

    def __init__(self, applier: Applier, connections: ConnectionRetuner) -> None:
        self._applier, self._connections = applier, connections
        self._waiting: dict[str, str] = {}
        self._failed = 0
        # Cookies for which the time was too short; None: all connections of the prefixes.
        self._later: frozenset[int] | None = None

    def add(self, changed: Mapping[str, str]) -> None:
        """Have the open connections of prefixes follow; changed: prefix -> its former class."""
        for prefix, former in changed.items():
            self._waiting.setdefault(prefix, former)
        if changed:
            self._later = None

    def turn(self) -> RetuneCount | None:
        """Re-tune connections that wait; None where none do. Call it some times a second."""
        drawing = self._applier.drawing
        if not self._waiting or drawing is None or self._applier.frozen:
            return None
        ready = {prefix: name for prefix in self._waiting if (name := self._applier.class_of(prefix)) in drawing.mixes}
        if not ready:
            self._forget_unlisted()
            return None
        try:
            done = self._connections.retune(lambda found: self._targets(found, ready, drawing),
                                            _given_by(drawing), time.monotonic() + TURN_S)  # fmt: skip
        except (ConfigtronError, OSError) as error:
            self._failed += 1
            if self._failed >= TRIES:
                log.warning("open connections of %d prefixes keep what they have: %s", len(ready), error)
                self._done(ready)
            return None
        self._later = done.later or None
        if self._later is None:
            self._done(ready)
        if done.connections:
            log.info("%d prefixes have another class: %s", len(ready), done.text)
        return done if done.connections else None

    def _done(self, prefixes: Iterable[str]) -> None:
        self._failed, self._later = 0, None
        for prefix in prefixes:
            self._waiting.pop(prefix, None)

    def _forget_unlisted(self) -> None:
        """Forget prefixes that the map in force does not list any more."""
        self._waiting = {prefix: former for prefix, former in self._waiting.items() if self._applier.class_of(prefix)}

    def _targets(self, found: Sequence[OpenClient], ready: Mapping[str, str], drawing: DrawnMap
                 ) -> dict[int, SocketTarget]:  # fmt: skip
        """Return what connections of the prefixes are to have, by cookie."""
        from configtron.service.lease.retuning import SocketTarget

        lookup = LongestPrefix(ready, self._applier.rules.prefixes)
        later = self._later
        meant = [(one, prefix) for one in found
                 if (later is None or one.cookie in later) and (prefix := lookup.of(one.address))]  # fmt: skip
        by_class: dict[str, list[tuple[OpenClient, str]]] = {}
        for one, prefix in meant:
            by_class.setdefault(ready[prefix], []).append((one, prefix))
        targets: dict[int, SocketTarget] = {}
        for name, members in by_class.items():
            mix = drawing.mixes[name]
            units = [unit_of(one.address) if self._applier.draws else prefix_unit(prefix) for one, prefix in members]
            arms, _ = draws(drawing.plan(0), mix, np.array(units, dtype=np.uint64))
            for (one, prefix), arm in zip(members, arms.tolist(), strict=True):
                profile = Profile(UNTOUCHED) if arm == HELD else drawing.profiles[mix.profiles[arm]]
                targets[one.cookie] = SocketTarget(prefix, self._waiting[prefix], name, profile)
        return targets


def _given_by(drawing: DrawnMap) -> list[Profile]:
    """Return the profiles of a map, refused ones too: an earlier bound may have let one through."""
    return list(drawing.profiles.values())


class LongestPrefix:
    """Longest-prefix match for few of many prefixes. meant: those to find; every: all that are in force."""

    def __init__(self, meant: Iterable[str], every: Iterable[str]) -> None:
        self._meant = {_numbers(prefix): prefix for prefix in meant}
        self._every = every
        self._lengths = {version: sorted({one[1] for one in self._meant if one[0] == version}, reverse=True)
                         for version in (4, 6)}  # fmt: skip
        self._longer: set[tuple[int, int, int]] | None = None

    def of(self, address: IPv4Address | IPv6Address) -> str:
        """Return the prefix of an address, "" where none of those holds it or a longer one in force does."""
        version, bits, number = address.version, address.max_prefixlen, int(address)
        for length in self._lengths[version]:
            found = self._meant.get((version, length, number >> bits - length))
            if found is not None:
                inner = self._inner()
                longer = range(length + 1, bits + 1)
                return "" if any((version, each, number >> bits - each) in inner for each in longer) else found
        return ""

    def _inner(self) -> set[tuple[int, int, int]]:
        """Return the prefixes in force that are longer than the shortest one that is meant, read once."""
        if self._longer is None:
            least = {version: min(lengths) for version, lengths in self._lengths.items() if lengths}
            self._longer = {
                _numbers(prefix) for prefix in self._every
                if int(prefix.rpartition("/")[2]) > least.get(6 if ":" in prefix else 4, 128)
            }  # fmt: skip
        return self._longer


def _numbers(prefix: str) -> tuple[int, int, int]:
    """Return a prefix as version, length, and the address's first bits."""
    network = ip_network(prefix)
    length = network.prefixlen
    return network.version, length, int(network.network_address) >> network.max_prefixlen - length
