# SPDX-License-Identifier: MIT
"""A manager, an agent with a real driver, nginx, browsers' beacons: rows in the manager's database beside user space.

    fleet_pages.py DRIVER CLIENTS BROKEN     run it apart (tests/support/isolation.py), or in a guest

The manager is away while the second third of the pages is loaded, and some connections break whose browsers report it;
then the agent is killed and started again. JSON on standard output.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from configtron.db.fleet import FleetStore
from configtron.db.spool_file import SpoolFile
from configtron.intake.pageloads.log_lines import prefix_of_client
from configtron.intake.pageloads.plan_book import unit
from configtron.model.draw import PARTS, Key, Mix, Plan, draw, unit_of
from configtron.model.fleet import TURN_MARGIN_S
from tests.support.draws import ABORT
from tests.support.faults.real_fleet import RealFleet
from tests.support.one_request import ask, connected
from tests.support.real_servers import free_port, running
from tests.support.waiting import until

AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"
HOLDBACK = 13_107
# Load time of page 0; that of page N is N ms more.
LEAST_MS = 10
MIXES = {"near": (("wide", 40_960), ("wider", 24_576)), "far": (("wider", 65_536),)}
PREFIXES = {"127.1.0.0/16": "near", "127.2.0.0/16": "far"}


class PagesFleet(RealFleet):
    """An agent that takes page loads. `ports` are the web server's; none: a free one."""

    def __init__(
        self, folder: Path, driver: str, prefixes: Mapping[str, str] = PREFIXES, ports: tuple[int, ...] = ()
    ) -> None:
        folder.chmod(0o755)
        self.prefixes, self.ports, self.beacons, self.taken = prefixes, ports or (free_port(),), free_port(), 0.0
        mixes = {name: {profile: parts / PARTS for profile, parts in mix} for name, mix in MIXES.items()}
        profiles = {"wide": {"initcwnd": 20}, "wider": {"initcwnd": 30}}
        super().__init__(folder, ["--driver", driver], {
            "profiles": profiles, "mixes": mixes, "prefixes": prefixes, "ports": self.ports, "lease_s": 10.0,
            "holdback": HOLDBACK / PARTS,
        })  # fmt: skip

    @contextmanager
    def reading(self) -> Iterator[subprocess.Popen[Any]]:
        """Run the agent for the length of a block, which begins when it takes log lines and beacons."""
        log = self.folder / "log"

        def reads() -> bool:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, socket.socket() as beacon:
                there = log.exists() and line.connect_ex(str(log)) == 0
                return there and beacon.connect_ex(("127.0.0.1", self.beacons)) == 0

        with self.agent("--beacons", f"127.0.0.1:{self.beacons}", "--log-socket", str(log)) as process:
            until(lambda: process.poll() is not None or reads(), self.logs)
            assert process.poll() is None, self.logs()
            yield process

    def taught(self) -> None:
        """Wait until connections teach: those near the turn to the map do not."""
        until(lambda: time.monotonic() > self.taken + TURN_MARGIN_S + 0.3)

    def holding(self, term: int) -> None:
        """Wait until the agent holds a map of that term."""
        until(lambda: self.held().startswith(f"{term}."), self.logs)
        self.taken = time.monotonic()

    def until_rows(self, count: int) -> None:
        """Wait until the manager has so many rows."""
        until(lambda: len(self.rows()) >= count, self.logs)

    def spooled(self) -> int:
        with closing(SpoolFile(self.agent_folder / "spool.db", 1 << 30)) as spool:
            return spool.waiting


def load(number: int, asked: Callable[[str, bytes], str], least_ms: int = LEAST_MS) -> None:
    """A page by a client, and its beacon by the web server; the load time names the page.

    asked   sends a request's head and body, and returns the answer's head
    """
    began_s = time.monotonic()
    found = re.search(r'ct;desc="(\w+)"', asked("GET /index.html HTTP/1.1", b""))
    assert found
    time.sleep(max(0.0, began_s + least_ms / 1e3 - time.monotonic()))
    times = {"qs": 1.0, "ps": 2.0, "le": float(least_ms + number)}
    marks = {"v": 1, "id": found[1][:16], "t": found[1], "w": "load", **times}
    head = f"POST /configtron/beacon HTTP/1.1\r\nUser-Agent: {AGENT}\r\nOrigin: http://localhost"
    assert " 204 " in asked(head, json.dumps(marks).encode())


