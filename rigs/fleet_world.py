# SPDX-License-Identifier: MIT
"""A whole fleet in virtual time: manager, agents, kernels, a faulty network, kills, clocks that jump and full disks.

Question   Does any order of faults lose or double an outcome, leave a wrong profile in force, or let a term fall?
Method     The product's own sessions, stores, spools and appliers run in one process, stepped by a virtual clock and a
           seeded generator. Frames are lost, doubled, delayed, cut and replayed; processes are killed between any two
           of their writes; keys are revoked; documents are forged; an old copy of the manager's database is started.
           Kernels outlive processes: each has rules and the end of their lease. Then the faults stop, and what is in
           the databases, the spools and the kernels is compared with what went in.
Stop when  The quiet time is over.
Reads as   `World.wrong`, one line a broken rule; `World.digest`, of every event: the same seed, the same bytes.
Fails as   A line with seed, time and rule.
Differs    from tests with sockets: every interleaving is drawn, and each replays.
Source     deterministic simulation testing (FoundationDB, SIGMOD 2021)
"""

from __future__ import annotations

import hashlib
import heapq
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from configtron.db.fleet import FleetStore
from configtron.fleet.map_document import SignedMap, document, fleet_map, signed
from configtron.fleet.map_table import prefixes_of
from configtron.fleet.messages import Beat, Want, frame, from_agent
from configtron.model.errors import ConfigtronError
from configtron.model.fleet import FleetMap
from rigs.fleet_hosts import AGENTS, FORGER, HUMAN, PROFILES, START_NS, Host, Killed, ManagerHost
from rigs.fleet_judge import Judge

# s of a step; of faults; of quiet after them.
STEP_S, FAULTS_S, QUIET_S = 0.1, 30.0, 25.0


