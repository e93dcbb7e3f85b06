# SPDX-License-Identifier: MIT
"""Inside a guest: initial windows that a fleet learns from ends of connections, by the module; prints JSON.

python3 -m tests.support.tune.kmod_strategies configtron.ko

The manager with the policy `initial`, agent and server are in one namespace, clients in another, 100 ms away, on a
path of 20 Mbit/s. All of it is the product's: records of the module, rows, the table, the map, and the module's draw.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configtron.db.end_state_rows import EndStateRows
from configtron.db.fleet import FleetStore
from configtron.fleet.map_document import opened, whole_map
from configtron.fleet.transport.curve_keys import signing_key
from configtron.intake.end_reports import OF_PREFIX
from configtron.learner.map_making import MapOptions
from configtron.linux.netns import inside
from configtron.model.fleet import FleetMap
from configtron.service.fleet import enrolment
from configtron.service.fleet.makers import window_maker
from configtron.service.fleet.manager import run_manager
from configtron.service.fleet.manager_core import ManagerCore
from tests.support.tune.fleet_pages import PagesFleet, until
from tests.support.tune.kmod_net import IP_FREEBIND, PORT4, SERVER, complaints, default, drained, hosts, tc
from tests.support.tune.kmod_net import load as load_module

DELAY = "delay 50ms limit 100000"
RATE_MBIT, BUFFER_PACKETS, SIZE = 20, 200, 900_000
EPOCH_S = 40
KNOWN, UNSEEN, BACK = "10.1.0.0/24", "10.9.0.0/24", "10.5.0.0/24"
# Connections that teach, of which so many are reported: a prefix has no more say; of each kind afterwards.
TEACH, REPORTED, EACH = 24, OF_PREFIX, 6


def path() -> None:
    """A rate with a buffer before it, behind which is half of the round trip."""
    tc("s", "replace", f"vs root handle 1: netem {DELAY}")
    tc("s", "replace", f"vs parent 1:1 handle 10: tbf rate {RATE_MBIT}mbit burst 3100 limit {BUFFER_PACKETS * 1514}")
    tc("c", "change", f"vc root netem {DELAY}")


def serve() -> None:
    """Send `SIZE` bytes on each connection."""
    listening = socket.create_server(("0.0.0.0", PORT4), backlog=64)

    def run() -> None:
        while True:
            one, _ = listening.accept()
            with one:
                one.sendall(bytes(SIZE))

    threading.Thread(target=run, daemon=True).start()


def fetched(address: str) -> float:
    """Return how long a client took to read all."""
    began = time.monotonic()
    with inside("c"):
        client = socket.socket()
    with client:
        client.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        client.bind((address, 0))
        client.connect((SERVER, PORT4))
        left = SIZE
        while left:
            left -= len(client.recv(1 << 20))
    return time.monotonic() - began


def clients(prefix: str, first: int, count: int) -> list[str]:
    return [f"{prefix.rpartition('.')[0]}.{first + at}" for at in range(count)]


class StrategiesFleet(PagesFleet):
    """With the policy's maker in place of a map."""

    @contextmanager
    def managed(self, strategies: str) -> Iterator[ManagerCore]:
        options = MapOptions(least_clients=5, epoch_s=EPOCH_S, ports=(PORT4,), holdback=0.0)
        maker = window_maker(self.manager_options.database, options, strategies)
        cores: list[ManagerCore] = []
        done = threading.Event()
        run = {"stop": done.is_set, "started": cores.append}
        thread = threading.Thread(target=run_manager, args=(self.manager_options, maker), kwargs=run)
        thread.start()
        try:
            until(lambda: bool(cores) or not thread.is_alive())
            yield cores[0]
        finally:
            done.set()
            thread.join()

    def states(self) -> list[dict[str, Any]]:
        with EndStateRows(self.manager_options.database, read_only=True) as store:
            every = store.every()
        return [every.row(at) for at in range(len(every))]


def wait(holds: Callable[[], bool], about: Callable[[], object], most_s: float = 300.0) -> None:
    end_s = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < end_s, about()
        time.sleep(0.25)


def fetch_all(addresses: list[str]) -> list[float]:
    """Return how long each took, one after the other, amid an epoch: near its turn a connection's draw is in doubt."""
    wait(lambda: 5.0 < time.time() % EPOCH_S < 10.0, lambda: "no such time")
    return [fetched(one) for one in addresses]


def played(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    fleet = StrategiesFleet(folder, "kmod", {}, (PORT4,))
    agent = fleet.agent()
    serve()
    with fleet.managed("resume=1") as core:

        def holds(version: int) -> bool:
            agents = core.session.agents
            return "web1" in agents and agents["web1"].held == (core.term, version)

        def latest() -> FleetMap:
            assert core.session.current is not None
            with FleetStore(fleet.manager_options.database) as store:
                document = store.document(*core.session.current.place)
            return whole_map(opened(document or b"", signing_key(folder / "keys").verify_key))

        def in_force() -> bool:
            return holds(core.session.current.place[1]) if core.session.current is not None else False

        wait(in_force, fleet.output)
        found["first"] = fetch_all(clients(KNOWN, 1, TEACH))
        wait(lambda: len(fleet.states()) >= REPORTED and bool(latest().mixes) and in_force(), fleet.output)
        # The map's classes are drawn from the next epoch on.
        time.sleep(EPOCH_S)
        made = latest()
        found["map"] = {"prefixes": dict(made.prefixes), "classes": len(made.mixes),
                        "profiles": [dict(one.settings) for one in made.profiles.values()]}  # fmt: skip
        found["same"] = fetch_all(clients(KNOWN, 1, EACH))
        found["unseen"] = fetch_all(clients(UNSEEN, 1, EACH))
        enrolment.roll_back(fleet.manager_options.database, f"{core.term}.1")
        wait(lambda: not latest().mixes and in_force(), fleet.output)
        found["back"] = fetch_all(clients(BACK, 1, EACH))
        wait(lambda: len(fleet.states()) >= REPORTED + 3 * EACH, fleet.output)
        agent.send_signal(signal.SIGTERM)
        agent.wait()
        every = fleet.states()
    found["ends"] = Counter(f"{one['prefix']} {one['strategy']} {one['resumed']}" for one in every)
    found["taught"] = sum(one["strategy"] == "" or one["resumed"] == "validated" for one in every)
    found["chances"] = sorted({one["propensity"] for one in every if one["strategy"] == "resume"})
    found["reported"] = REPORTED
    return found


def main(module: str) -> None:
    load_module(module)
    with hosts():
        path()
        with inside("s"), tempfile.TemporaryDirectory(prefix="strategies-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            found = played(folder)
        default("cubic")
    found["unload"], found["complaints"] = drained(), complaints()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
