# SPDX-License-Identifier: MIT
"""What a connection's client was given: from its record and the plan that was in force, or drawn again.

Question   Which class, arm and propensity has this connection's client, and what do intervals cluster by?
Method     Plans lie on one line of time (CLOCK_BOOTTIME), each from when it came into force; the wall clock, which is
           stepped, says when a turn was due and no more. Where the kernel draws, the record has class, arm and epoch;
           the plan of that epoch that was in force has the weights. Where a driver cannot draw (route), the plan in
           force at the connection's start draws for the client's prefix. The unit is a keyed hash of client and epoch,
           under the map's key: the same on all servers, of no use when the epoch has passed.
Stop when  `PLANS` stretches are remembered: a connection that began before them is "undrawn".
Reads as   `DrawnArm`.
Fails as   a doubt: "turn" within 3 s of a turn, "window-cut", "undrawn".
Source     `model/draw.py`; RFC 7693 (BLAKE2b)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from configtron.fingerprint.features import plain
from configtron.learner.pageloads.request_join import DrawnArm, prefix_of_client
from configtron.learner.pageloads.wall_offsets import WallOffsets
from configtron.model.close_records import OpenRecord
from configtron.model.draw import Mix, Plan, draw, propensity, unit_of
from configtron.model.fleet import TURN_MARGIN_S

# Stretches that connections may have begun in: some hours of keep-alive.
PLANS = 24
# Prefixes whose draw is remembered, of each plan.
REMEMBERED = 20_000


class PrefixDraw(NamedTuple):
    """What the plan gives a client of a driver that draws for prefixes; `class_name` "": Default.

    prefix  of the map, which was drawn for: intervals cluster by it; "": the record's own
    """

    class_name: str
    arm: int | None
    held: bool
    profile: str
    prefix: str = ""


@dataclass(frozen=True)
class DatedPlan:
    """A plan with the map that it is of.

    epoch_s     length of an epoch; its number is wall-clock seconds // epoch_s
    mixes       by class
    unit_key    secret of the units' hash: the map's key
    of_prefix   what a client's prefix is given; where the kernel draws for clients, for reports without a record
    since_ns    CLOCK_BOOTTIME at which it came into force; 0: before all connections
    """

    term: int
    map_version: int
    epoch_s: int
    plan: Plan
    mixes: Mapping[str, Mix]
    unit_key: bytes
    of_prefix: Callable[[str], PrefixDraw | None] | None = None
    since_ns: int = 0


class Stretch(NamedTuple):
    """What was in force from `begin_ns` of CLOCK_BOOTTIME until the next stretch begins; None: nothing for sure.

    settled_ns   by then it had come into force: writing many prefixes takes time
    """

    begin_ns: int
    plan: DatedPlan | None
    settled_ns: int


class PlanBook:
    """The plans of the last epochs, on one line of time that no clock's step moves: CLOCK_BOOTTIME.

    kernel_draws   records have class and arm; else clients are given what the plan gives their prefix
    """

    def __init__(self, kernel_draws: bool = True) -> None:
        self.kernel_draws, self._wall = kernel_draws, WallOffsets()
        self._line: list[Stretch] = []

    def clocks(self, boot_ns: int, wall_ns: int) -> None:
        """Take a reading of CLOCK_BOOTTIME and of the wall clock; turns are due by the latter."""
        self._wall.read(boot_ns, wall_ns)

    def add(self, plan: DatedPlan, settled_ns: int = 0) -> None:
        """Remember a plan that came into force at `since_ns`, and was by `settled_ns`; call it in their order."""
        # a draw takes 100 us, and clients of a prefix come together
        of_prefix = lru_cache(REMEMBERED)(plan.of_prefix) if plan.of_prefix else None
        self._append(replace(plan, of_prefix=of_prefix), plan.since_ns, settled_ns)

    def end(self, at_ns: int) -> None:
        """Remember that no plan is in force from then on (CLOCK_BOOTTIME): where the kernel does not draw, no record
        shows it."""
        if self._line and self._line[-1].plan is not None:
            self._append(None, at_ns, at_ns)

    def _append(self, plan: DatedPlan | None, begin_ns: int, settled_ns: int) -> None:
        begin_ns = max([begin_ns, *(one.begin_ns for one in self._line[-1:])])
        self._line = self._line[1 - PLANS :] + [Stretch(begin_ns, plan, max(settled_ns, begin_ns))]

    def describe(self, record: OpenRecord, client: bytes) -> DrawnArm:
        """Return what a connection's client was given; `client` its address, packed."""
        start_ns = record.start_ns
        at = self._of_epoch(record.epoch, start_ns) if self.kernel_draws else self._at(start_ns)
        plan = at.plan if at else None
        if at is None or plan is None:
            return DrawnArm(record.prefix, unit(b"", client, record.epoch or 0), doubt="undrawn")
        if not self.kernel_draws:
            return self._drawn(plan, record.prefix, client, start_ns)
        near = self._near(plan, start_ns) or self._is_outside(at, start_ns)
        name, doubt = record.class_name or "", "turn" if near else "window-cut" if record.window_cut else ""
        mix = plan.mixes.get(name)
        if (name and mix is None) or record.profile is None:
            doubt = "undrawn"
        chance = 1.0 if not name else propensity(plan.plan, mix, record.arm) if mix else None
        epoch = plan.plan.epoch
        return DrawnArm(
            record.prefix, unit(plan.unit_key, client, epoch), plan.term, plan.map_version, epoch, name, record.arm,
            record.profile or "", chance, record.held, doubt,
        )  # fmt: skip

    def of_client(self, client: bytes, at_ns: int) -> DrawnArm | None:
        """Return what a client without a record was given then (CLOCK_BOOTTIME); None where that is not known."""
        at = self._at(at_ns)
        if at is None or at.plan is None or at.plan.of_prefix is None:
            return None
        found = self._drawn(at.plan, prefix_of_client(client), client, at_ns)
        return None if found.doubt == "undrawn" else found

    def _at(self, start_ns: int) -> Stretch | None:
        """Return the stretch that a time of CLOCK_BOOTTIME lies in; None: it is before the first."""
        return next((one for one in reversed(self._line) if one.begin_ns <= start_ns), None)

    def _of_epoch(self, epoch: int | None, start_ns: int) -> Stretch | None:
        """Return the latest stretch of a record's epoch that had begun at its start, else the epoch's first; None:
        there is none, or no plan was in force (epoch None). Whether the plan had ended is the kernel's to know."""
        of = [one for one in self._line if one.plan and one.plan.plan.epoch == epoch]
        return next((one for one in reversed(of) if one.begin_ns <= start_ns), of[0] if of else None)

    def _is_outside(self, at: Stretch, start_ns: int) -> bool:
        """Return whether a connection began before its plan's stretch, or after the next plan's had begun."""
        later = (one for one in self._line if one.plan and at.begin_ns < one.begin_ns <= start_ns)
        return start_ns < at.begin_ns or any(later)

    def _near(self, plan: DatedPlan, start_ns: int) -> bool:
        """Return whether a connection began so close to a turn that two arms may apply: to one that took place, or to
        one that was due by the wall clock of that time."""
        margin_ns = round(TURN_MARGIN_S * 1e9)
        turned = any(one.begin_ns - margin_ns < start_ns < one.settled_ns + margin_ns
                     for one in self._line if one.plan and one.begin_ns)  # fmt: skip
        return turned or near_turn(self._wall.wall_ns(start_ns), plan.epoch_s)

    def _drawn(self, plan: DatedPlan, prefix: str, client: bytes, start_ns: int) -> DrawnArm:
        """Return what the plan gives the client's prefix."""
        epoch = plan.plan.epoch
        found = plan.of_prefix(prefix) if plan.of_prefix else None
        of = (found.prefix if found else "") or prefix
        named = unit(plan.unit_key, client, epoch) if self.kernel_draws else hashed(plan.unit_key, of.encode(), epoch)
        if found is None:
            return DrawnArm(prefix, named, plan.term, plan.map_version, epoch, doubt="undrawn")
        mix = plan.mixes.get(found.class_name)
        if self.kernel_draws:
            found = self._of_client(plan, mix, found, client)
        doubt = "turn" if self._near(plan, start_ns) else ""
        if self.kernel_draws and mix is None and plan.plan.bands:
            # its class came of its handshake's round trip, which no record shows here
            doubt = "undrawn"
        chance = propensity(plan.plan, mix, found.arm) if mix else 1.0
        return DrawnArm(
            prefix, named, plan.term, plan.map_version, epoch, found.class_name, found.arm, found.profile, chance,
            found.held, doubt,
        )  # fmt: skip

    def _of_client(self, plan: DatedPlan, mix: Mix | None, found: PrefixDraw, client: bytes) -> PrefixDraw:
        """Return what the kernel draws for one client of a prefix's class."""
        if mix is None:
            return found
        drawn = draw(plan.plan, mix, unit_of(plain(client)))
        profile = plan.plan.held_profile if drawn.arm is None else mix.profiles[drawn.arm]
        return PrefixDraw(found.class_name, drawn.arm, drawn.held, profile)


def near_turn(wall_ns: int, epoch_s: int) -> bool:
    """Return whether a time of the wall clock is so close to a turn that both arms may apply."""
    into_s = wall_ns / 1e9 % epoch_s
    return into_s < TURN_MARGIN_S or epoch_s - into_s < TURN_MARGIN_S


def unit(key: bytes, client: bytes, epoch: int) -> str:
    """Return what intervals cluster by: 16 hexadecimal digits of a client in an epoch.

    A packed address counts as the draw counts it: IPv4 whole, IPv6 by its /64.
    """
    return hashed(key, unit_of(plain(client)).to_bytes(8, "big"), epoch)


def hashed(key: bytes, name: bytes, epoch: int) -> str:
    """Return the unit of a name: of a client, or of a prefix where prefixes are drawn."""
    return blake2b(name + epoch.to_bytes(8, "big"), key=key, digest_size=8).hexdigest()
