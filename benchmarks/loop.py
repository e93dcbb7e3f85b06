# SPDX-License-Identifier: MIT
"""How fast the closed loop carries outcomes and maps, over real ZeroMQ sockets with CURVE on loopback.

    python -m benchmarks.loop [outcomes|map|reconnect|applier ...]

    outcomes   rows a second from agents' spools into the manager's SQLite, each once (goal 50 000)
    map        100 000 prefixes to 20 agents, from the publication until the last agent has checked it and reported
               (goal 1 s); then a change of 100 prefixes (goal 50 ms)
    reconnect  500 agents whose manager is restarted, until all are welcomed again (goal 10 s)
    applier    a change of 100 prefixes at 100 000, from its document to rules in force, journaled, with the driver of
               trials (goal 50 ms)

The manager runs in a process of its own, as `learn manager run` does. Agents of a measurement share one process: their
sessions, sockets and checks are the product's.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import zmq
from nacl.signing import SigningKey

from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import FleetStore
from configtron.fleet.agent_session import AgentSession, Answered, ForgetRows, LoadMap, ReadSpool, SendFrame
from configtron.fleet.map_document import MapRefused, OpenedMap, document, opened, signed
from configtron.fleet.map_table import MapTable
from configtron.fleet.messages import AgentHello, MapResult, encode_rows
from configtron.fleet.transport.agent_sockets import AgentSockets
from configtron.fleet.transport.curve_keys import CurvePair, ManagerAddress, curve_pair, signing_key
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.agent_network import TURN_S
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.fleet.spool import Spool
from configtron.service.lease.options import LeaseOptions
from configtron.tune.drivers.memory import MemoryDriver

PREFIXES, CHANGED, MAP_AGENTS, AGENTS, ROWS = 100_000, 100, 20, 500, 200_000
ROW_AGENTS = 4
PATIENCE_S = 300.0
PROFILES = {"fast": Profile("fast", (("initcwnd", 20),)), "off": Profile("off")}
MIXES = {"near": (("fast", 40_000), ("off", 25_536)), "far": (("off", 65_536),)}


def prefix(at: int) -> str:
    """Return the n-th /24."""
    return f"{10 + at // 65_536}.{at // 256 % 256}.{at % 256}.0/24"


def map_of(number: int, changed: int = 0) -> FleetMap:
    """Return a map of so many prefixes, the first of which are of another class."""
    prefixes = {prefix(at): "far" if at < changed else "near" for at in range(number)}
    return FleetMap(1, 1, PROFILES, MIXES, prefixes, b"k" * 16, 2 * 10**18, epoch_s=86_400, lease_s=60.0)


class OnRequest(FixedMapMaker):
    """Make the map of a wish, which a file carries to the manager's process."""

    def __init__(self, wish: Path) -> None:
        super().__init__(map_of(0), 3600.0)
        # Made in advance: how long a maker takes is another question.
        self._ready = {at: map_of(PREFIXES, at) for at in range(0, 6 * CHANGED, CHANGED)}
        self._wish, self._seen = wish, ""

    def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
        """Return a map once there is another wish."""
        text = self._wish.read_text() if self._wish.exists() else ""
        if text != self._seen:
            self._seen = text
            number, changed = map(int, text.split())
            self.change(self._ready[changed] if number == PREFIXES else map_of(number, changed))
        return super().make(now_ns, barred)


@dataclass
class Manager:
    """A manager's folder, its endpoint, and its process."""

    folder: Path
    endpoint: str
    process: BaseProcess | None = None

    @property
    def options(self) -> ManagerOptions:
        """Return what it is run with."""
        return ManagerOptions(self.folder / "m.db", self.folder / "keys", self.endpoint)

    def enroll(self, number: int) -> list[CurvePair]:
        """Return the pairs of so many new agents."""
        pairs = [CurvePair(*zmq.curve_keypair()) for _ in range(number)]
        with FleetStore(self.options.database) as store:
            for at, pair in enumerate(pairs):
                store.enroll(f"a{at}", pair.public.decode())
        return pairs

    @property
    def address(self) -> ManagerAddress:
        """Return what agents know of it."""
        key = bytes(signing_key(self.options.keys).verify_key).hex()
        return ManagerAddress(self.endpoint, curve_pair(self.options.keys).public.decode(), key)

    def wish(self, number: int, changed: int) -> float:
        """Ask for a map; return when."""
        new = self.folder / "wish.new"
        new.write_text(f"{number} {changed}")
        new.replace(self.folder / "wish")
        return time.monotonic()

    def start(self) -> None:
        """Start the process."""
        self.process = multiprocessing.get_context("fork").Process(target=_managed, args=(self,))
        self.process.start()

    def processor_s(self) -> float:
        """Return the processor time of the process, s."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Kill the process."""
        assert self.process is not None
        self.process.kill()
        self.process.join()


def _managed(manager: Manager) -> None:
    logging.disable(logging.CRITICAL)
    run_manager(manager.options, OnRequest(manager.folder / "wish"))


