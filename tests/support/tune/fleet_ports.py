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
from pathlib import Path
from typing import Any

from configtron.db.agent_journal import AgentJournal
from configtron.model.fleet import Band, FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Place
from configtron.tune.drivers import load
from configtron.tune.drivers.bpf import pins
from tests.support.draws import settings
from tests.support.tune.retuned import MapAgent

WEB, SSH = 8443, 8022
# IPv4 clients by a prefix, all others by their round trip. Nothing renews the lease: it lasts for as long as a
# look takes on a busy machine.
MAP = FleetMap(1, 1, {"wide": Profile("wide", (("initcwnd", 20),))}, {"all": (("wide", 65_536),)},
               {"127.0.0.0/8": "all"}, b"p" * 16, 0, (Band(2**31, "all"),), epoch_s=86_400, lease_s=60.0)  # fmt: skip


def window(port: int, address: str) -> int:
    """Return the initial window that a new connection has at the server."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family) as server, socket.create_connection((address, port)):
        return settings(server.accept()[0])[0]


def seen() -> dict[str, int]:
    return {f"{name} {address}": window(port, address)
            for name, port in (("web", WEB), ("ssh", SSH)) for address in ("127.0.0.1", "::1")}  # fmt: skip


def main(name: str, folder: Path) -> dict[str, Any]:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    answer: dict[str, Any] = {"before": seen()}
    with AgentJournal(folder / "tune.db") as journal:
        agent = MapAgent(journal, name, load(name, Place()), MAP)
        for at, (what, ports) in enumerate((("web", (WEB,)), ("ssh", (SSH,)), ("both", (WEB, SSH)), ("none", ()))):
            found = agent.load(at + 1, ports=ports)
            agent.turn(at)
            answer[what] = {"error": found.error, "refused": found.refused, "remarks": agent.applier.take_remarks(),
                            "seen": seen()}  # fmt: skip
        agent.enforcement.release()
    return {**answer, "after": seen(), "pins left": pins.ROOT.exists()}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
