# SPDX-License-Identifier: MIT
"""How fast beacons become rows: from bytes of records, log lines and beacons to rows, and on to the manager's SQLite.

Claim: an agent's join takes 100 000 beacons a second, and beacons reach the database at 50 000 a second. Each page load
has a connection of its own, a line and a beacon. Processor time, one thread; beside it the time of one list item in the
same moment (25 ns on an idle core of 2024), because machines that share a core are slower.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path

from configtron.db.fleet import FleetStore
from configtron.intake.pageloads.beacon_formats import PageLoad, page_load
from configtron.intake.pageloads.beacon_join import SETTLE_NS, BeaconJoin
from configtron.intake.pageloads.influence_caps import Caps, InfluenceCaps
from configtron.intake.pageloads.plan_book import DrawnArm
from configtron.intake.pageloads.request_join import RequestJoin
from configtron.model.close_records import OpenRecord
from configtron.model.fleet import OutcomeRow
from configtron.model.nouns import Profile

LOADS, BATCH = 50_000, 1_000
START_NS, MS, STEP_NS = 1_700_000_000_000_000_000, 1_000_000, 10_000
# One in each so many ports of a prefix at a time.
PORTS = 60_000


def describe(record: OpenRecord, client: bytes) -> DrawnArm:
    """Stand for the plan: all clients have one arm, and each is a unit."""
    return DrawnArm(record.prefix, f"{record.remote_port:016x}", 1, 1, 5, "slow", 1, "wide", 0.25)


def prefix(number: int) -> str:
    return f"198.51.{number // PORTS}.0/24"


def record(number: int) -> OpenRecord:
    return OpenRecord(
        prefix(number), 443, 1_024 + number % PORTS, START_NS + number * STEP_NS, None, "slow", 1, False, "wide", 1, 5,
        None, 30_000, False,
    )  # fmt: skip


def line(number: int) -> bytes:
    end_s = (START_NS + number * STEP_NS + 60 * MS) / 1e9
    ends = f"192.0.2.1 443 198.51.{number // PORTS}.9 {1_024 + number % PORTS}"
    return f"ctn {number:032x} {ends} {end_s:.3f} 0.010 1 {number} 30000 www.example.org".encode()


def beacon(number: int) -> bytes:
    marks = {"cs": 5, "ce": 35.5, "qs": 36, "ps": 70.25, "le": 400.5, "lcp": 300, "as": 0, "hh": None}
    more = {"w": "load", "nt": "navigate", "dw": 0, "pc": 0, "np": "h2"}
    return json.dumps({"v": 1, "id": f"{number:016x}", "t": f"{number:032x}", **marks, **more}).encode()


def timed(what: str, run: Callable[[], None]) -> float:
    """Run, print and return the processor seconds."""
    gc.collect()
    gc.freeze()
    began = time.process_time()
    run()
    took = time.process_time() - began
    print(f"{what:34}{took / LOADS * 1e6:8.2f} us{LOADS / took:12,.0f} a second")
    return took


def main() -> None:
    item_ns = timeit.timeit("[i for i in range(1000)]", number=5_000) / 5e6 * 1e9
    print(f"one list item: {item_ns:.0f} ns")
    records = [record(number) for number in range(LOADS)]
    lines, bodies = [line(number) for number in range(LOADS)], [beacon(number) for number in range(LOADS)]
    requests, agent = RequestJoin(describe), BeaconJoin("web1", "b", InfluenceCaps(Caps(LOADS, LOADS), LOADS))
    loads: list[PageLoad] = []
    rows: list[OutcomeRow] = []

    def take_lines() -> None:
        for number, data in enumerate(lines):
            at_ns = START_NS + number * STEP_NS + 60 * MS
            requests.datagram(data, at_ns, at_ns)
            if number % BATCH == BATCH - 1:
                agent.requests(requests.advance(at_ns, at_ns))

    def join() -> None:
        for number, load in enumerate(loads):
            at_ns = START_NS + number * STEP_NS + 500 * MS
            agent.beacon(load, at_ns, "phone")
            if number % BATCH == BATCH - 1:
                rows.extend(agent.advance(at_ns, at_ns))
        rows.extend(agent.advance(at_ns + SETTLE_NS, at_ns))

    def take_records() -> None:
        for one in records:
            requests.record(one)

    def parse() -> None:
        loads.extend(load for one in bodies if isinstance(load := page_load(one), PageLoad))

    timed("records", take_records)
    timed("lines to joined requests", take_lines)
    parsing = timed("beacons parsed", parse)
    joining = timed("beacons joined to rows", join)
    assert len(rows) == LOADS and all(row.teaches for row in rows)
    with tempfile.TemporaryDirectory() as folder, FleetStore(Path(folder) / "fleet.db") as store:
        # A map that the manager published: then the rows are in the learner's table too.
        store.put_map(1, 1, "made", {"wide": Profile("wide", (("initcwnd", 20),))}, 1, b"")

        def keep() -> None:
            for first in range(0, LOADS, BATCH):
                store.add_rows("web1", "b", first + 1, rows[first : first + BATCH], START_NS)

        storing = timed("rows stored", keep)
    took = parsing + joining + storing
    print(f"{'beacons to SQLite':34}{took / LOADS * 1e6:8.2f} us{LOADS / took:12,.0f} a second")


if __name__ == "__main__":
    main()
