# SPDX-License-Identifier: MIT
"""Pages of many clients, by nginx, under a plan that the driver ebpf draws from: each row beside user space's draw.

    page_loads.py CLIENTS     run it apart (tests/support/isolation.py)

JSON on standard output.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from configtron.intake.pageloads.plan_book import DatedPlan, PlanBook, unit
from configtron.model.draw import draw, unit_of
from tests.support.draws import MIXES, Clients, plan, put
from tests.support.one_request import ask
from tests.support.real_servers import running
from tests.support.running_outcomes import EPOCH_S, RunningOutcomes, running_outcomes
from tests.support.tune.drawn import ruled
from tests.support.tune.left import nothing_left

AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"
UNIT_KEY = b"u" * 16


def load(outcomes: RunningOutcomes, port: int, address: str, value_ms: float) -> None:
    """A page and its beacon, which comes to the endpoint from the web server's host."""
    head = ask(port, address, "GET /index.html HTTP/1.1")
    found = re.search(r'ct;desc="(\w+)"', head)
    assert found, head
    join = outcomes.local.reader.join
    token = found[1]
    outcomes.wait(lambda: bool(join._seen.get(token)) or any(line.token == token for _, _, line in list(join._waiting)))
    marks = {"v": 1, "id": token[:16], "t": token, "w": "load", "qs": 1.0, "ps": 2.0, "le": value_ms}
    more = f"User-Agent: {AGENT}\r\nX-Real-IP: {address}"
    ask(outcomes.port, "127.0.0.1", f"POST /configtron/beacon HTTP/1.1\r\n{more}", json.dumps(marks).encode())


def main() -> None:
    count, epoch = int(sys.argv[1]), int(time.time()) // EPOCH_S
    in_force, clients = plan(epoch, 6554), Clients(5)
    wanted = {}
    while len(wanted) < count:
        name, address, _ = clients.next()
        if ":" not in address:
            wanted[len(wanted)] = name, address
    with ruled() as (driver, _), tempfile.TemporaryDirectory(prefix="outcomes-") as name:
        put(driver, in_force)
        folder, plans = Path(name), PlanBook()
        folder.chmod(0o755)
        plans.add(DatedPlan(3, 9, EPOCH_S, in_force, MIXES, UNIT_KEY))
        with running_outcomes(folder / "log", driver, plans=plans, settle_ns=500_000_000) as outcomes:
            with running("nginx", folder, folder / "log", outcomes.port) as port:
                for number, (_, address) in wanted.items():
                    load(outcomes, port, address, 100.0 + number)
                outcomes.wait(lambda: outcomes.counts()["accepted"] == count)
            counts, rows = outcomes.counts(), outcomes.rows
    wrong = Counter[str]()
    for row in rows:
        assert row.plt_ms is not None
        name, address = wanted[round(row.plt_ms) - 100]
        drawn = draw(in_force, MIXES[name], unit_of(address))
        wrong["arm"] += (row.class_name, row.arm, row.held) != (name, drawn.arm, drawn.held)
        wrong["propensity"] += row.propensity != drawn.propensity
        wrong["unit"] += row.unit != unit(UNIT_KEY, socket.inet_aton(address), epoch)
        wrong["not taught"] += not row.teaches
        wrong["no round trip"] += not row.rtt_ms
        wrong["no end"] += row.loss is None
    answer = {"rows": len(rows), "wrong": wrong, "counts": counts, "held": sum(row.held for row in rows)}
    print(json.dumps(answer | {"nothing left": nothing_left()}))


if __name__ == "__main__":
    main()
