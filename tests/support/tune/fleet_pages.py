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
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import zmq

from configtron.db.fleet import FleetStore
from configtron.db.spool_file import SpoolFile
from configtron.db.tuning import Tuning
from configtron.fleet.transport.curve_keys import (
    CurvePair,
    ManagerAddress,
    curve_pair,
    signing_key,
    write_curve_pair,
    write_manager_address,
)
from configtron.intake.pageloads.log_lines import prefix_of_client
from configtron.intake.pageloads.plan_book import unit
from configtron.model.draw import Key, Mix, Plan, draw, unit_of
from configtron.model.fleet import TURN_MARGIN_S, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.faults.real_fleet import epoch_length
from tests.support.one_request import ask, connected
from tests.support.real_servers import free_port, running

AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"
KEY, HOLDBACK, SETTLE_S, PATIENCE_S = b"0123456789abcdef", 13_107, 0.3, 20.0
# Load time of page 0; that of page N is N ms more.
LEAST_MS = 10
MIXES = {"near": (("wide", 40_000), ("wider", 25_536)), "far": (("wider", 65_536),)}
PREFIXES = {"127.1.0.0/16": "near", "127.2.0.0/16": "far"}
PROFILES = {"wide": Profile("wide", (("initcwnd", 20),)), "wider": Profile("wider", (("initcwnd", 30),))}
RUN_AGENT = """
import sys
from pathlib import Path
from configtron.linux.signals import asked_to_stop
from configtron.service.fleet.agent import AgentOptions, run_agent
from configtron.service.fleet.page_intake import PagesOptions
from configtron.service.lease.options import LeaseOptions
import logging
logging.basicConfig(format="%(message)s", level=logging.INFO)
folder, driver, port, settle_ns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
pages = PagesOptions("127.0.0.1", port, folder / "log", settle_ns)
with asked_to_stop() as stopping:
    run_agent(AgentOptions(LeaseOptions(folder / "tune.db", driver), folder / "agent", "root", pages), stop=stopping)
"""


def until(holds: Callable[[], bool], about: Callable[[], object] = lambda: "") -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, about()
        time.sleep(0.02)


class PagesFleet:
    """All processes, in one folder. `ports` are the web server's; none: a free one."""

    def __init__(
        self, folder: Path, driver: str, prefixes: Mapping[str, str] = PREFIXES, ports: tuple[int, ...] = ()
    ) -> None:
        self.folder, self.driver, self.beacons = folder, driver, free_port()
        self.manager_options = ManagerOptions(folder / "m.db", folder / "keys", f"tcp://127.0.0.1:{free_port()}")
        self.epoch_s = epoch_length(time.time())
        self.ports = ports or (free_port(),)
        self.map = FleetMap(0, 0, PROFILES, MIXES, prefixes, KEY, 1, holdback=HOLDBACK, epoch_s=self.epoch_s,
                            ports=self.ports)  # fmt: skip
        pair = CurvePair(*zmq.curve_keypair())
        with FleetStore(folder / "m.db") as store:
            store.enroll("web1", pair.public.decode())
        write_curve_pair(folder / "agent", pair)
        manager, key = curve_pair(folder / "keys"), signing_key(folder / "keys")
        address = ManagerAddress(self.manager_options.endpoint, manager.public.decode(), bytes(key.verify_key).hex())
        write_manager_address(folder / "agent", address)

    @contextmanager
    def manager(self) -> Iterator[ManagerCore]:
        cores: list[ManagerCore] = []
        done = threading.Event()
        run = {"stop": done.is_set, "started": cores.append}
        thread = threading.Thread(target=run_manager, args=(self.manager_options, FixedMapMaker(self.map)), kwargs=run)
        thread.start()
        try:
            until(lambda: bool(cores) or not thread.is_alive())
            yield cores[0]
        finally:
            done.set()
            thread.join()

    def agent(self) -> subprocess.Popen[bytes]:
        """Start the agent; wait until its log socket is there."""
        words = [sys.executable, "-c", RUN_AGENT, str(self.folder), self.driver, str(self.beacons)]
        with open(self.folder / "agent.log", "a") as output:
            process = subprocess.Popen([*words, str(round(SETTLE_S * 1e9))], stdout=output, stderr=output)
        log = self.folder / "log"
        until(lambda: process.poll() is not None or ready(log), self.output)
        assert process.poll() is None, self.output()
        until(self.listens, self.output)
        return process

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.beacons)) == 0

    def output(self) -> str:
        return (self.folder / "agent.log").read_text()

    def rows(self) -> list[OutcomeRow]:
        with FleetStore(self.manager_options.database) as store:
            return [row for _, row in store.rows_after(0)]

    def spooled(self) -> int:
        spool = SpoolFile(self.folder / "agent" / "spool.db", 1 << 30)
        try:
            return spool.waiting
        finally:
            spool.close()


