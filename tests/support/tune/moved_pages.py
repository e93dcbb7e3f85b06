# SPDX-License-Identifier: MIT
"""Inside a guest: page loads on connections that a class change re-tunes, by kmod and by route; prints JSON.

python3 -m tests.support.tune.moved_pages configtron.ko DRIVER

Journal, applier, retuning and reader of an agent; the log lines are written by this program, beacons are handed in.
Two connections of two prefixes: one prefix comes to another class. `killed`: the agent that re-tuned is killed, and the
lines come to the next one.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from configtron.db.agent_journal import AgentJournal
from configtron.fleet.map_document import document, signed
from configtron.intake.pageloads.beacon_formats import PageLoad
from configtron.linux.netns import inside
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.service.fleet.agent_pages import PageReading
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.page_intake import PagesOptions
from configtron.service.fleet.retuning import ClassRetuning
from configtron.service.lease.options import LeaseOptions
from configtron.service.outcomes.batch_bytes import decoded
from configtron.service.outcomes.page_outcomes import PageOutcomes
from configtron.service.outcomes.root_reader import ReaderBatch
from configtron.tune.drivers import load as driver_of
from tests.support.tune.kmod_net import (
    PORT4,
    SERVER,
    complaints,
    connected,
    control,
    default,
    drained,
    hosts,
    listener,
    load,
)

KEY, NS, EPOCH_S, SETTLE_S = SigningKey(b"k" * 32), 10**9, 20, 4
# Congestion controls and options: the module sets the one by itself, the other only a socket option.
PROFILES = {
    "near": Profile("near", (("tcp_congestion_control", "vegas"), ("window_clamp", 40_000))),
    "far": Profile("far", (("tcp_congestion_control", "reno"), ("window_clamp", 50_000))),
}
MIXES = {"a": (("near", 65_536),), "b": (("far", 65_536),)}
PREFIXES = {"10.1.0.0/16": "a", "10.2.0.0/16": "a"}
CLIENTS = {"moved": "10.1.0.9", "stays": "10.2.0.9"}
MAP = FleetMap(1, 1, PROFILES, MIXES, PREFIXES, b"h" * 16, 0, holdback=0, epoch_s=EPOCH_S, ports=(PORT4,), lease_s=60)

Ends = dict[str, tuple[socket.socket, socket.socket]]


class Agent:
    """What the root process of an agent has, and the rows that the other would send."""

    def __init__(self, folder: Path, driver: str, journal: AgentJournal) -> None:
        self.enforcement = JournaledEnforcement(LeaseOptions(folder / "tune.db", driver), journal,
                                                driver_of(driver, Place()))  # fmt: skip
        self.applier = Applier(self.enforcement, KEY.verify_key, Rules())
        self.following = ClassRetuning(self.applier, self.enforcement)
        self.reading = PageReading(PagesOptions("127.0.0.1", 0, folder / "log"), self.enforcement)
        self.end = self.reading.connected()
        self.end.setblocking(False)
        self.rows: list[OutcomeRow] = []
        self.pages = PageOutcomes("web1", "boot", self.rows.extend, self.reading.reader.ask, settle_ns=SETTLE_S * NS)
        self.retuned, self.ended = "", 0

    def turn(self, seconds: float = 0.0) -> None:
        """Turn as `agent.py` does, each second for so long."""
        until = time.monotonic() + seconds
        while True:
            self.applier.tick(time.clock_gettime(time.CLOCK_BOOTTIME), time.time_ns())
            self.following.add(self.applier.take_reclassed())
            if (done := self.following.turn()) is not None:
                self.retuned = done.text
            self.reading.turn(self.applier)
            while (data := received(self.end)) is not None:
                batch = decoded(data)
                self.ended += len(batch.ended)
                self.pages.turn(batch)
            self.pages.turn(ReaderBatch())
            if time.monotonic() >= until:
                return
            time.sleep(min(1.0, seconds))

    def load(self, version: int, prefixes: dict[str, str]) -> None:
        now_ns = time.time_ns()
        new = replace(MAP, version=version, prefixes=prefixes, not_after_ns=now_ns + 3600 * NS)
        boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        found = self.applier.load(document(signed(new, "m", now_ns, KEY)), boot_s, now_ns)
        assert not found.result.error, found.result


def received(end: socket.socket) -> bytes | None:
    try:
        return end.recv(1 << 20)
    except BlockingIOError:
        return None


@contextmanager
def agent_of(folder: Path, driver: str) -> Iterator[Agent]:
    with AgentJournal(folder / "tune.db") as journal:
        yield Agent(folder, driver, journal)


def early_in_an_epoch(agent: Agent) -> None:
    """Wait until no turn is near: one of an epoch, or that of the agent's first map."""
    agent.turn(4)
    while not 4 < time.time() % EPOCH_S < 12:
        agent.turn(1)


