# SPDX-License-Identifier: MIT
"""Inside a guest: a whole fleet, whose manager, agent and server are in one namespace, and clients in another. JSON.

    python3 -m tests.support.tune.kmod_fleet configtron.ko pages|strategies

pages        page loads under the module by IPv4, IPv6 and v4-mapped addresses, 20 ms away. At once when the map comes
             into force, and again later, so that they teach; then one connection of each way breaks, and its browser
             reports the load that failed
strategies   initial windows that a manager with the policy `initial` learns from ends of connections, 100 ms away on a
             path of 20 Mbit/s. All of it is the product's: records, rows, the table, the map, and the module's draw
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
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
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.manager_core import ManagerCore
from tests.support.one_request import answered
from tests.support.real_servers import running
from tests.support.tune.fleet_pages import PagesFleet, broken_load, judged, load
from tests.support.tune.kmod_net import PORT4, PORT6, client_at, delayed, program, tc
from tests.support.waiting import until

PREFIXES = {"10.1.0.0/16": "near", "10.2.0.0/16": "far", "fd00:1::/32": "near", "fd00:2::/32": "far"}
LISTEN = f"listen {PORT4}; listen [::]:{PORT6} ipv6only=off;"
# Clients of each way in each of two rounds: IPv4, IPv6, and IPv4 at a socket of IPv6. A page's load time is above two
# round trips of 20 ms, and no 250 ms above what the server sees of it.
WAYS = (("IPv4", "10.{}.{}.9", PORT4), ("IPv6", "fd00:{}:{}::9", PORT6), ("mapped", "10.{}.1{:02}.9", PORT6))
ROUND, LEAST_MS = 5, 50
# Clients whose connection breaks, and ports.
BROKEN = {"10.1.50.9": PORT4, "fd00:1:50::9": PORT6, "10.2.150.9": PORT6}


def ask(address: str, port: int, head: str, body: bytes) -> str:
    """One request of a client at an address; the answer's head."""
    with client_at(address, port) as client:
        return answered(client, head, body)


def pages(folder: Path) -> dict[str, Any]:
    delayed(0.01)
    wanted = [(form.format(1 + at % 2, at), way, port) for at in range(2 * ROUND) for way, form, port in WAYS]
    half = len(wanted) // 2

    def loads(first: int, end: int) -> None:
        for at, (address, _, port) in list(enumerate(wanted))[first:end]:
            load(at, partial(ask, address, port), LEAST_MS)

    fleet = PagesFleet(folder, "kmod", PREFIXES, (PORT4, PORT6))
    with (
        fleet.reading(),
        running("nginx", folder, folder / "log", fleet.beacons, port=PORT4, listen=LISTEN),
        fleet.manager(),
    ):
        fleet.holding(1)
        # neighbours are looked up by the first connection
        for source, port in (("10.9.0.9", PORT4), ("fd00:9::9", PORT6)):
            client_at(source, port).close()
        loads(0, half)
        fleet.until_rows(half)
        fleet.taught()
        loads(half, len(wanted))
        for address, port in BROKEN.items():
            broken_load(client_at(address, port), partial(ask, address, port))
        fleet.until_rows(len(wanted) + len(BROKEN))
    ways = Counter(wanted[round(row.plt_ms) - LEAST_MS][1] for row in fleet.rows() if row.plt_ms is not None)
    found = judged(fleet, dict(enumerate([*(one[0] for one in wanted), *BROKEN])), LEAST_MS)
    return found | {"ways": ways, "failed": [(failure, *rest) for failure, _, *rest in found["failed"]]}


DELAY = "delay 50ms limit 100000"
RATE_MBIT, BUFFER_PACKETS, SIZE = 20, 200, 900_000
EPOCH_S, LATE_S = 40, 300.0
KNOWN, UNSEEN, BACK = "10.1.0.0/24", "10.9.0.0/24", "10.5.0.0/24"
# Connections that teach, of which so many are reported: a prefix has no more say; of each kind afterwards.
TEACH, REPORTED, EACH = 24, OF_PREFIX, 6


