# SPDX-License-Identifier: MIT
"""Inside a guest: the module under a whole fleet, page loads over IPv4, IPv6 and v4-mapped addresses; prints JSON.

python3 -m tests.support.tune.kmod_pages configtron.ko

Manager, agent and nginx are in one namespace, clients in another, 20 ms away. Pages are loaded at once when the map
comes into force, and again later, so that they teach; then one connection of each way breaks, and its browser reports
the load that failed.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from configtron.db.tuning import Tuning
from configtron.linux.netns import inside
from configtron.model.fleet import TURN_MARGIN_S
from tests.support.one_request import answered
from tests.support.real_servers import running
from tests.support.tune.fleet_pages import PagesFleet, broken_load, load, until, wrong_of
from tests.support.tune.kmod_net import (
    IP_FREEBIND,
    IPV6_FREEBIND,
    PORT4,
    PORT6,
    SERVER,
    SERVER6,
    complaints,
    default,
    drained,
    hosts,
    tc,
)
from tests.support.tune.kmod_net import load as load_module

PREFIXES = {"10.1.0.0/16": "near", "10.2.0.0/16": "far", "fd00:1::/32": "near", "fd00:2::/32": "far"}
LISTEN = f"listen {PORT4}; listen [::]:{PORT6} ipv6only=off;"
# Clients of each way in each of two rounds. A page's load time is above two round trips of 20 ms, and no 250 ms
# above what the server sees of it.
EACH, DELAY_MS, LEAST_MS = 5, 10, 50
# Clients whose connection breaks, and ports.
BROKEN = {"10.1.50.9": PORT4, "fd00:1:50::9": PORT6, "10.2.150.9": PORT6}


def connected(address: str, port: int) -> socket.socket:
    """A connection of a client at an address."""
    six = ":" in address
    with inside("c"):
        client = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    freebind = (socket.IPPROTO_IPV6, IPV6_FREEBIND) if six else (socket.IPPROTO_IP, IP_FREEBIND)
    client.setsockopt(*freebind, 1)
    client.bind((address, 0))
    client.connect((SERVER6 if six else SERVER, port))
    return client


def ask(address: str, port: int, head: str, body: bytes) -> str:
    """One request of a client at an address; the answer's head."""
    with connected(address, port) as client:
        return answered(client, head, body)


def clients() -> list[tuple[str, str, int]]:
    """(address, way, port) of two rounds of clients: IPv4, IPv6, and IPv4 at a socket of IPv6."""
    ways = (("IPv4", "10.{}.{}.9", PORT4), ("IPv6", "fd00:{}:{}::9", PORT6), ("mapped", "10.{}.1{:02}.9", PORT6))
    return [(form.format(1 + at % 2, at), way, port) for at in range(2 * EACH) for way, form, port in ways]


def main(module: str) -> None:
    load_module(module)
    with hosts():
        for name, end in (("s", "vs"), ("c", "vc")):
            tc(name, "change", f"{end} root netem delay {DELAY_MS}ms limit 100000")
        with inside("s"):
            found = pages()
        default("cubic")
    found["unload"], found["complaints"] = drained(), complaints()
    print(json.dumps(found))


def pages() -> dict[str, Any]:
    wanted = clients()
    half = len(wanted) // 2

    def loads(numbers: Iterable[int]) -> None:
        for at in numbers:
            address, _, port = wanted[at]
            load(at, partial(ask, address, port), LEAST_MS)

    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        fleet = PagesFleet(folder, "kmod", PREFIXES, (PORT4, PORT6))
        agent = fleet.agent()
        with running("nginx", folder, folder / "log", fleet.beacons, port=PORT4, listen=LISTEN):
            with fleet.manager() as core:
                until(lambda: "web1" in core.session.agents and core.session.agents["web1"].held[1] > 0, fleet.output)
                turned_s = time.monotonic()
                loads(range(half))
                until(lambda: len(fleet.rows()) == half, fleet.output)
                # Connections near the turn do not teach: these are to.
                until(lambda: time.monotonic() > turned_s + TURN_MARGIN_S + 0.3)
                loads(range(half, len(wanted)))
                for address, port in BROKEN.items():
                    broken_load(connected(address, port), partial(ask, address, port))
                until(lambda: len(fleet.rows()) >= len(wanted) + len(BROKEN), fleet.output)
                agent.send_signal(signal.SIGTERM)
                agent.wait()
        rows = fleet.rows()
        with Tuning(folder / "tune.db") as journal:
            left = sum(one.status == "leased" for one in journal.acts())
        ways = Counter(wanted[round(row.plt_ms) - LEAST_MS][1] for row in rows if row.plt_ms is not None)
        wrong = wrong_of(fleet, dict(enumerate([*(one[0] for one in wanted), *BROKEN])), rows, LEAST_MS)
        failed = [(row.failure, row.teaches, row.why_not) for row in rows if row.failure]
        return {"rows": len(rows), "failed": failed, "ways": ways, "wrong": wrong,
                "held": sum(row.held for row in rows), "taught": sum(row.teaches for row in rows), "left": left,
                "arms": Counter(row.profile or "held" for row in rows), "log": fleet.output()}  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
