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
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from configtron.db.agent_journal import AgentJournal
from configtron.db.tuning import Tuning
from configtron.fleet.map_document import document, signed
from configtron.model.close_records import CloseRecord
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.model.protocols import Driver
from configtron.model.tuning import Rules
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.retuning import ClassRetuning
from configtron.service.lease.options import LeaseOptions
from configtron.tune.journal import OPEN
from tests.support.applied_maps import KEY, NS
from tests.support.draws import Server, settings
from tests.support.tune.left import nothing_left, placed, serving
from tests.support.tune.sockets import OPTIONS
from tests.support.waiting import until

CLIENTS = 8
# s of the lease: what a busy machine may take from one map to the next; what a test waits for.
LONG_S, SHORT_S = 60.0, 4.0
# The default of this namespace is reno.
PROFILES = {
    "near": Profile("near", (("tcp_congestion_control", "cubic"), ("notsent_lowat", 5000))),
    "far": Profile("far", (("tcp_congestion_control", "cubic"), ("priority", 3))),
}
MIXES = {"a": (("near", 65_536),), "b": (("far", 65_536),)}
PREFIXES = {"127.1.0.0/16": "a", "127.2.0.0/16": "a"}
CHANGED = {**PREFIXES, "127.1.0.0/16": "b"}
# A holdback by which one of the clients keeps Default.
MAP = FleetMap(1, 1, PROFILES, MIXES, PREFIXES, b"h" * 16, 0, holdback=10_000, epoch_s=86_400, ports=(8080, 8081))

Ends = dict[str, tuple[socket.socket, socket.socket]]


class MapAgent:
    """What the root process of an agent has: journal, applier, class changes.

    Maps are versions of `first`; `retuned` is what became of open connections last.
    """

    def __init__(self, journal: AgentJournal, name: str, driver: Driver, first: FleetMap) -> None:
        self.map, self.retuned = first, ""
        self.enforcement = JournaledEnforcement(LeaseOptions(journal.path, name, driver.place), journal, driver)
        self.applier = Applier(self.enforcement, KEY.verify_key, Rules())
        self.following = ClassRetuning(self.applier, self.enforcement)

    def load(self, version: int, **changes: Any) -> Any:
        """Take a version of the map; return the applier's answer."""
        now_ns = time.time_ns()
        new = replace(self.map, version=version, not_after_ns=now_ns + 3600 * NS, **changes)
        found = self.applier.load(document(signed(new, "m", now_ns, KEY)), boot_s(), now_ns).result
        assert not found.error, found
        return found

    def turn(self, epochs: int = 0) -> None:
        """Turn as `agent.py` does, so many epochs from now; a map is in force with the epoch after it was taken."""
        self.applier.tick(boot_s(), time.time_ns() + round(epochs * self.map.epoch_s * NS))
        self.following.add(self.applier.take_reclassed())
        if (done := self.following.turn()) is not None:
            self.retuned = done.text


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def seen(ends: Ends) -> dict[str, tuple[str, int, int]]:
    """Return congestion control, notsent_lowat and priority of each client's connection."""
    return {address: (settings(one)[1], one.getsockopt(*OPTIONS["notsent_lowat"]), one.getsockopt(*OPTIONS["priority"]))
            for address, (_, one) in ends.items()}  # fmt: skip


def followed(agent: MapAgent, version: int, prefixes: dict[str, str], lease_s: float = LONG_S) -> str:
    """Put a map in force, and have open connections follow; return what became of them."""
    agent.load(version, prefixes=prefixes, lease_s=lease_s)
    # The first is in force at once, each later one with the next epoch.
    agent.turn(version - 1)
    return agent.retuned


def released(folder: Path, driver: Any, server: Server, addresses: list[str], _: Path) -> dict[str, Any]:
    """The class changes, changes back, changes again; then the agent ends in order."""
    answer: dict[str, Any] = {}
    with AgentJournal(folder / "tune.db") as journal:
        agent = MapAgent(journal, "ebpf", driver, MAP)
        followed(agent, 1, PREFIXES)
        ends = {address: server.connect(address) for address in addresses}
        answer["begun"] = seen(ends)
        answer["text"], answer["changed"] = followed(agent, 2, CHANGED), seen(ends)
        answer["back text"], answer["back"] = followed(agent, 3, PREFIXES), seen(ends)
        followed(agent, 4, CHANGED)
        answer["again"] = seen(ends)
        for one in ends.pop([address for address in addresses if address.startswith("127.1.")][-1]):
            one.close()
        answer["moved"] = moved = list[bool | None]()

        def ended() -> bool:
            """Whether there is a record, and by it whether the connection that ended was re-tuned."""
            records = (one for one in agent.enforcement.drawing().records() if isinstance(one, CloseRecord))
            moved.extend(one.moved for one in records if one.opened.class_name)
            return bool(moved)

        until(ended)
        agent.enforcement.release()
        answer["after"] = seen(ends)
    return answer


def killed(folder: Path, driver: Any, server: Server, addresses: list[str], home: Path) -> dict[str, Any]:
    """A child has the map in force, changes the class, and is killed; its lease ends."""
    reading, writing = os.pipe()
    asked, ask = os.pipe()
    child = os.fork()
    if not child:
        # Its watchdog outlives it, and would keep the group.
        home.write_text("0")
        with AgentJournal(folder / "tune.db") as journal:
            agent = MapAgent(journal, "ebpf", driver, MAP)
            followed(agent, 1, PREFIXES, SHORT_S)
            os.write(writing, b"1")
            while not select.select([asked], [], [], 0.2)[0]:
                agent.turn()
            followed(agent, 2, CHANGED, SHORT_S)
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    assert os.read(reading, 1), "the child ended"
    ends = {address: server.connect(address) for address in addresses}
    begun = seen(ends)
    os.write(ask, b"1")
    os.waitpid(child, 0)
    answer = {"begun": begun, "changed": seen(ends)}
    with Tuning(folder / "tune.db") as journal:
        until(lambda: not journal.acts(*OPEN))
    return {**answer, "after": seen(ends)}


if __name__ == "__main__":
    with placed() as (driver, _), serving() as home:
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
        addresses = [f"127.{net}.0.{at + 1}" for net in (1, 2, 3) for at in range(CLIENTS)]
        play = {"released": released, "killed": killed}[sys.argv[2]]
        answer = play(Path(sys.argv[1]), driver, Server(), addresses, home)
    print(json.dumps({**answer, "nothing left": nothing_left()}))
