# SPDX-License-Identifier: MIT
"""Class, arm and propensity of a connection's client: from its record and the plan that was in force, or drawn again.

Question   Which class, arm and propensity has this connection's client, and which unit clusters its page loads?
Method     Each plan has a period: from when it came into force until the next plan did, by CLOCK_BOOTTIME. The wall
           clock may be stepped, so it only shows when a new epoch was due. Where the kernel draws, the record has
           class, arm and epoch; the plan of that epoch that was in force has the weights. Where a driver cannot draw
           (route), the plan in force at the connection's start draws for the client's prefix. The unit is a keyed hash
           of client and epoch, under the map's key: all servers compute the same one, and it identifies no client in
           another epoch.
Stop when  `PLANS` periods are stored: a connection that began before the oldest is "undrawn".
Reads as   `DrawnArm`.
Fails as   a doubt: "turn" within 3 s of a change of epoch, "window-cut", "undrawn"; "not-here" where this agent's
           driver lacks what was drawn: all other arms keep their chances, and none is recorded that was not applied.
Source     `model/draw.py`; RFC 7693 (BLAKE2b)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from configtron.fingerprint.features import plain
from configtron.intake.pageloads.log_lines import prefix_of_client
from configtron.model.close_records import OpenRecord
from configtron.model.draw import Mix, Plan, draw, propensity, unit_of
from configtron.model.fleet import NOT_HERE, TURN_MARGIN_S

# Periods that open connections may have begun in: some hours of keep-alive.
PLANS = 24
# Prefixes whose draw is cached, of each plan.
REMEMBERED = 20_000
# Changes of the wall clock that are remembered, and how far it moves before one is (ns): of a clock that is slewed by
# 500 parts in a million, fourteen hours.
OFFSETS, LEAST_NS = 256, 100_000_000


class DrawnArm(NamedTuple):
    """Class, arm and propensity of a client, without its address, as `model.fleet.OutcomeRow` has them.

    doubt   why its page loads are not learned from, a key of `reasons.UNTAUGHT`; "": they are
    """

    prefix: str
    unit: str
    term: int = 0
    map_version: int = 0
    epoch: int = 0
    class_name: str = ""
    arm: int | None = None
    profile: str = ""
    propensity: float | None = None
    held: bool = False
    doubt: str = ""


class ClientAsked(NamedTuple):
    """A question to the process that has the book: what was the client of an error report given?

    client   packed address, 4 or 16 bytes: known from the report's own connection
    at_ns    when, CLOCK_BOOTTIME
    """

    number: int
    client: bytes
    at_ns: int


# The answer to a question, by its number, without the address; None: that is not known.
ClientKnown = tuple[int, DrawnArm | None]


class PrefixDraw(NamedTuple):
    """A plan's draw for a client's prefix, with a driver that draws for prefixes; `class_name` "": Default.

    prefix  the map's prefix that was drawn for, by which intervals cluster; "": the record's own
    """

    class_name: str
    arm: int | None
    held: bool
    profile: str
    prefix: str = ""


@dataclass(frozen=True)
class DatedPlan:
    """A plan, its map, and when it came into force.

    epoch_s     length of an epoch; its number is wall-clock seconds // epoch_s
    mixes       by class
    unit_key    secret of the units' hash: the map's key
    of_prefix   returns the draw for a client's prefix; where the kernel draws, for error reports without a record
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


class PlanPeriod(NamedTuple):
    """The plan in force from `begin_ns` (CLOCK_BOOTTIME) until the next period begins; None: no plan, or not known.

    in_force_ns   when all its prefixes had been written, which takes time
    """

    begin_ns: int
    plan: DatedPlan | None
    in_force_ns: int


