# SPDX-License-Identifier: MIT
"""What a connection's client was given: from its record and the plan that was in force, or drawn again.

Question   Which class, arm and propensity has this connection's client, and what do intervals cluster by?
Method     Where the kernel draws, the record has class, arm and epoch; the plan of that epoch has the weights. Where a
           driver cannot draw (route), the plan draws for the client's prefix by the wall clock at the connection's
           start. The unit is a keyed hash of client and epoch, under the map's key: the same on all servers, of no use
           when the epoch has passed.
Stop when  `PLANS` plans are remembered: a connection that began before them is "undrawn".
Reads as   `DrawnArm`.
Fails as   a doubt: "turn" within 3 s of a turn of the epoch, "window-cut", "undrawn".
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
from configtron.learner.pageloads.request_join import DrawnArm, prefix_of_client
from configtron.model.close_records import OpenRecord
from configtron.model.draw import Mix, Plan, draw, propensity, unit_of
from configtron.model.fleet import TURN_MARGIN_S

# Epochs that connections may have begun in: some hours of keep-alive.
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
    since_ns    CLOCK_BOOTTIME at which it came into force: of two plans of an epoch (a rollback), connections that
                began before it have the other; 0: from the epoch's begin
    """

    term: int
    map_version: int
    epoch_s: int
    plan: Plan
    mixes: Mapping[str, Mix]
    unit_key: bytes
    of_prefix: Callable[[str], PrefixDraw | None] | None = None
    since_ns: int = 0


class PlanBook:
    """The plans of the last epochs.

    kernel_draws   records have class and arm; else clients are given what the plan gives their prefix
    wall_ns        wall clock minus CLOCK_BOOTTIME, ns, as of now
    """

    def __init__(self, kernel_draws: bool = True, wall_ns: int = 0) -> None:
        self.kernel_draws, self.wall_ns = kernel_draws, wall_ns
        self._plans: list[DatedPlan] = []
        self._ends: deque[int] = deque(maxlen=PLANS)

    def add(self, plan: DatedPlan) -> None:
        """Remember the plan of an epoch, also a new map's within it."""
        # a draw takes 100 us, and clients of a prefix come together
        of_prefix = lru_cache(REMEMBERED)(plan.of_prefix) if plan.of_prefix else None
        at = (plan.plan.epoch, plan.since_ns)
        self._plans = [one for one in self._plans if (one.plan.epoch, one.since_ns) != at][1 - PLANS :]
        self._plans.append(replace(plan, of_prefix=of_prefix))

    def end(self, at_ns: int) -> None:
        """Remember that no plan is in force from then on (CLOCK_BOOTTIME): where the kernel does not draw, no record
        shows it."""
        self._ends.append(max([at_ns, *(one.since_ns for one in self._plans[-1:])]))

    def describe(self, record: OpenRecord, client: bytes) -> DrawnArm:
        """Return what a connection's client was given; `client` its address, packed."""
        at_ns = record.start_ns + self.wall_ns
        plan = self._plan_at(at_ns) if record.epoch is None else self._plan_of(record.epoch, record.start_ns)
        if plan is None:
            return DrawnArm(record.prefix, unit(b"", client, record.epoch or 0), doubt="undrawn")
        if not self.kernel_draws:
            return self._drawn(plan, record.prefix, client, at_ns)
        near = self._near(plan, at_ns)
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
        plan = self._plan_at(at_ns + self.wall_ns)
        if plan is None or plan.of_prefix is None:
            return None
        found = self._drawn(plan, prefix_of_client(client), client, at_ns + self.wall_ns)
        return None if found.doubt == "undrawn" else found

    def _plan_of(self, epoch: int, start_ns: int) -> DatedPlan | None:
        """Return the plan of an epoch that was in force at a time of CLOCK_BOOTTIME, else the epoch's first."""
        of = [one for one in self._plans if one.plan.epoch == epoch]
        return next((one for one in reversed(of) if one.since_ns <= start_ns), of[0] if of else None)

    def _plan_at(self, wall_ns: int) -> DatedPlan | None:
        """Return the plan that was in force at a time of the wall clock."""
        start_ns, of = wall_ns - self.wall_ns, wall_ns // 10**9
        found = next((one for one in reversed(self._plans)
                      if of // one.epoch_s == one.plan.epoch and one.since_ns <= start_ns), None)  # fmt: skip
        return None if found and any(found.since_ns <= at <= start_ns for at in self._ends) else found

    def _near(self, plan: DatedPlan, wall_ns: int) -> bool:
        """Return whether a connection began so close to a turn that two arms may apply."""
        start_ns, margin_ns = wall_ns - self.wall_ns, round(TURN_MARGIN_S * 1e9)
        turned = any(abs(start_ns - one.since_ns) < margin_ns for one in self._plans if one.since_ns)
        turned = turned or start_ns < plan.since_ns
        return turned or near_turn(wall_ns, plan.epoch_s)

    def _drawn(self, plan: DatedPlan, prefix: str, client: bytes, wall_ns: int) -> DrawnArm:
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
        doubt = "turn" if self._near(plan, wall_ns) else ""
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
