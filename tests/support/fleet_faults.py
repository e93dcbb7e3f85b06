# SPDX-License-Identifier: MIT
"""What is planted in a simulated fleet, step by step: kills, reboots, full disks, stepped clocks, forgers, replays.

Each fault is counted by its name in `World.counts`; the log line that it must leave is in `support/fleet_lines.py`.
"""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from configtron.db.fleet import FleetStore
from configtron.fleet.map_document import document, signed
from configtron.fleet.messages import Beat, frame
from configtron.model.errors import Missing
from tests.support.fleet_drawing import DrawingHost
from tests.support.fleet_hosts import FORGER, START_NS, Host, ManagerHost

if TYPE_CHECKING:
    from tests.support.fleet_world import World


class Faults:
    """The faults of one world."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        self._documents: list[bytes] = []
        self.cut_off: dict[str, float] = {}

    def _planted(self, name: str, chance: float, at: str = "") -> bool:
        return self.world.fault(name, chance, at)

    def step(self) -> None:
        """Plant what chance wants in this step."""
        for host in self.world.hosts.values():
            if self.rng.random() < 0.3:
                self.world.do(host, host.produce)
            self._of_host(host)
            self._of_kernel(host)
        for manager in self.world.managers:
            self._of_manager(manager)
        self.world.replay()
        if self.rng.random() < 0.03:
            self.world.change_map()
        if len(self.world.managers) == 1 and self._planted("old manager started", 0.002, "old"):
            self._old_manager()

    def _of_host(self, host: Host) -> None:
        rng = self.rng
        if host.core is None and rng.random() < 0.1:
            self.world.do(host, host.start)
        elif self._planted("agent killed", 0.004, host.name):
            host.kill()
        if self._planted("reboot", 0.002, host.name):
            host.reboot()
        if self._planted("partition", 0.004, host.name):
            self.cut_off[host.name] = self.world.now + rng.uniform(0.5, 12.0)
        if self._planted("agent's clock jumps", 0.003, host.name):
            host.jump(rng.choice((-3600, 3600, -10, 10)))
        if self._planted("agent's disk full", 0.003, host.name):
            self._fill(host.core.spool._file._connection if host.core else None)
        if self._planted("agent's journal full", 0.002, host.name):
            host.full_until_s = self.world.now + rng.uniform(1.0, 6.0)
        if self._planted("agent of another protocol", 0.001, host.name):
            host.protocol, until_s = rng.choice((0, 2)), rng.uniform(2.0, 6.0)
            self.world.later(until_s, partial(setattr, host, "protocol", None), host)
        if self._planted("frame by an unknown key", 0.02, "m"):
            for manager in self.world.managers:
                self.world.later(0.01, partial(manager.receive, host, "stolen", frame(Beat(5, 5))), manager)
        if host.revoked_at is None and self._planted("revoked", 0.0007, host.name):
            with FleetStore(self.world.managers[0].path) as store:
                store.revoke(host.name)
            host.revoked_at = self.world.now

    def _of_kernel(self, host: Host) -> None:
        if self._planted("external change", 0.0005, host.name):
            host.kernel.foreign = "another program"
        if host.kernel.frozen and self.rng.random() < 0.02:
            host.kernel.frozen = ""
        if not isinstance(host, DrawingHost):
            return
        if host.watchdog and self._planted("lease watchdog killed", 0.004, host.name):
            host.watchdog = False
        if self._planted("module of another version", 0.001, host.name):
            host.absent = Missing("the module speaks version 1, this configtron version 3; load its own")
            self.world.later(self.rng.uniform(1.0, 5.0), partial(setattr, host, "absent", None), host)

    def _of_manager(self, manager: ManagerHost) -> None:
        if self._planted("manager killed", 0.004, manager.name):
            manager.kill()
        if self._planted("manager's disk full", 0.003, manager.name):
            self._fill(manager.core.store._connection if manager.core else None)
        if self._planted("manager's clock jumps", 0.002, manager.name):
            manager.skew_ns += self.rng.choice((-3600, 3600)) * 10**9

    def handed_on(self, data: bytes, at: str) -> bytes:
        """Return what a process that has the network hands on in place of a document that came."""
        self._documents.append(data)
        if self._planted("forged document", 0.05, at):
            return self.world.altered(data)
        if self._planted("forged map", 0.03, at):
            fake = replace(self.world.wanted, term=999, version=999, not_after_ns=2 * START_NS)
            return document(signed(fake, "forger", START_NS, FORGER))
        if self._planted("map replayed", 0.05, at):
            return self.rng.choice(self._documents)
        return data

    def _fill(self, connection: sqlite3.Connection | None) -> None:
        """Leave a disk no room for some seconds."""
        if connection is None:
            return
        try:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        except sqlite3.Error:
            return
        self.world.later(self.rng.uniform(1.0, 6.0), lambda: emptied(connection), self.world.managers[0])

    def _old_manager(self) -> None:
        """Start a second manager from a copy of the database that lacks the latest terms, and that has another key of
        the draw: its term is lower than the first one's, or the same."""
        first = self.world.managers[0]
        if len(first.terms) < 3:
            return
        path = self.world.folder / "old.db"
        shutil.copy(first.path, path)
        before = first.terms[-1] - self.rng.choice((1, 2))
        with FleetStore(path) as store:
            store._connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'fleet_term'", (before,))
            store._connection.execute("DELETE FROM fleet_term WHERE term > ?", (before,))
            for table in ("fleet_outcome", "fleet_stream", "fleet_map"):
                store._connection.execute(f"DELETE FROM {table}")
        old = ManagerHost(self.world, "old", path, salt=self.rng.randbytes(16))
        self.world.managers.append(old)
        self.world.do(old, old.start)


def emptied(connection: sqlite3.Connection) -> None:
    """Give a disk room again."""
    try:
        connection.execute("PRAGMA max_page_count = 1000000")
    except sqlite3.Error:
        return