class WallOffsets:
    """What the wall clock was ahead of CLOCK_BOOTTIME, from when on, also where it was stepped since; before the first
    reading, as at that."""

    def __init__(self) -> None:
        self._offsets: deque[tuple[int, int]] = deque(maxlen=OFFSETS)

    def read(self, boot_ns: int, wall_ns: int) -> None:
        """Take a reading of both clocks, ns."""
        offset_ns = wall_ns - boot_ns
        if not self._offsets or abs(offset_ns - self._offsets[-1][1]) >= LEAST_NS:
            self._offsets.append((boot_ns, offset_ns))

    def wall_ns(self, boot_ns: int) -> int:
        """Return the wall clock at a time of CLOCK_BOOTTIME, ns; that time itself where no clock was read."""
        if not self._offsets:
            return boot_ns
        before = (offset_ns for since_ns, offset_ns in reversed(self._offsets) if since_ns <= boot_ns)
        return boot_ns + next(before, self._offsets[0][1])


class PlanBook:
    """The plans of the last epochs and when each was in force, by CLOCK_BOOTTIME, which is never stepped.

    kernel_draws   records have class and arm; else the plan draws for the client's prefix
    """

    def __init__(self, kernel_draws: bool = True) -> None:
        self.kernel_draws, self._wall = kernel_draws, WallOffsets()
        self._periods: list[PlanPeriod] = []

    def clocks(self, boot_ns: int, wall_ns: int) -> None:
        """Take a reading of CLOCK_BOOTTIME and of the wall clock; epochs begin by the latter."""
        self._wall.read(boot_ns, wall_ns)

    def add(self, plan: DatedPlan, in_force_ns: int = 0) -> None:
        """Add a plan in force from `since_ns`, completely so from `in_force_ns`; add plans in order of time."""
        # a draw takes 100 us, and a prefix has many clients
        of_prefix = lru_cache(REMEMBERED)(plan.of_prefix) if plan.of_prefix else None
        self._append(replace(plan, of_prefix=of_prefix), plan.since_ns, in_force_ns)

    def end(self, at_ns: int) -> None:
        """Record that no plan is in force from then on (CLOCK_BOOTTIME): where the kernel does not draw, connection
        records do not show it."""
        if self._periods and self._periods[-1].plan is not None:
            self._append(None, at_ns, at_ns)

    def _append(self, plan: DatedPlan | None, begin_ns: int, in_force_ns: int) -> None:
        begin_ns = max([begin_ns, *(one.begin_ns for one in self._periods[-1:])])
        self._periods = self._periods[1 - PLANS :] + [PlanPeriod(begin_ns, plan, max(in_force_ns, begin_ns))]

    def describe(self, record: OpenRecord, client: bytes) -> DrawnArm:
        """Return class, arm and propensity of a connection's client; client: its address, packed."""
        start_ns = record.start_ns
        at = self._of_epoch(record.epoch, start_ns) if self.kernel_draws else self._at(start_ns)
        plan = at.plan if at else None
        if at is None or plan is None:
            return DrawnArm(record.prefix, unit(b"", client, record.epoch or 0), doubt="undrawn")
        if not self.kernel_draws:
            return self._drawn(plan, record.prefix, client, start_ns)
        near = self._near(plan, start_ns) or self._is_outside(at, start_ns)
        name, doubt = record.class_name or "", "turn" if near else "window-cut" if record.window_cut else ""
        doubt = doubt or (NOT_HERE if record.profile == NOT_HERE else "")
        mix = plan.mixes.get(name)
        if mix is not None and record.arm is not None and record.arm >= len(mix.weights):
            # It began under another plan of this epoch, whose class of that name has more arms.
            mix = None
        if (name and mix is None) or record.profile is None:
            doubt = "undrawn"
        chance = 1.0 if not name else propensity(plan.plan, mix, record.arm) if mix else None
        epoch = plan.plan.epoch
        return DrawnArm(
            record.prefix, unit(plan.unit_key, client, epoch), plan.term, plan.map_version, epoch, name, record.arm,
            record.profile or "", chance, record.held, doubt,
        )  # fmt: skip

    def of_client(self, client: bytes, at_ns: int) -> DrawnArm | None:
        """Return the draw for a client without a record, at that time (CLOCK_BOOTTIME); None: not known."""
        at = self._at(at_ns)
        if at is None or at.plan is None or at.plan.of_prefix is None:
            return None
        found = self._drawn(at.plan, prefix_of_client(client), client, at_ns)
        return None if found.doubt == "undrawn" else found

    def _at(self, start_ns: int) -> PlanPeriod | None:
        """Return the period that contains a time of CLOCK_BOOTTIME; None: it is before the first."""
        return next((one for one in reversed(self._periods) if one.begin_ns <= start_ns), None)

    def _of_epoch(self, epoch: int | None, start_ns: int) -> PlanPeriod | None:
        """Return the latest period of a record's epoch that had begun when the connection did, else the epoch's first;
        None: there is none, or no plan was in force (epoch None). The kernel knows whether the plan had ended."""
        of = [one for one in self._periods if one.plan and one.plan.plan.epoch == epoch]
        return next((one for one in reversed(of) if one.begin_ns <= start_ns), of[0] if of else None)

    def _is_outside(self, at: PlanPeriod, start_ns: int) -> bool:
        """Return whether a connection began before its plan's period, or after the next plan's period had begun."""
        later = (one for one in self._periods if one.plan and at.begin_ns < one.begin_ns <= start_ns)
        return start_ns < at.begin_ns or any(later)

    def _near(self, plan: DatedPlan, start_ns: int) -> bool:
        """Return whether a connection began so close to a change of epoch that either arm may apply: close to a change
        that took place, or to one that was due by the wall clock of that time."""
        margin_ns = round(TURN_MARGIN_S * 1e9)
        turned = any(one.begin_ns - margin_ns < start_ns < one.in_force_ns + margin_ns
                     for one in self._periods if one.plan and one.begin_ns)  # fmt: skip
        return turned or near_turn(self._wall.wall_ns(start_ns), plan.epoch_s)

    def _drawn(self, plan: DatedPlan, prefix: str, client: bytes, start_ns: int) -> DrawnArm:
        """Return the plan's draw for the client's prefix."""
        epoch = plan.plan.epoch
        found = plan.of_prefix(prefix) if plan.of_prefix else None
        of = (found.prefix if found else "") or prefix
        named = unit(plan.unit_key, client, epoch) if self.kernel_draws else hashed(plan.unit_key, of.encode(), epoch)
        if found is None:
            return DrawnArm(prefix, named, plan.term, plan.map_version, epoch, doubt="undrawn")
        mix = plan.mixes.get(found.class_name)
        if self.kernel_draws:
            found = self._of_client(plan, mix, found, client)
        doubt = "turn" if self._near(plan, start_ns) else NOT_HERE if found.profile == NOT_HERE else ""
        if self.kernel_draws and mix is None and plan.plan.bands:
            # its class is by its handshake's round trip, which is not known without a record
            doubt = "undrawn"
        chance = propensity(plan.plan, mix, found.arm) if mix else 1.0
        return DrawnArm(
            prefix, named, plan.term, plan.map_version, epoch, found.class_name, found.arm, found.profile, chance,
            found.held, doubt,
        )  # fmt: skip

    def _of_client(self, plan: DatedPlan, mix: Mix | None, found: PrefixDraw, client: bytes) -> PrefixDraw:
        """Return the kernel's draw for one client of a prefix's class."""
        if mix is None:
            return found
        drawn = draw(plan.plan, mix, unit_of(plain(client)))
        profile = plan.plan.held_profile if drawn.arm is None else mix.profiles[drawn.arm]
        return PrefixDraw(found.class_name, drawn.arm, drawn.held, profile)


def near_turn(wall_ns: int, epoch_s: int) -> bool:
    """Return whether a wall-clock time is so close to a change of epoch that either arm may apply."""
    into_s = wall_ns / 1e9 % epoch_s
    return into_s < TURN_MARGIN_S or epoch_s - into_s < TURN_MARGIN_S


def unit(key: bytes, client: bytes, epoch: int) -> str:
    """Return the unit of a client in an epoch, by which intervals cluster: 16 hexadecimal digits.

    As in the draw, an IPv4 address is a client, and so is an IPv6 /64.
    """
    return hashed(key, unit_of(plain(client)).to_bytes(8, "big"), epoch)


def hashed(key: bytes, name: bytes, epoch: int) -> str:
    """Return the unit of a client, or of a prefix where the draw is by prefix."""
    return blake2b(name + epoch.to_bytes(8, "big"), key=key, digest_size=8).hexdigest()
