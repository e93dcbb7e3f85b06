# SPDX-License-Identifier: MIT
"""Inside a guest: page loads on connections that a class change re-tunes, by kmod and by route; prints JSON.

python3 -m tests.support.tune.moved_pages configtron.ko DRIVER

Journal, applier, retuning and reader of an agent; the log lines are written by this program, beacons are handed in.
Two connections of two prefixes: one prefix comes to another class. `killed`: the agent that re-tuned is killed, and the
lines come to the next one.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from configtron.db.agent_journal import AgentJournal
from configtron.intake.pageloads.beacon_formats import PageLoad
from configtron.linux.netns import inside
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.tuning import Place
from configtron.service.fleet.agent_pages import PageReading
from configtron.service.fleet.page_intake import PagesOptions
from configtron.service.outcomes.batch_bytes import decoded
from configtron.service.outcomes.page_outcomes import PageOutcomes
from configtron.service.outcomes.root_reader import ReaderBatch
from configtron.tune.drivers import load as driver_of
from tests.support.applied_maps import NS
from tests.support.tune.kmod_net import PORT4, SERVER, connected, control, listener, program
from tests.support.tune.retuned import MapAgent, boot_s

EPOCH_S, SETTLE_S = 20, 4
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


class Agent(MapAgent):
    """It reads page loads besides; and the rows that the other process would send."""

    def __init__(self, folder: Path, driver: str, journal: AgentJournal) -> None:
        super().__init__(journal, driver, driver_of(driver, Place()), MAP)
        self.reading = PageReading(PagesOptions("127.0.0.1", 0, folder / "log"), self.enforcement)
        self.end = self.reading.connected()
        self.end.setblocking(False)
        self.rows: list[OutcomeRow] = []
        self.pages = PageOutcomes("web1", "boot", self.rows.extend, self.reading.reader.ask, settle_ns=SETTLE_S * NS)
        self.ended = 0

    def turns(self, seconds: float = 0.0) -> None:
        """Turn each second for so long."""
        until = time.monotonic() + seconds
        while True:
            self.turn()
            self.reading.turn(self.applier)
            with suppress(BlockingIOError):
                while True:
                    batch = decoded(self.end.recv(1 << 20))
                    self.ended += len(batch.ended)
                    self.pages.turn(batch)
            self.pages.turn(ReaderBatch())
            if time.monotonic() >= until:
                return
            time.sleep(min(1.0, seconds))

    def first_map(self) -> None:
        """Wait until no turn is near: one of an epoch, or that of the agent's first map."""
        self.load(1)
        self.turns(4)
        while not 4 < time.time() % EPOCH_S < 12:
            self.turns(1)
        self.turns()

    def second_map(self) -> None:
        self.load(2, prefixes={**PREFIXES, "10.1.0.0/16": "b"})

    def visited(self, ends: Ends) -> None:
        """Let a page be logged on each connection, and then its beacon come."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            for name, (client, _) in ends.items():
                address, port = client.getsockname()
                token = f"ctn {name:0>16} {SERVER} {PORT4} {address} {port} {time.time():.3f}"
                log.sendto(f"{token} 0.000 1 7 100000 localhost".encode(), str(self.reading.options.log_path))
        self.turns(1)
        for name in ends:
            # The row's device names the connection.
            load = PageLoad(f"{name:0>16}", f"{name:0>16}", 300.0, request_ms=1.0, response_ms=2.0)
            self.pages.beacons.beacon(load, time.clock_gettime_ns(time.CLOCK_BOOTTIME), name)

    def found(self, ends: Ends) -> dict[str, Any]:
        """Close the connections; return which of their loads taught, or why not."""
        for client, served in ends.values():
            client.close()
            time.sleep(1)
            served.close()
        self.turns(2 * SETTLE_S)
        taught = {row.device: (row.teaches, row.why_not) for row in self.rows}
        found = {"taught": taught, "counts": self.reading.counts(), "text": self.retuned, "ended": self.ended}
        self.reading.close()
        self.enforcement.release()
        return found


def controls(ends: Ends) -> dict[str, str]:
    return {name: control(served) for name, (_, served) in ends.items()}


@contextmanager
def agent_of(folder: Path, driver: str) -> Iterator[Agent]:
    with AgentJournal(folder / "tune.db") as journal:
        yield Agent(folder, driver, journal)


def one_agent(folder: Path, driver: str, at: socket.socket) -> dict[str, Any]:
    """Pages are loaded, then the class changes with the next epoch, then the connections end."""
    with agent_of(folder, driver) as agent:
        agent.first_map()
        ends = {name: connected(at, address, PORT4) for name, address in CLIENTS.items()}
        agent.turns(1.5)
        begun = controls(ends)
        agent.second_map()
        while not time.time() % EPOCH_S > EPOCH_S - 2:
            agent.turns(1)
        agent.visited(ends)
        agent.turns(2)
        return {"begun": begun, "changed": controls(ends), **agent.found(ends)}


def killed_agent(folder: Path, driver: str, at: socket.socket) -> dict[str, Any]:
    """An agent re-tunes a connection and is killed; the log lines and the ends come to the next one."""
    reading, writing = os.pipe()
    asked, ask = os.pipe()
    child = os.fork()
    if not child:
        with agent_of(folder, driver) as agent:
            agent.first_map()
            os.write(writing, b"1")
            os.read(asked, 1)
            agent.second_map()
            while not agent.retuned:
                agent.turns(1)
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    assert os.read(reading, 1), "the first agent ended"
    ends = {name: connected(at, address, PORT4) for name, address in CLIENTS.items()}
    os.write(ask, b"1")
    os.waitpid(child, 0)
    changed = controls(ends)
    with agent_of(folder, driver) as agent:
        agent.applier.resume(agent.enforcement.documents(), boot_s(), time.time_ns(), agent.enforcement.drawn())
        agent.turns(1.5)
        agent.visited(ends)
        return {"changed": changed, **agent.found(ends)}


def play(driver: str) -> dict[str, Any]:
    # On the guest's console stands nothing but the JSON.
    logging.disable(logging.WARNING)
    found: dict[str, Any] = {}
    with inside("s"), tempfile.TemporaryDirectory() as folder:
        at = listener(PORT4)
        for part in (one_agent, killed_agent):
            here = Path(folder) / part.__name__
            here.mkdir()
            found[part.__name__] = part(here, driver, at)
    return found


if __name__ == "__main__":
    program(play)
