# SPDX-License-Identifier: MIT
"""A simulated host whose kernel draws: the enforcement of the driver ebpf under the journal's lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Mix, Plan
from configtron.model.errors import BadInput, Missing
from configtron.model.tuning import Changes, Rules
from tests.support.fleet_hosts import BASE, Host
from tests.support.fleet_kernel import Beginning, DrawingKernel
from tests.support.fleet_pages import Client

if TYPE_CHECKING:
    from tests.support.fleet_world import World


class DrawingHost(Host):
    """Prefixes point to classes, plans turn, and the kernel itself ends the lease.

    watchdog   whether the process that undoes an overdue transaction lives; else the next start does it
    """

    draws = True

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.draw, self.watchdog, self.inherits = DrawingKernel(), True, False
        self.draw.write(BASE)
        self.absent: Missing | None = None

    def _require(self) -> None:
        if self.absent is not None:
            raise self.absent

    def heal(self) -> None:
        super().heal()
        self.absent = None

    def begin(self, rules: Rules, lease_s: float, ports: tuple[int, ...]) -> None:
        self._refuse(rules)
        self._require()
        self._recover()
        self.world.may_kill()
        if self.kernel.rules != rules:
            self.draw.drop_plan()
            self.draw.write(rules)
        self.inherits = True
        self.world.may_kill()
        self.kernel.rules, self.watchdog = rules, True
        self._lease(lease_s)

    def change(self, changes: Changes, target: Rules) -> None:
        self._refuse(target)
        self._check_leased()
        self._require()
        self._check_room()
        self.world.may_kill()
        self.draw.change(changes)
        self.kernel.rules = self.draw.rules
        self.world.check(self.kernel.rules == target, f"{self.name}: a change does not lead to its target")
        self.world.may_kill()

    def turn(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        self._require()
        try:
            self.draw.load_plan(plan, mixes)
        except BadInput:
            if not self.inherits:
                raise
            self.draw.drop_plan()
            self.draw.load_plan(plan, mixes)
        self.inherits = False
        self.world.may_kill()
        self.draw.turn()

    def renew(self, lease_s: float) -> None:
        self._check_leased()
        self._require()
        self._lease(lease_s)

    def _lease(self, lease_s: float) -> None:
        self.kernel.until_s = self.world.now + lease_s
        self.draw.lease_ns = round((self.boot_s() + lease_s) * 1e9)

    def forget_kernel(self) -> None:
        super().forget_kernel()
        self.draw.revert(BASE)
        # Records that waited have gone.
        self.unsteady.append(self.world.now)

    def keep_watch(self) -> None:
        """Let the watchdog process, while it lives, undo what is overdue."""
        if self.watchdog:
            self._recover()

    def _recover(self) -> None:
        if self.kernel.rules != BASE and self.world.now >= self.kernel.until_s:
            self.forget_kernel()

    # Visitors' connections.

    def connect(self, client: Client, port: int) -> Beginning | None:
        return self.draw.connect(client.address, client.prefix, client.rtt_us, port, self.boot_ns())

    def disconnect(self, begun: Beginning | None, boots: int, min_rtt_us: int, is_reset: bool) -> None:
        if begun is not None and boots == self.boots:
            self.draw.end(begun, self.boot_ns(), min_rtt_us, is_reset)

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        return self.draw.records()

    def lost_records(self) -> int:
        return self.draw.lost
