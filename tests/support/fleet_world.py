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
import logging
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from configtron.db.fleet import FleetStore
from configtron.fleet.map_document import SignedMap, fleet_map
from configtron.fleet.map_table import prefixes_of
from configtron.fleet.messages import Want, from_agent
from configtron.model.errors import ConfigtronError
from configtron.model.fleet import Band, FleetMap
from tests.support.fleet_drawing import DrawingHost
from tests.support.fleet_faults import Faults, emptied
from tests.support.fleet_hosts import AGENTS, HUMAN, PROFILES, Host, Killed, ManagerHost
from tests.support.fleet_judge import Judge
from tests.support.fleet_log import FleetLog, Line, logged
from tests.support.fleet_pages import Visitors
from tests.support.fleet_recovery import Recovery

# s of a step; of faults; of quiet after them.
STEP_S, FAULTS_S, QUIET_S = 0.1, 30.0, 25.0
# s of visits after the faults: their rows arrive before the end.
VISITS_S = 10.0


class World:
    """All of it, for one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.rng, self.folder = seed, random.Random(seed), folder
        self.now, self.wrong = 0.0, list[str]()
        self._events: list[tuple[float, int, Callable[[], None], object]] = []
        self._count = 0
        self._hash = hashlib.sha256()
        self.faulty, self.visits_until_s = True, FAULTS_S + VISITS_S
        self.counts: dict[str, int] = {}
        self.acting, self.log = "", FleetLog(self)
        self.recovery = Recovery(self)
        self.maps: dict[tuple[int, int, bytes], FleetMap] = {}
        self._old_frames: list[tuple[Host, bytes]] = []
        self.faults = Faults(self)
        self.epoch_s = self.rng.choice((10, 20))
        self.wanted = self._random_map()
        self.judge = Judge(self)
        self.hosts: dict[str, Host] = {AGENTS[0]: Host(self, AGENTS[0])}
        self.hosts |= {name: DrawingHost(self, name) for name in AGENTS[1:]}
        self.visitors = Visitors(self)
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

    def fault(self, name: str, chance: float, at: str = "") -> bool:
        """Return whether a fault is planted now; `at`: the process that it befalls."""
        if not self.faulty or self.rng.random() >= chance:
            return False
        self.counts[name] = self.counts.get(name, 0) + 1
        self.recovery.planted(name, at)
        return True

    def may_kill(self) -> None:
        if self.fault("killed between writes", 0.003, self.acting):
            raise Killed

    # The network.

    def later(self, delay_s: float, do: Callable[[], None], process: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_s, self._count, do, process))

    def _carry(self, host: Host, data: bytes, deliver: Callable[[bytes], None], process: object) -> None:
        if self.faults.cut_off.get(host.name, -1.0) > self.now or self.fault("dropped", 0.05):
            return
        if self.fault("cut short", 0.02):
            data = data[: self.rng.randrange(len(data))]
        copies = 2 if self.fault("doubled", 0.05) else 1
        for _ in range(copies):
            delay_s = self.rng.uniform(0.001, 0.05)
            if self.fault("delayed", 0.05):
                delay_s += self.rng.uniform(0.0, 8.0)
            self.later(delay_s, partial(deliver, data), process)

    def altered(self, data: bytes) -> bytes:
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
        if host.protocol is not None:
            return
        message = from_agent(data)
        if isinstance(message, Want):
            place = (message.term, message.version)
            self.check(place not in host.rejected, f"{host.name}: rejected map {place} is asked for again")

    # What the manager wants.

    def _random_map(self) -> FleetMap:
        rng = self.rng
        names = ["p0", "p1", "p2", "p3", "off"]
        mixes: dict[str, tuple[tuple[str, int], ...]] = {}
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
        bands = (Band(20_000, "near"), Band(90_000, "odd")) if rng.random() < 0.5 else ()
        return FleetMap(0, 0, PROFILES, mixes, prefixes, rng.randbytes(16), 0, bands, 6553, self.epoch_s, lease_s=3.0)

    def change_map(self) -> None:
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
        with logged(self.log):
            self._run()
        self.judge.lines()

    def _processes(self, managers: int | None = None) -> list[ManagerHost | Host]:
        """Return the first managers, or all, and the agents' hosts."""
        return [*self.managers[:managers], *self.hosts.values()]

    def _run(self) -> None:
        for process in self._processes():
            self.do(process, process.start)
        self._until(FAULTS_S)
        self._calm()
        self._until(FAULTS_S + QUIET_S)
        self.judge.end()
        for host in self.hosts.values():
            self.do(host, host.report)
        self._close()

    def _until(self, end_s: float) -> None:
        while self.now < end_s:
            self.now = round(self.now + STEP_S, 6)
            step_s = self.now
            while self._events and self._events[0][0] <= step_s:
                self.now, _, do, process = heapq.heappop(self._events)
                self.do(process, do)
            self.now = step_s
            if self.now < self.visits_until_s:
                self.visitors.step()
            for host in self.hosts.values():
                host.keep_watch()
            if self.faulty:
                self.faults.step()
            # As systemd does.
            first = self.managers[0]
            if first.core is None and self.rng.random() < 0.05:
                self.do(first, first.start)
            for process in self._processes():
                self.do(process, process.step)
            self.judge.kernels()
            self.recovery.step()

    def do(self, process: object, do: Callable[[], None]) -> None:
        assert isinstance(process, Host | ManagerHost)
        self.acting = process.name
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
            self.log.lines.append(Line(self.now, process.name, logging.ERROR, str(error)))
            process.kill()
        finally:
            self.acting = ""

    def replay(self) -> None:
        """Deliver a frame of earlier again, now and then."""
        if self._old_frames and self.fault("replayed", 0.05):
            host, data = self.rng.choice(self._old_frames)
            self.later(self.rng.uniform(0.0, 3.0), lambda: host.receive(data), host)

    def _calm(self) -> None:
        """End all faults: processes run, disks have room, partitions are over; a backup that was started is stopped."""
        self.faulty = False
        self.faults.cut_off.clear()
        for manager in self.managers[1:]:
            manager.kill()
        first = self.managers[0]
        for connection in [first.core.store._connection] if first.core else []:
            emptied(connection)
        for host in self.hosts.values():
            host.heal()
            if host.core:
                emptied(host.core.spool._file._connection)
        if any(host.rejected for host in self.hosts.values()):
            self.change_map()
        if any(profile == "bad" for mix in self.wanted.mixes.values() for profile, _ in mix):
            self.wanted = replace(self.wanted, mixes={**self.wanted.mixes, "odd": (("p0", 65_536),)})
        for process in self._processes(1):
            if process.core is None:
                self.do(process, process.start)

    def _close(self) -> None:
        for process in self._processes():
            process.kill()


def ran(seed: int, folder: Path) -> World:
    """Return the world of a seed after its run, which logs nothing; its files lie in a new folder below this one."""
    (folder / str(seed)).mkdir(parents=True)
    world = World(seed, folder / str(seed))
    logging.disable(logging.CRITICAL)
    try:
        world.run()
    finally:
        logging.disable(logging.NOTSET)
    return world