class Agent:
    """One agent's session and sockets, and a table in place of the applier."""

    def __init__(self, manager: ManagerAddress, pair: CurvePair, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.sockets, self.key = AgentSockets(manager, pair, context), manager.verify_key
        self.session = AgentSession(AgentHello("b", "0"))
        self.table: MapTable | None = None
        self.at_s = 0.0
        self.spool: Spool | None = None

    def step(self) -> None:
        """Take frames that have arrived and do what is due."""
        for data in self.sockets.receive():
            self.do(self.session.receive(data, time.monotonic()))
        self.do(self.session.tick(time.monotonic()))

    def loaded(self, found: OpenedMap, now_ns: int) -> None:
        """Take note of a map."""

    def answered(self, answer: Answered) -> None:
        """Take note of an answer to a query."""

    def do(self, effects: list) -> None:  # type: ignore[type-arg]
        waiting = list(effects)
        while waiting:
            match waiting.pop(0):
                case SendFrame(data):
                    self.sockets.send(data)
                case LoadMap(_, _, data):
                    waiting += self._load(data)
                case ReadSpool() if self.spool is not None:
                    waiting += self.session.spooled(*self.spool.oldest(), time.monotonic())
                case ForgetRows(boot, through) if self.spool is not None:
                    self.spool.forget(boot, through)
                case Answered() as answer:
                    self.answered(answer)

    def _load(self, data: bytes) -> list:  # type: ignore[type-arg]
        found = opened(data, self.key)
        self.table, self.at_s = found.table, time.monotonic()
        self.loaded(found, time.time_ns())
        held = (found.head.term, found.head.version, found.head.digest)
        return self.session.loaded(MapResult(*held, entries=len(found.table)), held, time.monotonic())


def free_endpoint() -> str:
    """Return an endpoint of a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


def until(agents: Sequence[Agent], done: Callable[[Agent], bool]) -> float:
    """Run agents until all are done; return when."""
    poller, owners = zmq.Poller(), {}
    for each in agents:
        poller.register(each.sockets.dealer, zmq.POLLIN)
        owners[each.sockets.dealer] = each
    end, tick_s, waiting = time.monotonic() + PATIENCE_S, 0.0, list(agents)
    while waiting:
        if time.monotonic() > end:
            raise SystemExit(f"{len(waiting)} of {len(agents)} agents are not done after {PATIENCE_S:g} s")
        # An agent of its own process is woken by its own frames, and by the clock (`agent_network.TURN_S`).
        woken = {id(owners[one]): owners[one] for one, _ in poller.poll(20)}
        if time.monotonic() >= tick_s:
            tick_s, woken = time.monotonic() + TURN_S, {id(each): each for each in agents}
        for each in woken.values():
            each.step()
        waiting = [each for each in waiting if not done(each)]
    return time.monotonic()


def outcomes(manager: Manager) -> str:
    """Measure rows a second from spools to SQLite."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    agents = [Agent(manager.address, pair, context) for pair in manager.enroll(ROW_AGENTS)]
    row = OutcomeRow("", "", 0, 1, "a.example", "", "0" * 16, 800.0, 1, 1, 3, "near", 0, "fast", 0.6, rtt_ms=20.0,
                     device="mobile", protocol="h2", bandwidth_kbps=9000.0, loss=0.001)  # fmt: skip
    each = ROWS // ROW_AGENTS
    for at, agent in enumerate(agents):
        agent.spool = Spool(manager.folder / f"s{at}.db", "a")
        for first in range(0, each, 500):
            agent.spool.add([replace(row, prefix=prefix(n % 5000), at_ns=n) for n in range(first, first + 500)])
    manager.start()
    until(agents, lambda agent: agent.session._welcomed)
    welcomed = time.monotonic()
    used = manager.processor_s()
    ended = until(agents, lambda agent: agent.spool is not None and agent.spool.waiting == 0)
    used = manager.processor_s() - used
    manager.kill()
    with FleetStore(manager.options.database) as store:
        stored = sum(stream.through - stream.lost for stream in store.streams())
    assert stored == ROWS, stored
    encode = time.process_time()
    encode_rows([row] * 20_000)
    encode = (time.process_time() - encode) / 20_000
    seconds = ended - welcomed
    return (f"outcomes: {ROWS} of {ROW_AGENTS} agents in {seconds:.2f} s, {ROWS / seconds:.0f} a second (goal 50 000);"
            f" manager {1e6 * used / ROWS:.1f} us of a processor a row, {ROWS / used:.0f} a second of one; encoding"
            f" {1e6 * encode:.1f} us a row")  # fmt: skip


def maps(manager: Manager) -> str:
    """Measure a map to 20 agents, and a change of it."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    agents = [Agent(manager.address, pair, context) for pair in manager.enroll(MAP_AGENTS)]
    manager.start()
    until(agents, lambda agent: agent.table is not None)
    used = [time.process_time()]
    manager.wish(PREFIXES, 0)
    until(agents, lambda agent: agent.table is not None and len(agent.table) == PREFIXES)
    used = [time.process_time() - used[0]]
    whole = _published(manager, agents)
    found = []
    for turn in range(1, 6):
        version, began = agents[0].session.held[1], time.process_time()
        manager.wish(PREFIXES, CHANGED * turn)
        until(agents, lambda agent, before=version: agent.session.held[1] > before)  # type: ignore[misc]
        used.append(time.process_time() - began)
        found.append(_published(manager, agents))
    for agent in agents:
        agent.session.held, agent.table = (0, 0, b""), None
    began = time.monotonic()
    again = until(agents, lambda agent: agent.table is not None and len(agent.table) == PREFIXES) - began
    manager.kill()
    return (f"map: {PREFIXES} prefixes to {MAP_AGENTS} agents {whole:.2f} s after it was made, to all anew"
            f" {again:.2f} s (goal 1), agents {used[0]:.2f} s of a processor; {CHANGED} changed:"
            f" {1e3 * sorted(found)[2]:.0f} ms, {1e3 * max(found):.0f} at most (goal 50), agents"
            f" {1e3 * sorted(used[1:])[2]:.0f} ms of a processor")  # fmt: skip


def _published(manager: Manager, agents: list[Agent]) -> float:
    """Return seconds from the signing of the current map until the last agent had checked it."""
    with FleetStore(manager.options.database) as store:
        row = store.maps()[-1]
        data = store.document(row.term, row.version)
    head = opened(data or b"", signing_key(manager.options.keys).verify_key).head
    made_s = (head.made_ns - time.time_ns()) / 1e9 + time.monotonic()
    return max(agent.at_s for agent in agents) - made_s


def reconnect(manager: Manager) -> str:
    """Measure 500 agents coming back after the manager was killed."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 4096)
    agents = [Agent(manager.address, pair, context) for pair in manager.enroll(AGENTS)]
    manager.wish(1000, 0)
    manager.start()
    began = time.monotonic()
    first = until(agents, lambda agent: agent.session.held[1] > 0) - began
    manager.kill()
    terms = {agent.session.manager[0] for agent in agents}
    time.sleep(2.0)
    manager.start()
    began = time.monotonic()
    again = (
        until(agents, lambda agent: agent.session.manager[0] > max(terms) and agent.session.held[0] > max(terms))
        - began
    )
    manager.kill()
    return f"reconnect: {AGENTS} agents have the map after {first:.1f} s, after a restart {again:.1f} s (goal 10)"


def applier(folder: Path) -> str:
    """Measure a change in the applier, journal included."""
    key, database = SigningKey(b"b" * 32), folder / "tune.db"
    with AgentJournal(database) as journal:
        enforcement = JournaledEnforcement(LeaseOptions(database, driver="memory"), journal, MemoryDriver(LeaseOptions(
            database).place))  # fmt: skip
        one = Applier(enforcement, key.verify_key, Rules())
        before, shown = map_of(PREFIXES), signed(map_of(PREFIXES), "m", 1, key)
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        began = time.monotonic()
        found = one.load(document(shown), now, time.time_ns())
        whole = time.monotonic() - began
        assert not found.result.error, found.result.error
        spent, made, turned = [], [], []
        for turn in range(1, 12):
            new = replace(map_of(PREFIXES, CHANGED * turn), version=turn + 1)
            used = time.process_time()
            later = signed(new, "m", 1, key)
            data = document(later)
            made.append(time.process_time() - used)
            began, used = time.monotonic(), time.process_time()
            found = one.load(data, now, time.time_ns())
            spent.append((time.process_time() - used, time.monotonic() - began))
            used = time.process_time()
            # It comes in force with the next epoch, for which all prefixes are drawn anew.
            one.tick(now, time.time_ns() + turn * before.epoch_s * 10**9)
            turned.append(time.process_time() - used)
            if found.result.error:
                raise MapRefused(found.result.error)
            before = new
        enforcement.release()
    processor, clock = (sorted(column) for column in zip(*spent, strict=True))
    turn_ms, signing_ms = (1e3 * sorted(column)[5] for column in (turned, made))
    used_ms = 1e3 * processor[5]
    return (f"applier: {PREFIXES} prefixes in force in {whole:.2f} s; {CHANGED} changed: {used_ms:.0f} ms of a"
            f" processor, {1e3 * clock[5]:.0f} ms by the clock, {1e3 * clock[-1]:.0f} at most (goal 50); the turn that"
            f" puts it in force: {turn_ms:.0f} ms of a processor; signing it: {signing_ms:.0f} ms")  # fmt: skip


MEASURED: dict[str, Callable[[Manager], str]] = {"outcomes": outcomes, "map": maps, "reconnect": reconnect}


def main() -> int:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=[])
    chosen = parser.parse_args().what or [*MEASURED, "applier"]
    logging.disable(logging.CRITICAL)
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            line = (
                applier(Path(folder)) if name == "applier" else MEASURED[name](Manager(Path(folder), free_endpoint()))
            )
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