def ready(log: Path) -> bool:
    """Return whether a process reads the socket at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        return log.exists() and probe.connect_ex(str(log)) == 0


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
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    body = {"type": "tcp.reset", "phase": "connection", "elapsed_time": 5, "sampling_fraction": 1.0, "protocol": "h2"}
    report = {"type": "network-error", "age": 0, "url": "http://localhost/", "body": body}
    head = f"POST /configtron/reports HTTP/1.1\r\nUser-Agent: {AGENT}\r\nContent-Type: application/reports+json"
    assert " 204 " in asked(head, json.dumps([report]).encode())


def wrong_of(
    fleet: PagesFleet, wanted: Mapping[int, str], rows: list[OutcomeRow], least_ms: int = LEAST_MS
) -> Counter[str]:
    """Compare rows with what user space draws for their clients."""
    wrong, epoch = Counter[str](), int(time.time()) // fleet.epoch_s
    plan = Plan(Key.of(KEY), epoch, 0, HOLDBACK)
    numbers = [_number(row, wanted, least_ms) for row in rows]
    loads = Counter(numbers)
    wrong["doubled"] = sum(count > 1 for count in loads.values())
    wrong["lost"] = len(wanted.keys() - loads.keys())
    with FleetStore(fleet.manager_options.database) as store:
        maps = {(one.term, one.version) for one in store.maps()}
    for row, number in zip(rows, numbers, strict=True):
        address = ip_address(wanted[number])
        name = next(of for prefix, of in fleet.map.prefixes.items() if address in ip_network(prefix))
        drawn = draw(plan, Mix(*zip(*MIXES[name], strict=True)), unit_of(address))
        wrong["arm"] += (row.class_name, row.arm, row.held) != (name, drawn.arm, drawn.held)
        wrong["propensity"] += row.propensity != drawn.propensity
        wrong["epoch"] += row.epoch != epoch
        wrong["map"] += (row.term, row.map_version) not in maps
        wrong["profile"] += row.profile != ("" if drawn.arm is None else MIXES[name][drawn.arm][0])
        wrong["cluster"] += row.unit != unit(KEY, address.packed, epoch)
        wrong["prefix"] += row.prefix != prefix_of_client(address.packed)
        wrong["agent"] += row.agent != "web1"
        wrong["no round trip"] += not row.rtt_ms and not row.failure
        wrong["not taught"] += row.why_not not in ("", "turn")
    return wrong


def _number(row: OutcomeRow, wanted: Mapping[int, str], least_ms: int) -> int:
    """Return which load a row is of: its time says so, and of one that failed its prefix."""
    if row.plt_ms is not None:
        return round(row.plt_ms) - least_ms
    return next(at for at, address in wanted.items() if prefix_of_client(ip_address(address).packed) == row.prefix)


def main(driver: str, count: int, failures: int) -> dict[str, Any]:
    """Load pages with the manager there, without it, and after a kill of the agent."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    wanted = {at: f"127.{1 + at % 2}.{at}.{at % 250 + 1}" for at in range(count)}
    third = count // 3
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        fleet = PagesFleet(folder, driver)
        agent = fleet.agent()

        def loads(numbers: Iterable[int]) -> None:
            for at in numbers:
                load(at, partial(ask, port, wanted[at]))

        with running("nginx", folder, folder / "log", fleet.beacons, port=fleet.ports[0]) as port:
            with fleet.manager() as core:
                until(lambda: "web1" in core.session.agents and core.session.agents["web1"].held[1] > 0, fleet.output)
                turned_s = time.monotonic()
                loads(range(third))
                until(lambda: len(fleet.rows()) == third, fleet.output)
            # Connections near the turn do not teach: these are to.
            until(lambda: time.monotonic() > turned_s + TURN_MARGIN_S + 0.3)
            loads(range(third, 2 * third))
            broken = {count + at: f"127.{1 + at % 2}.{200 + at}.7" for at in range(failures)}
            for address in broken.values():
                broken_load(connected(port, address), partial(ask, port, address))
            until(lambda: fleet.spooled() >= third + failures, fleet.output)
            agent.send_signal(signal.SIGKILL)
            agent.wait()
            agent = fleet.agent()
            # nginx loses the first line after its log's reader has changed.
            ask(port, "127.1.0.1", "GET /index.html HTTP/1.1", b"")
            with fleet.manager() as core:
                until(lambda: len(fleet.rows()) == 2 * third + failures, fleet.output)
                until(lambda: core.session.agents["web1"].held[1] > 0, fleet.output)
                loads(range(2 * third, count))
                until(lambda: len(fleet.rows()) >= count + failures, fleet.output)
                agent.send_signal(signal.SIGTERM)
                agent.wait()
        rows = fleet.rows()
        failed = [row for row in rows if row.failure]
        with Tuning(folder / "tune.db") as journal:
            left = sum(one.status == "leased" for one in journal.acts())
        boots, taught = len({row.boot for row in rows}), sum(row.teaches for row in rows)
        return {"rows": len(rows), "wrong": wrong_of(fleet, wanted | broken, rows),
                "held": sum(row.held for row in rows), "boots": boots, "taught": taught, "left": left,
                "failed": [(row.failure, row.profile, row.teaches, row.why_not) for row in failed],
                "log": fleet.output()}  # fmt: skip


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