class World:
    """All of it, for one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.rng, self.folder = seed, random.Random(seed), folder
        self.now, self.wrong = 0.0, list[str]()
        self._events: list[tuple[float, int, Callable[[], None], object]] = []
        self._count = 0
        self._hash = hashlib.sha256()
        self.faulty = True
        self.counts: dict[str, int] = {}
        self.maps: dict[tuple[int, int, bytes], FleetMap] = {}
        self._old_frames: list[tuple[Host, bytes]] = []
        self._cut_off: dict[str, float] = {}
        self.wanted = self._random_map()
        self.judge = Judge(self)
        self.hosts = {name: Host(self, name) for name in AGENTS}
        self.managers = [ManagerHost(self, "m", folder / "manager.db")]
        with FleetStore(self.managers[0].path) as store:
            for host in self.hosts.values():
                store.enroll(host.name, host.key)

    # Judging.

    def check(self, holds: bool, rule: str) -> None:
        if not holds:
            self.wrong.append(f"seed {self.seed}: {self.now:.1f} s: {rule}")

    def note(self, text: str) -> None:
        self._hash.update(f"{self.now:.3f} {text}\n".encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def fault(self, name: str, chance: float) -> bool:
        if not self.faulty or self.rng.random() >= chance:
            return False
        self.counts[name] = self.counts.get(name, 0) + 1
        return True

    def may_kill(self) -> None:
        if self.fault("killed between writes", 0.003):
            raise Killed

    # The network.

    def later(self, delay_s: float, do: Callable[[], None], process: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_s, self._count, do, process))

    def _carry(self, host: Host, data: bytes, deliver: Callable[[bytes], None], process: object) -> None:
        if self._cut_off.get(host.name, -1.0) > self.now or self.fault("dropped", 0.05):
            return
        if self.fault("cut short", 0.02):
            data = data[: self.rng.randrange(len(data))]
        copies = 2 if self.fault("doubled", 0.05) else 1
        for _ in range(copies):
            delay_s = self.rng.uniform(0.001, 0.05)
            if self.fault("delayed", 0.05):
                delay_s += self.rng.uniform(0.0, 8.0)
            self.later(delay_s, partial(deliver, data), process)

    def _altered(self, data: bytes) -> bytes:
        at = self.rng.randrange(len(data))
        return data[:at] + bytes((data[at] ^ 1 << self.rng.randrange(8),)) + data[at + 1 :]

    def to_managers(self, host: Host, data: bytes) -> None:
        self._check_want(host, data)
        for manager in self.managers:
            self._carry(host, data, partial(manager.receive, host, host.key), manager)

    def to_agent(self, host: Host, data: bytes) -> None:
        if self.rng.random() < 0.05:
            self._old_frames.append((host, data))
        self._carry(host, data, host.receive, host)

    def _check_want(self, host: Host, data: bytes) -> None:
        """Check that a version is not asked for again by the start of an agent that rejected it."""
        message = from_agent(data)
        if isinstance(message, Want):
            place = (message.term, message.version)
            self.check(place not in host.rejected, f"{host.name}: rejected map {place} is asked for again")

    def forged(self, data: bytes) -> bytes:
        """A process that has the network hands another document on than it was sent."""
        if self.fault("forged document", 0.05):
            return self._altered(data)
        if self.fault("forged map", 0.03):
            fake = replace(self.wanted, term=999, version=999, not_after_ns=2 * START_NS)
            return document(signed(fake, "forger", START_NS, FORGER))
        return data

    # What the manager wants.

    def _random_map(self) -> FleetMap:
        rng = self.rng
        names = ["p0", "p1", "p2", "p3", "off"]
        mixes = {}
        for name in ("near", "far", "odd"):
            cut = rng.randint(1, 65_535)
            one, two = rng.sample(names, 2)
            mixes[name] = ((one, cut), (two, 65_536 - cut))
        if rng.random() < 0.15:
            mixes["odd"] = (("bad", 65_536),)
        if rng.random() < 0.15:
            mixes["far"] = (("p0", 1), ("barred", 65_535))
        prefixes = {f"198.51.{at}.0/24": rng.choice(("near", "far", "odd")) for at in rng.sample(range(40), 25)}
        prefixes |= {HUMAN: "near"} if rng.random() < 0.5 else {}
        prefixes |= {"192.0.2.128/25": "near"} if rng.random() < 0.3 else {}
        prefixes |= {f"2001:db8:{at:x}::/48": "near" for at in rng.sample(range(1, 9), 3)}
        return FleetMap(0, 0, PROFILES, mixes, prefixes, rng.randbytes(16), 0, holdback=6553, epoch_s=10, lease_s=3.0)

    def _change_map(self) -> None:
        """Change some prefixes, or mixes, or the key too."""
        new = self._random_map()
        kept = self.wanted
        choice = self.rng.random()
        if choice < 0.5:
            moved = dict(list(new.prefixes.items())[:5])
            new = replace(kept, prefixes={**dict(list(kept.prefixes.items())[3:]), **moved})
        elif choice < 0.8:
            new = replace(new, key=kept.key)
        self.wanted = new

    def published(self, manager: ManagerHost, new: SignedMap) -> None:
        self.check(new.place not in manager.published, f"{manager.name}: map {new.place} is published twice")
        manager.published.add(new.place)
        classes = prefixes_of(new.table, new.head.classes)
        self.maps[(*new.place, new.head.digest)] = fleet_map(new.head, classes)

    # Running.

    def run(self) -> None:
        """Run to the end; then `wrong` says which rules were broken."""
        for process in (*self.managers, *self.hosts.values()):
            self._do(process, process.start)
        self._until(FAULTS_S)
        self._calm()
        self._until(FAULTS_S + QUIET_S)
        self.judge.end()
        self._close()

    def _until(self, end_s: float) -> None:
        while self.now < end_s:
            self.now = round(self.now + STEP_S, 6)
            while self._events and self._events[0][0] <= self.now:
                _, _, do, process = heapq.heappop(self._events)
                self._do(process, do)
            if self.faulty:
                self._faults()
            for process in (*self.managers, *self.hosts.values()):
                self._do(process, process.step)
            self.judge.kernels()

    def _do(self, process: object, do: Callable[[], None]) -> None:
        assert isinstance(process, Host | ManagerHost)
        try:
            do()
        except Killed:
            self.note(f"{process.name} killed")
            process.kill()
        except sqlite3.ProgrammingError:
            process.kill()
        except ConfigtronError as error:
            # The outermost loop of a process: one line, and systemd starts it again.
            self.note(f"{process.name} ends: {type(error).__name__}")
            self.counts["ended by an error"] = self.counts.get("ended by an error", 0) + 1
            process.kill()

    def _faults(self) -> None:
        rng = self.rng
        for host in self.hosts.values():
            if rng.random() < 0.3:
                self._do(host, host.produce)
            if host.core is None and rng.random() < 0.1:
                self._do(host, host.start)
            elif self.fault("agent killed", 0.004):
                host.kill()
            if self.fault("partition", 0.004):
                self._cut_off[host.name] = self.now + rng.uniform(0.5, 12.0)
            if self.fault("agent's clock jumps", 0.003):
                host.skew_ns += rng.choice((-3600, 3600, -10, 10)) * 10**9
            if self.fault("agent's disk full", 0.003):
                self._fill(host.core.spool._file._connection if host.core else None)
            if self.fault("external change", 0.0005):
                host.kernel.foreign = "another program"
            if host.kernel.frozen and rng.random() < 0.02:
                host.kernel.frozen = ""
            if self.fault("frame by an unknown key", 0.02):
                self._forge_frame(host)
            if host.revoked_at is None and self.fault("revoked", 0.0007):
                self._revoke(host)
        for manager in self.managers:
            if manager.core is None and rng.random() < 0.05 and manager is self.managers[0]:
                self._do(manager, manager.start)
            elif self.fault("manager killed", 0.004):
                manager.kill()
            if self.fault("manager's disk full", 0.003):
                self._fill(manager.core.store._connection if manager.core else None)
            if self.fault("manager's clock jumps", 0.002):
                manager.skew_ns += rng.choice((-3600, 3600)) * 10**9
        if self._old_frames and self.fault("replayed", 0.05):
            host, data = rng.choice(self._old_frames)
            self.later(rng.uniform(0.0, 3.0), lambda: host.receive(data), host)
        if rng.random() < 0.03:
            self._change_map()
        if len(self.managers) == 1 and self.fault("old manager started", 0.002):
            self._old_manager()

    def _fill(self, connection: sqlite3.Connection | None) -> None:
        """Leave a disk no room for some seconds."""
        if connection is None:
            return
        try:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        except sqlite3.Error:
            return
        self.later(self.rng.uniform(1.0, 6.0), lambda: _empty(connection), self.managers[0])

    def _forge_frame(self, host: Host) -> None:
        for manager in self.managers:
            self.later(0.01, partial(manager.receive, host, "stolen", frame(Beat(5, 5))), manager)

    def _revoke(self, host: Host) -> None:
        with FleetStore(self.managers[0].path) as store:
            store.revoke(host.name)
        host.revoked_at = self.now

    def _old_manager(self) -> None:
        """Start a manager with a copy of the database that is too old to have the latest term."""
        first = self.managers[0]
        if len(first.terms) < 3:
            return
        path = self.folder / "old.db"
        shutil.copy(first.path, path)
        with FleetStore(path) as store:
            store._connection.execute(
                "UPDATE sqlite_sequence SET seq = ? WHERE name = 'fleet_term'", (first.terms[-1] - 2,)
            )
            store._connection.execute("DELETE FROM fleet_term WHERE term > ?", (first.terms[-1] - 2,))
            for table in ("fleet_outcome", "fleet_stream", "fleet_map"):
                store._connection.execute(f"DELETE FROM {table}")
        old = ManagerHost(self, "old", path)
        self.managers.append(old)
        self._do(old, old.start)

    def _calm(self) -> None:
        """End all faults: processes run, disks have room, partitions are over; a backup that was started is stopped."""
        self.faulty = False
        self._cut_off.clear()
        for manager in self.managers[1:]:
            manager.kill()
        first = self.managers[0]
        for connection in [first.core.store._connection] if first.core else []:
            _empty(connection)
        for host in self.hosts.values():
            host.kernel.frozen = host.kernel.foreign = ""
            if host.core:
                _empty(host.core.spool._file._connection)
        if any(profile == "bad" for mix in self.wanted.mixes.values() for profile, _ in mix):
            self.wanted = replace(self.wanted, mixes={**self.wanted.mixes, "odd": (("p0", 65_536),)})
        for process in (first, *self.hosts.values()):
            if process.core is None:
                self._do(process, process.start)

    def _close(self) -> None:
        for process in (*self.managers, *self.hosts.values()):
            process.kill()


def _empty(connection: sqlite3.Connection) -> None:
    """Give a disk room again."""
    try:
        connection.execute("PRAGMA max_page_count = 1000000")
    except sqlite3.Error:
        return