def serve() -> None:
    """Send `SIZE` bytes on each connection."""
    listening = socket.create_server(("0.0.0.0", PORT4), backlog=64)

    def run() -> None:
        while True:
            with listening.accept()[0] as one:
                one.sendall(bytes(SIZE))

    threading.Thread(target=run, daemon=True).start()


def fetched(prefix: str, count: int) -> list[float]:
    """Return how long each client took to read all, one after the other, amid an epoch: near its turn a connection's
    draw is in doubt."""
    until(lambda: 5.0 < time.time() % EPOCH_S < 10.0)
    found = []
    for at in range(count):
        began = time.monotonic()
        with client_at(f"{prefix.rpartition('.')[0]}.{1 + at}", PORT4) as client:
            client.recv(SIZE, socket.MSG_WAITALL)
        found.append(time.monotonic() - began)
    return found


class StrategiesFleet(PagesFleet):
    """With the policy's maker in place of a map's file."""

    @contextmanager
    def learning(self, strategies: str) -> Iterator[ManagerCore]:
        options = MapOptions(least_clients=5, epoch_s=EPOCH_S, ports=(PORT4,), holdback=0.0)
        maker = window_maker(self.database, options, strategies)
        cores: list[ManagerCore] = []
        done = threading.Event()
        run = {"stop": done.is_set, "started": cores.append}
        place = ManagerOptions(self.database, self.keys, self.endpoint)
        thread = threading.Thread(target=run_manager, args=(place, maker), kwargs=run)
        thread.start()
        try:
            until(lambda: bool(cores) or not thread.is_alive())
            yield cores[0]
        finally:
            done.set()
            thread.join()

    def states(self) -> list[dict[str, Any]]:
        with EndStateRows(self.database, read_only=True) as store:
            every = store.every()
        return [every.row(at) for at in range(len(every))]


def strategies(folder: Path) -> dict[str, Any]:
    # a rate with a buffer before it, behind which is half of the round trip
    tc("s", "replace", f"vs root handle 1: netem {DELAY}")
    tc("s", "replace", f"vs parent 1:1 handle 10: tbf rate {RATE_MBIT}mbit burst 3100 limit {BUFFER_PACKETS * 1514}")
    found: dict[str, Any] = {}
    fleet = StrategiesFleet(folder, "kmod", {}, (PORT4,))
    serve()
    with fleet.reading(), fleet.learning("resume=1") as core:

        def latest() -> FleetMap:
            assert core.session.current is not None
            with FleetStore(fleet.database) as store:
                document = store.document(*core.session.current.place)
            return whole_map(opened(document or b"", signing_key(fleet.keys).verify_key))

        def in_force() -> bool:
            agents, now = core.session.agents, core.session.current
            return now is not None and "web1" in agents and agents["web1"].held == (core.term, now.place[1])

        until(in_force, fleet.logs, LATE_S)
        found["first"] = fetched(KNOWN, TEACH)
        until(lambda: len(fleet.states()) >= REPORTED and bool(latest().mixes) and in_force(), fleet.logs, LATE_S)
        # The map's classes are drawn from the next epoch on.
        time.sleep(EPOCH_S)
        made = latest()
        found["map"] = {"prefixes": dict(made.prefixes), "classes": len(made.mixes),
                        "profiles": [dict(one.settings) for one in made.profiles.values()]}  # fmt: skip
        found |= {"same": fetched(KNOWN, EACH), "unseen": fetched(UNSEEN, EACH)}
        enrolment.roll_back(fleet.database, f"{core.term}.1")
        until(lambda: not latest().mixes and in_force(), fleet.logs, LATE_S)
        found["back"] = fetched(BACK, EACH)
        until(lambda: len(fleet.states()) >= REPORTED + 3 * EACH, fleet.logs, LATE_S)
    every = fleet.states()
    found["ends"] = Counter(f"{one['prefix']} {one['strategy']} {one['resumed']}" for one in every)
    found["taught"] = sum(one["strategy"] == "" or one["resumed"] == "validated" for one in every)
    found["chances"] = sorted({one["propensity"] for one in every if one["strategy"] == "resume"})
    return found | {"reported": REPORTED}


def play(name: str) -> dict[str, Any]:
    with inside("s"), tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        return {"pages": pages, "strategies": strategies}[name](Path(folder))


if __name__ == "__main__":
    program(play)
