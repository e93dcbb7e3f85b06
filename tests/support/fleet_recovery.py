# SPDX-License-Identifier: MIT
"""Each planted fault of a simulated fleet, and the virtual seconds until what it befell is as it ought to be.

Question   How long does a fault of this kind last, while others are planted beside it?
Method     Each kind has an end state (`ENDS`), looked for in each step from the fault on: an agent's is that it runs,
           holds a map, and the kernel has that map's rules for the epoch of its clock; a manager's, that it runs and
           agents that are within reach obey it. What lasts (partitions, full disks) counts from the fault on too.
Reads as   `Recovery.seconds`: kind -> one figure a fault.
Fails as   `Recovery.open`: faults whose end state never came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.support.fleet_hosts import Host, ManagerHost
    from tests.support.fleet_world import World


class Planted(NamedTuple):
    """A fault: when, of which kind, and the process that it befell; "": none."""

    at_s: float
    kind: str
    process: str


class Recovery:
    """The faults of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.every: list[Planted] = []
        self.open: list[Planted] = []
        self.seconds: dict[str, list[float]] = {}

    def planted(self, kind: str, process: str) -> None:
        """Take a fault that is planted now."""
        one = Planted(self.world.now, kind, process)
        self.every.append(one)
        if kind in ENDS:
            self.open.append(one)

    def step(self) -> None:
        """Look which faults are over."""
        now, still = self.world.now, []
        for one in self.open:
            if one.at_s < now and ENDS[one.kind](self.world, one):
                self.seconds.setdefault(one.kind, []).append(round(now - one.at_s, 3))
            else:
                still.append(one)
        self.open = still


def host_is_right(world: World, one: Planted) -> bool:
    """Return whether an agent runs and its kernel has its map's rules, of the epoch of its clock."""
    host = world.hosts.get(one.process)
    if host is None:
        return manager_is_right(world, one)
    if host.revoked_at is not None:
        return True
    if host.core is None or host.applier is None or host.applier.drawing is None:
        return False
    drawing = host.applier.drawing
    in_epoch = host.wall_ns() // 1_000_000_000 // drawing.head.epoch_s == drawing.epoch
    return in_epoch and host.kernel.in_force(world.now) == host.applier.rules


def host_is_heard(world: World, one: Planted) -> bool:
    """Return whether an agent is right, and the manager has its rows."""
    host = world.hosts[one.process]
    if host.revoked_at is not None:
        return True
    if world.faults.cut_off.get(host.name, -1.0) > world.now or not host_is_right(world, one):
        return False
    return host.core is not None and _obeys(host, world.managers[0])


def manager_is_right(world: World, one: Planted) -> bool:
    """Return whether the manager runs, and agents that run and are within reach obey it."""
    first = world.managers[0]
    if first.core is None:
        return False
    return all(_obeys(host, first) for host in world.hosts.values()
               if host.core is not None and host.revoked_at is None and host.protocol is None
               and world.faults.cut_off.get(host.name, -1.0) <= world.now)  # fmt: skip


def _obeys(host: Host, manager: ManagerHost) -> bool:
    if host.core is None or manager.core is None:
        return False
    return host.core.session.manager == (manager.core.term, manager.core.session.manager)


def place_is_frozen(world: World, one: Planted) -> bool:
    """Return whether another program's change was noticed, or nothing of ours was in force."""
    host = world.hosts[one.process]
    return not host.kernel.foreign or not host.kernel.rules.prefixes


def key_is_unheard(world: World, one: Planted) -> bool:
    """Return whether the manager's allow-list lacks a revoked key."""
    core = world.managers[0].core
    return core is not None and one.process not in core.session.allowed.values()


def old_one_stopped(world: World, one: Planted) -> bool:
    """Return whether the second manager has ended."""
    return all(manager.core is None for manager in world.managers[1:])


ENDS: dict[str, Callable[[World, Planted], bool]] = {
    "agent killed": host_is_right, "reboot": host_is_right, "killed between writes": host_is_right,
    "manager killed": manager_is_right, "old manager started": old_one_stopped, "partition": host_is_heard,
    "agent of another protocol": host_is_heard, "agent's clock jumps": host_is_right,
    "manager's clock jumps": manager_is_right, "agent's journal full": host_is_right,
    "module of another version": host_is_right, "lease watchdog killed": host_is_right,
    "external change": place_is_frozen, "revoked": key_is_unheard, "forged document": host_is_right,
    "forged map": host_is_right, "map replayed": host_is_right,
}  # fmt: skip
