# SPDX-License-Identifier: MIT
"""Open connections under a map of the fleet that the driver `ebpf` draws from: a prefix's class changes. JSON.

    retuned.py FOLDER released|killed     run it apart (tests/support/isolation.py)

`killed`: the process that has the map in force is killed; this one holds the connections, and waits for the lease.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from configtron.db.agent_journal import AgentJournal
from configtron.db.tuning import Tuning
from configtron.fleet.map_document import document, signed
from configtron.model.close_records import CloseRecord
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.retuning import ClassRetuning
from configtron.service.lease.options import LeaseOptions
from configtron.tune.drivers.bpf import pins
from configtron.tune.journal import OPEN
from tests.support.draws import Server, settings
from tests.support.tune.left import GROUP, PLACE, nothing_left, placed
from tests.support.tune.sockets import OPTIONS
from tests.support.waiting import until

KEY, NS, CLIENTS = SigningKey(b"k" * 32), 10**9, 8
# s of the lease: what a busy machine may take from one map to the next; what a test waits for.
LONG_S, SHORT_S = 60.0, 4.0
# The default of this namespace is reno.
PROFILES = {
    "near": Profile("near", (("tcp_congestion_control", "cubic"), ("notsent_lowat", 5000))),
    "far": Profile("far", (("tcp_congestion_control", "cubic"), ("priority", 3))),
}
MIXES = {"a": (("near", 65_536),), "b": (("far", 65_536),)}
PREFIXES = {"127.1.0.0/16": "a", "127.2.0.0/16": "a"}
# A holdback by which one of the clients keeps Default.
MAP = FleetMap(1, 1, PROFILES, MIXES, PREFIXES, b"h" * 16, 0, holdback=10_000, epoch_s=86_400, ports=(8080, 8081))


class Agent:
    """What an agent has: journal, applier, and what follows class changes."""

    def __init__(self, folder: Path, journal: AgentJournal, driver: Any, lease_s: float) -> None:
        self.lease_s = lease_s
        self.enforcement = JournaledEnforcement(LeaseOptions(folder / "tune.db", "ebpf", PLACE), journal, driver)
        self.applier = Applier(self.enforcement, KEY.verify_key, Rules())
        self.following = ClassRetuning(self.applier, self.enforcement)

    def load(self, version: int, prefixes: dict[str, str]) -> str | None:
        """Put a map in force, and have open connections follow; return what became of them."""
        now_ns = time.time_ns()
        new = replace(MAP, version=version, prefixes=prefixes, lease_s=self.lease_s, not_after_ns=now_ns + 3600 * NS)
        found = self.applier.load(document(signed(new, "m", now_ns, KEY)), boot_s(), now_ns)
        assert not found.result.error, found.result
        # The first is in force at once, each later one with the next epoch.
        self.applier.tick(boot_s(), now_ns + (version - 1) * MAP.epoch_s * NS)
        self.following.add(self.applier.take_reclassed())
        done = self.following.turn()
        return done.text if done else None


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def seen(server_ends: dict[str, socket.socket]) -> dict[str, tuple[str, int, int]]:
    """Return congestion control, notsent_lowat and priority of each client's connection."""
    return {address: (settings(one)[1], one.getsockopt(*OPTIONS["notsent_lowat"]), one.getsockopt(*OPTIONS["priority"]))
            for address, one in server_ends.items()}  # fmt: skip


def main(folder: Path, how: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
    group, home = pins.mounts("cgroup2")[0], next(line for line in open("/proc/self/cgroup") if line.startswith("0:"))
    with placed() as (driver, _):
        (group / GROUP / "cgroup.procs").write_text("0")
        server = Server()
        addresses = [f"127.{net}.0.{at + 1}" for net in (1, 2, 3) for at in range(CLIENTS)]
        untouched = seen({one: server.connect(one)[1] for one in addresses[:1]})[addresses[0]]
        back = group / home.split(":")[2].strip().strip("/") / "cgroup.procs"
        try:
            if how == "released":
                answer = released(folder, driver, server, addresses)
            else:
                answer = killed(folder, driver, server, addresses, back)
        finally:
            back.write_text("0")
    print(json.dumps({**answer, "untouched": untouched, "nothing left": nothing_left()}))


def released(folder: Path, driver: Any, server: Server, addresses: list[str]) -> dict[str, Any]:
    """The class changes, changes back, changes again; then the agent ends in order."""
    answer: dict[str, Any] = {}
    with AgentJournal(folder / "tune.db") as journal:
        agent = Agent(folder, journal, driver, LONG_S)
        agent.load(1, PREFIXES)
        clients = {address: server.connect(address) for address in addresses}
        ends = {address: served for address, (_, served) in clients.items()}
        answer["begun"] = seen(ends)
        changed = {**PREFIXES, "127.1.0.0/16": "b"}
        answer["text"], answer["changed"] = agent.load(2, changed), seen(ends)
        answer["back text"], answer["back"] = agent.load(3, PREFIXES), seen(ends)
        agent.load(4, changed)
        answer["again"] = seen(ends)
        ended = [address for address in addresses if address.startswith("127.1.")][-1]
        for one in clients.pop(ended):
            one.close()
        del ends[ended]
        answer["moved"] = waited(agent.enforcement.driver)
        agent.enforcement.release()
        answer["after"] = seen(ends)
    return answer


def waited(driver: Any) -> list[bool | None]:
    """Return whether the connection that ended was re-tuned, by its record."""
    found = list[bool | None]()

    def come() -> bool:
        found.extend(one.moved for one in driver.records() if isinstance(one, CloseRecord) and one.opened.class_name)
        return bool(found)

    until(come)
    return found


def killed(folder: Path, driver: Any, server: Server, addresses: list[str], home: Path) -> dict[str, Any]:
    """A child has the map in force, changes the class, and is killed; its lease ends."""
    reading, writing = os.pipe()
    asked, ask = os.pipe()
    child = os.fork()
    if not child:
        # Its watchdog outlives it, and would keep the group.
        home.write_text("0")
        with AgentJournal(folder / "tune.db") as journal:
            agent = Agent(folder, journal, driver, SHORT_S)
            agent.load(1, PREFIXES)
            os.write(writing, b"1")
            while not select.select([asked], [], [], 0.2)[0]:
                agent.applier.tick(boot_s(), time.time_ns())
            agent.load(2, {**PREFIXES, "127.1.0.0/16": "b"})
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    assert os.read(reading, 1), "the child ended"
    clients = {address: server.connect(address) for address in addresses}
    ends = {address: served for address, (_, served) in clients.items()}
    begun = seen(ends)
    os.write(ask, b"1")
    os.waitpid(child, 0)
    answer = {"begun": begun, "changed": seen(ends)}
    with Tuning(folder / "tune.db") as journal:
        until(lambda: not journal.acts(*OPEN))
    return {**answer, "after": seen(ends)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
