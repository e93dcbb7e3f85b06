# SPDX-License-Identifier: MIT
"""Claim: `probe export --parquet` takes the same memory for any size of run.

    python -m benchmarks.parquet [TARGETS...]

A database is filled with so many targets from two regions over two days, three connections each, and exported in a
process of its own: its largest resident memory, seconds of processor, rows, and bytes beside the database's.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from configtron.db.store import Store
from configtron.model.nouns import Observation, Target
from configtron.model.records import Json, Result, canonical
from configtron.service import campaign

TARGETS = (5_000, 50_000)
REGIONS = {"eu": "Europe", "na": "North America"}
TRIALS = 3
FIRST_NS, DAY_NS = 1_790_000_000 * 10**9, 86_400 * 10**9
BATCH = 5_000


def results(targets: int) -> Iterator[Result]:
    """Results of the usual size; the second half of the targets a day later."""
    for n in range(targets):
        at = FIRST_NS + (n >= targets // 2) * DAY_NS
        for vantage in REGIONS:
            for trial in range(1, TRIALS + 1):
                name = f"h{n:07}.example"
                trace_id = f"{vantage}/{name}/icw.{trial}"
                seen = tuple(
                    Observation(knob, 10 + n % 7, unit="segments", method="flight until a repeat", grade="C",
                                trace_id=trace_id, evidence=(3, 4))
                    for knob in ("icw", "rwin", "data_rto")
                )  # fmt: skip
                target, file = Target(name, "192.0.2.1"), f"here/{vantage}.pcapng"
                yield Result(trace_id, vantage, target, "icw", (("mss", 536),), at + trial, evidence_file=file,
                             first_frame=n, frames=20, observations=seen)  # fmt: skip


def filled(path: Path, targets: int) -> None:
    """Write the database."""
    with Store(path) as store:
        places: list[Json] = [{"name": name, "region": region} for name, region in REGIONS.items()]
        run, batch = store.begin_run(canonical({"host": "bench", "vantages": places})), []
        for result in results(targets):
            batch.append(result)
            if len(batch) == BATCH:
                store.record(run, batch)
                batch = []
        store.record(run, batch)


def exported(path: Path, folder: Path) -> None:
    """Export in this process, and print its costs as JSON."""
    with campaign.open_runs(path) as store:
        done = campaign.export_parquet(store, store.run(1), folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    size = sum(file.stat().st_size for file in done.files)
    print(json.dumps([used.ru_maxrss // 1024, used.ru_utime + used.ru_stime, done.readings + done.verdicts, size]))


def main(arguments: list[str]) -> None:
    """Print a line for each size."""
    if arguments[:1] == ["--in-child"]:
        exported(Path(arguments[1]), Path(arguments[2]))
        return
    for targets in map(int, arguments) if arguments else TARGETS:
        with tempfile.TemporaryDirectory(prefix="parquet-") as name:
            path = Path(name) / "bench.db"
            filled(path, targets)
            words = [sys.executable, "-m", "benchmarks.parquet", "--in-child", str(path), str(Path(name) / "out")]
            memory_mb, cpu_s, rows, size = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
            print(f"{targets:>8} targets: {rows:>9} rows, {memory_mb:>4} MB memory, {cpu_s:6.1f} s of processor,"
                  f" {size / 1e6:7.1f} MB of Parquet, {path.stat().st_size / 1e6:8.1f} MB of database")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
