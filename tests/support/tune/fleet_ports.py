# SPDX-License-Identifier: MIT
"""A map for all clients, with a port: what connections to it and to another port of this host have. JSON.

    fleet_ports.py DRIVER FOLDER     run it apart (tests/support/isolation.py)

The map has one band for every round trip: a default. Its ports change at a turn of the epoch, and at the end it goes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from configtron.db.agent_journal import AgentJournal
from configtron.fleet.map_document import document, signed
from configtron.model.fleet import Band, FleetMap
from configtron.model.nouns import Profile
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.lease.options import LeaseOptions
from configtron.tune.drivers import load
from configtron.tune.drivers.bpf import pins
from tests.support.draws import settings

WEB, SSH, NS = 8443, 8022, 10**9
KEY = SigningKey(b"k" * 32)
PROFILES = {"wide": Profile("wide", (("initcwnd", 20),))}
# IPv4 clients by a prefix, all others by their round trip. Nothing renews the lease: it lasts for as long as a
# look takes on a busy machine.
MAP = FleetMap(1, 1, PROFILES, {"all": (("wide", 65_536),)}, {"127.0.0.0/8": "all"}, b"p" * 16, 0,
               (Band(2**31, "all"),), epoch_s=86_400, ports=(WEB,), lease_s=60.0)  # fmt: skip


def window(port: int, address: str) -> int:
    """Return the initial window that a new connection has at the server."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as server, socket.create_connection((address, port)):
        served = server.accept()[0]
        with served:
            return settings(served)[0]


def seen() -> dict[str, int]:
    return {f"{name} {address}": window(port, address)
            for name, port in (("web", WEB), ("ssh", SSH)) for address in ("127.0.0.1", "::1")}  # fmt: skip


def main(name: str, folder: Path) -> dict[str, Any]:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    options = LeaseOptions(folder / "tune.db", name)
    answer: dict[str, Any] = {"before": seen()}
    with AgentJournal(options.database) as journal:
        enforcement = JournaledEnforcement(options, journal, load(name, options.place))
        applier = Applier(enforcement, KEY.verify_key, enforcement.human_rules(), enforcement.human_rules())
        for at, (what, ports) in enumerate((("web", (WEB,)), ("ssh", (SSH,)), ("both", (WEB, SSH)), ("none", ()))):
            now_s, now_ns = time.clock_gettime(time.CLOCK_BOOTTIME), time.time_ns()
            new = replace(MAP, version=at + 1, ports=ports, not_after_ns=now_ns + 3600 * NS)
            found = applier.load(document(signed(new, "m", now_ns, KEY)), now_s, now_ns)
            applier.tick(now_s, now_ns + at * 86_400 * NS)
            answer[what] = {
                "error": found.result.error,
                "refused": found.result.refused,
                "remarks": applier.take_remarks(),
                "seen": seen(),
            }
        enforcement.release()
    return {**answer, "after": seen(), "pins left": pins.ROOT.exists()}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
