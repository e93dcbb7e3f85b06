# SPDX-License-Identifier: MIT
"""How fast the store takes results in and gives them back: 40 000 traces with four readings each, 200 000 rows.

Claim: a campaign never waits for the database. One thread of probing ends some hundred connections a second.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from configtron.db.store import Store
from configtron.model.nouns import Observation, Target
from configtron.model.records import Result

TRACES, READINGS = 40_000, 4
BATCHES = (1000, 50, 1)


def results() -> list[Result]:
    """Results of the usual size."""
    reading = Observation("icw", 10, unit="segments", method="flight until a repeat", grade="C", evidence=(3, 4))
    return [
        Result(f"na/h{n}.example/icw.1", "na", Target(f"h{n}.example", "192.0.2.1"), "icw", (("mss", 536),), n,
               evidence_file="na.pcapng", first_frame=n, frames=20, observations=(reading,) * READINGS)
        for n in range(TRACES)
    ]  # fmt: skip


def main() -> None:
    made = results()
    rows = TRACES * (1 + READINGS)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "bench.db") as store:
        for batch in BATCHES:
            run = store.begin_run("{}")
            began = time.perf_counter()
            for n in range(0, TRACES, batch):
                store.record(run, made[n : n + batch])
            took = time.perf_counter() - began
            print(f"{batch:5} results a transaction: {rows} rows in {took:.2f} s, {rows / took:.0f} rows/s")
        began = time.perf_counter()
        count = sum(1 for _ in store.results(run))
        print(f"read back: {count} results in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
