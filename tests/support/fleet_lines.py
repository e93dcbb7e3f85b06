# SPDX-License-Identifier: MIT
"""The line that each fault of a simulated fleet must leave in the log of the process that it befell, and when.

Words are written by hand, not taken from the code that logs. A process that did not run in that time, or was started
anew, need not have noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.support.fleet_hosts import ManagerHost
    from tests.support.fleet_recovery import Planted
    from tests.support.fleet_world import World

# s within which an agent that was killed is started again.
RESTARTED_S = 15.0


class Named(NamedTuple):
    """Words of a line, the s within which it is logged, and whether by the process that the fault befell."""

    words: str
    within_s: float
    own: bool = True


STEPPED = Named("this host's wall clock was stepped by", 3.0)
NAMED = {
    "external change": Named("another program changed what is in force", float("inf"), own=False),
    "revoked": Named("is dropped: revoked", float("inf"), own=False),
    "agent's clock jumps": STEPPED,
    "manager's clock jumps": STEPPED,
}


def unnamed(world: World) -> Iterator[str]:
    """Yield each fault that no line names."""
    for one in world.recovery.every:
        found = NAMED.get(one.kind)
        if found is not None and not _has_line(world, one, found) and not _was_restarted(world, one):
            yield f"no line of the log names {one.kind} of {one.process} at {one.at_s:.1f} s"


def _has_line(world: World, one: Planted, named: Named) -> bool:
    return any(named.words in line.text for line in world.log.lines if 0.0 <= line.at_s - one.at_s <= named.within_s
               and (not named.own or line.process == one.process))  # fmt: skip


def _had_ended(manager: ManagerHost, one: Planted) -> bool:
    """Return whether a manager had ended before a line of the fault was due: an old one ends where it is refused."""
    since_s = max((at_s for at_s in manager.begun_s if at_s <= one.at_s), default=float("inf"))
    due_s = one.at_s + NAMED[one.kind].within_s
    return since_s > one.at_s or any(since_s <= at_s <= due_s for at_s in manager.ended_s)


def _was_restarted(world: World, one: Planted) -> bool:
    """Return whether the process did not run when it would have noticed, or had nothing in force to be changed."""
    if any(_had_ended(manager, one) for manager in world.managers if manager.name == one.process):
        return True
    host = world.hosts.get(one.process)
    begun = [at_s for at_s, _ in host.begun] if host is not None else []
    begun += [at_s for manager in world.managers if manager.name == one.process for at_s in manager.begun_s]
    if any(0.0 <= at_s - one.at_s <= RESTARTED_S for at_s in begun):
        return True
    return host is not None and (host.core is None or not host.kernel.rules.prefixes)
