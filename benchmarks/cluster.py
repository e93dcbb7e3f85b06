# SPDX-License-Identifier: MIT
"""Claim: a cluster of five regions finds what one process finds, though a region is killed and comes back.

    python -m benchmarks.cluster [TARGETS [RATE]]      as root; 300 targets from each region at 400 starts a second

A Dask scheduler beside nginx, and a worker in each of five network namespaces (`cluster_regions.py`). When a third
of the calls is stored, the first region's worker is killed (SIGKILL); it is started again on its disk when another
third is. Then one process probes the same from the same namespaces. Printed: seconds and connections a second of both,
verdicts that differ (times and proofs by times left out), SYNs beyond the stored calls, and the fullest second.
"""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.support.children import child
from tests.support.cluster_regions import LIT, Regions, cluster_regions, lit
from tests.support.syn_arrivals import fullest_second, syn_arrivals

NAMES = ("eu", "na", "sa", "as", "oc")
TARGETS, RATE = 300, 400
CALLS = 4
LOOK_S = 1.0
TESTS = ("--profile", "quick", "--tests", "icw,http", "--per-host-rate", "0", "--per-network-rate", "0", "--allow", LIT)


def stored(db: Path) -> int:
    """Return how many calls the database has."""
    try:
        with sqlite3.connect(f"{db.as_uri()}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM trace WHERE frames > 0").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def wait_until(true: Callable[[], bool]) -> None:
    """Return when it is true."""
    while not true():
        time.sleep(LOOK_S)


def verdicts(path: Path) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Verdicts of a CSV by target, vantage and parameter; without times, and bounds, whose proofs hang on times."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["unit"] not in ("s", "segments")]
    return {(row["host"], row["vantage"], row["knob"]): (row["value"], row["reason"]) for row in rows}


def by_cluster(regions: Regions, folder: Path, targets: int, rate: int) -> str:
    """Run the campaign by the cluster, kill a region and bring it back; return its line."""
    db = folder / "cluster.db"
    (folder / "vantages.toml").write_text("".join(f'[[vantage]]\nname = "{name}"\n' for name in NAMES))
    words = ("-i", str(folder / "targets.txt"), "--vantages", str(folder / "vantages.toml"), "-r", str(rate))
    command = regions.probe(db, *words, "--cluster", regions.scheduler, "--shard-targets", "50", *TESTS, "-f", "csv",
                            "-o", str(folder / "cluster.csv"))  # fmt: skip
    third = targets * len(NAMES) * CALLS // 3
    with ExitStack() as stack, syn_arrivals(regions.hub, "198.19.") as arrivals:
        workers = [stack.enter_context(regions.worker(region)) for region in regions.all]
        logs = [folder / f"worker-{name}.log" for name in NAMES]
        wait_until(lambda: all(log.exists() and "Registered to" in log.read_text() for log in logs))
        began = time.monotonic()
        running = stack.enter_context(child(command, env=regions.environment(), cwd=folder))
        wait_until(lambda: stored(db) > third)
        workers[0].kill()
        wait_until(lambda: stored(db) > 2 * third)
        stack.enter_context(regions.worker(regions.all[0]))
        code, took_s = running.wait(), time.monotonic() - began
    flows, calls = len({arrival[1:] for arrival in arrivals}), stored(db)
    fullest = fullest_second([arrival.at for arrival in arrivals])
    return (f"cluster      exit {code}, {calls} connections in {took_s:.0f} s ({calls / took_s:.0f} a second),"
            f" {flows - calls} asked again, {fullest} SYNs in the fullest second of {rate}")  # fmt: skip


def by_one_process(regions: Regions, folder: Path, rate: int) -> str:
    """Run the campaign by one process; return its line."""
    db = folder / "one.db"
    places = [f'[[vantage]]\nname = "{one.name}"\nnetns = "{one.netns}"\n' for one in regions.all]
    (folder / "one.toml").write_text("".join(places))
    words = ["-i", str(folder / "targets.txt"), "--vantages", str(folder / "one.toml"), "-r", str(rate), *TESTS]
    began = time.monotonic()
    command = [sys.executable, "-m", "configtron", "--db", str(db), "-q", "probe", "run", *words]
    code = subprocess.run([*command, "-f", "csv", "-o", str(folder / "one.csv")], check=False).returncode
    took_s, calls = time.monotonic() - began, stored(db)
    return f"one process  exit {code}, {calls} connections in {took_s:.0f} s ({calls / took_s:.0f} a second)"


def main(arguments: list[str]) -> None:
    """Print both, and how many verdicts differ."""
    targets, rate = (*map(int, arguments), *(TARGETS, RATE)[len(arguments) :])
    with tempfile.TemporaryDirectory(prefix="cluster-") as name, cluster_regions(NAMES, Path(name)) as regions:
        folder = Path(name)
        (folder / "targets.txt").write_text("".join(f"{lit(number)}\n" for number in range(targets)))
        print(by_cluster(regions, folder, targets, rate), flush=True)
        print(by_one_process(regions, folder, rate), flush=True)
        found, expected = verdicts(folder / "cluster.csv"), verdicts(folder / "one.csv")
        differ = sum(1 for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
        print(f"verdicts     {len(expected)} compared, {differ} differ")


if __name__ == "__main__":
    main(sys.argv[1:])