def broken_load(connection: socket.socket, asked: Callable[[str, bytes], str]) -> None:
    """A page whose connection breaks, and the report of the browser (Network Error Logging) by another connection."""
    with connection as client:
        client.sendall(b"GET /index.html HT")
        client.setsockopt(*ABORT)
    body = {"type": "tcp.reset", "phase": "connection", "elapsed_time": 5, "sampling_fraction": 1.0, "protocol": "h2"}
    report = {"type": "network-error", "age": 0, "url": "http://localhost/", "body": body}
    head = f"POST /configtron/reports HTTP/1.1\r\nUser-Agent: {AGENT}\r\nContent-Type: application/reports+json"
    assert " 204 " in asked(head, json.dumps([report]).encode())


def judged(fleet: PagesFleet, wanted: Mapping[int, str], least_ms: int = LEAST_MS) -> dict[str, Any]:
    """Compare rows with what user space draws for their clients."""
    rows, key, wrong, epoch = fleet.rows(), fleet.key(), Counter[str](), int(time.time()) // fleet.epoch_s
    plan = Plan(Key.of(key), epoch, 0, HOLDBACK)
    # Which load a row is of: its time says so, and of one that failed its prefix.
    places = {prefix_of_client(ip_address(address).packed): at for at, address in wanted.items()}
    numbers = [places[row.prefix] if row.plt_ms is None else round(row.plt_ms) - least_ms for row in rows]
    loads = Counter(numbers)
    wrong["doubled"] = sum(count > 1 for count in loads.values())
    wrong["lost"] = len(wanted.keys() - loads.keys())
    with FleetStore(fleet.database) as store:
        maps = {(one.term, one.version) for one in store.maps()}
    for row, number in zip(rows, numbers, strict=True):
        address = ip_address(wanted[number])
        name = next(of for prefix, of in fleet.prefixes.items() if address in ip_network(prefix))
        drawn = draw(plan, Mix(*zip(*MIXES[name], strict=True)), unit_of(address))
        wrong["arm"] += (row.class_name, row.arm, row.held) != (name, drawn.arm, drawn.held)
        wrong["propensity"] += row.propensity != drawn.propensity
        wrong["epoch"] += row.epoch != epoch
        wrong["map"] += (row.term, row.map_version) not in maps
        wrong["profile"] += row.profile != ("" if drawn.arm is None else MIXES[name][drawn.arm][0])
        wrong["cluster"] += row.unit != unit(key, address.packed, epoch)
        wrong["prefix"] += row.prefix != prefix_of_client(address.packed)
        wrong["agent"] += row.agent != "web1"
        wrong["no round trip"] += not row.rtt_ms and not row.failure
        wrong["not taught"] += row.why_not not in ("", "turn")
    return {"rows": len(rows), "wrong": wrong, "held": sum(row.held for row in rows),
            "boots": len({row.boot for row in rows}), "taught": sum(row.teaches for row in rows),
            "failed": [(row.failure, row.profile, row.teaches, row.why_not) for row in rows if row.failure],
            "arms": Counter(row.profile or "held" for row in rows), "left": fleet.statuses().count("leased"),
            "log": fleet.logs()}  # fmt: skip


def main(driver: str, count: int, failures: int, folder: Path) -> dict[str, Any]:
    """Load pages with the manager there, without it, and after a kill of the agent."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    wanted = {at: f"127.{1 + at % 2}.{at}.{at % 250 + 1}" for at in range(count)}
    broken = {count + at: f"127.{1 + at % 2}.{200 + at}.7" for at in range(failures)}
    third = count // 3
    fleet = PagesFleet(folder, driver)
    with running("nginx", folder, folder / "log", fleet.beacons, port=fleet.ports[0]) as port:

        def loads(first: int, end: int) -> None:
            for at in range(first, end):
                load(at, partial(ask, port, wanted[at]))

        with fleet.reading() as agent:
            with fleet.manager():
                fleet.holding(1)
                loads(0, third)
                fleet.until_rows(third)
            fleet.taught()
            loads(third, 2 * third)
            for address in broken.values():
                broken_load(connected(port, address), partial(ask, port, address))
            until(lambda: fleet.spooled() >= third + failures, fleet.logs)
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        with fleet.reading():
            # nginx loses the first line after its log's reader has changed.
            ask(port, "127.1.0.1", "GET /index.html HTTP/1.1")
            with fleet.manager():
                fleet.until_rows(2 * third + failures)
                fleet.holding(2)
                loads(2 * third, count)
                fleet.until_rows(count + failures)
    return judged(fleet, wanted | broken)


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(name))))