def visited(folder: Path, ends: Ends) -> dict[str, str]:
    """Write the log line of a page on each connection; return the tokens."""
    tokens = {name: f"{name:0>16}" for name in ends}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        for name, (client, _) in ends.items():
            address, port = client.getsockname()
            words = f"ctn {tokens[name]} {SERVER} {PORT4} {address} {port} {time.time():.3f} 0.000 1 7 100000 localhost"
            log.sendto(words.encode(), str(folder / "log"))
    return tokens


def reported(agent: Agent, tokens: dict[str, str]) -> None:
    """Hand in the beacons."""
    for name, token in tokens.items():
        # The row's device names the connection.
        agent.pages.beacons.beacon(PageLoad(token, token, 300.0, request_ms=1.0, response_ms=2.0),
                                   time.clock_gettime_ns(time.CLOCK_BOOTTIME), name)  # fmt: skip


def taught(agent: Agent) -> dict[str, tuple[bool, str]]:
    return {row.device: (row.teaches, row.why_not) for row in agent.rows}


def closed(ends: Ends) -> None:
    for client, served in ends.values():
        client.close()
        time.sleep(1)
        served.close()


def one_agent(folder: Path, driver: str, at: socket.socket) -> dict[str, Any]:
    """Pages are loaded, then the class changes with the next epoch, then the connections end."""
    with agent_of(folder, driver) as agent:
        agent.load(1, PREFIXES)
        early_in_an_epoch(agent)
        agent.turn()
        ends = {name: connected(at, address, PORT4) for name, address in CLIENTS.items()}
        agent.turn(1.5)
        begun = {name: control(served) for name, (_, served) in ends.items()}
        agent.load(2, {**PREFIXES, "10.1.0.0/16": "b"})
        while not time.time() % EPOCH_S > EPOCH_S - 2:
            agent.turn(1)
        tokens = visited(folder, ends)
        agent.turn(1)
        reported(agent, tokens)
        agent.turn(2)
        changed = {name: control(served) for name, (_, served) in ends.items()}
        closed(ends)
        agent.turn(2 * SETTLE_S)
        found = {"begun": begun, "changed": changed, "text": agent.retuned, "taught": taught(agent),
                 "counts": agent.reading.counts()}  # fmt: skip
        agent.reading.close()
        agent.enforcement.release()
    return found


def killed_agent(folder: Path, driver: str, at: socket.socket) -> dict[str, Any]:
    """An agent re-tunes a connection and is killed; the log lines and the ends come to the next one."""
    reading, writing = os.pipe()
    asked, ask = os.pipe()
    child = os.fork()
    if not child:
        with agent_of(folder, driver) as agent:
            agent.load(1, PREFIXES)
            early_in_an_epoch(agent)
            agent.turn()
            os.write(writing, b"1")
            os.read(asked, 1)
            agent.load(2, {**PREFIXES, "10.1.0.0/16": "b"})
            while not agent.retuned:
                agent.turn(1)
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    assert os.read(reading, 1), "the first agent ended"
    ends = {name: connected(at, address, PORT4) for name, address in CLIENTS.items()}
    os.write(ask, b"1")
    os.waitpid(child, 0)
    changed = {name: control(served) for name, (_, served) in ends.items()}
    with agent_of(folder, driver) as agent:
        agent.applier.resume(agent.enforcement.documents(), time.clock_gettime(time.CLOCK_BOOTTIME), time.time_ns(),
                             agent.enforcement.drawn())  # fmt: skip
        agent.turn(1.5)
        tokens = visited(folder, ends)
        agent.turn(1)
        reported(agent, tokens)
        closed(ends)
        agent.turn(2 * SETTLE_S)
        found = {"changed": changed, "taught": taught(agent), "counts": agent.reading.counts(), "ended": agent.ended}
        agent.reading.close()
        agent.enforcement.release()
    return found


def main(module: str, driver: str) -> None:
    # On the guest's console stands nothing but the JSON.
    logging.disable(logging.WARNING)
    load(module)
    found: dict[str, Any] = {}
    with hosts(), inside("s"), tempfile.TemporaryDirectory() as folder:
        at = listener(PORT4)
        for play in (one_agent, killed_agent):
            here = Path(folder) / play.__name__
            here.mkdir()
            found[play.__name__] = play(here, driver, at)
        at.close()
        default("cubic")
    found["unload"], found["complaints"] = drained(), complaints()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
