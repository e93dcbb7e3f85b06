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
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from configtron.db.fleet import FleetStore
from configtron.fleet.map_document import SignedMap, document, fleet_map, signed
from configtron.fleet.map_table import prefixes_of
from configtron.fleet.messages import Beat, Want, frame, from_agent
from configtron.model.errors import ConfigtronError, Missing
from configtron.model.fleet import Band, FleetMap
from tests.support.fleet_drawing import DrawingHost
from tests.support.fleet_hosts import AGENTS, FORGER, HUMAN, PROFILES, START_NS, Host, Killed, ManagerHost
from tests.support.fleet_judge import Judge
from tests.support.fleet_pages import Visitors
from tests.support.fleet_recovery import Recovery

# The log of a simulated fleet: each line that the product's code logs, with the virtual time and the process.


class Line(NamedTuple):
    """A line of one process's log."""

    at_s: float
    process: str
    level: int
    text: str


class Running(Protocol):
    """What knows the virtual time, and which process runs now; "": none."""

    now: float
    acting: str


class FleetLog(logging.Handler):
    """Keeps the lines of one world."""

    def __init__(self, world: Running) -> None:
        super().__init__(logging.INFO)
        self._world, self.lines = world, list[Line]()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.lines.append(Line(self._world.now, self._world.acting, record.levelno, record.getMessage()))


@contextmanager
def logged(handler: FleetLog) -> Iterator[None]:
    """Have a world's lines, and no others, go to its handler."""
    logger = logging.getLogger("configtron")
    before = (logger.level, logger.propagate, logger.handlers, logging.root.manager.disable)
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [handler]
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers, disabled = before
        logger.setLevel(before[0])
        logging.disable(disabled)


# What is planted in a simulated fleet, step by step: kills, reboots, full disks, stepped clocks, forgers, replays.


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
