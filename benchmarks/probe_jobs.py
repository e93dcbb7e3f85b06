# SPDX-License-Identifier: MIT
"""Claim: two worker processes make more connections a second than one, of the same cost each, with the same readings.

    python -m benchmarks.probe_jobs [COUNT] [--jobs N]      as root; targets of each campaign, 1000 by default

Whole campaigns by command against a town (`benchmarks/town.py`), without a rate limit: one process and N in turn,
`ROUNDS` of each. The server and the road are on the same processors. Printed for each: connections a second, processor
seconds of all its processes for 1000 connections without what a campaign of one target takes, and the connections a
second that two processors would carry if they did nothing else (2 / cost); then the ratio.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.town import Town, command, lit, town

ROUNDS = 3
PROCESSORS = 2
WORDS = ("--profile", "quick", "--tests", "icw,http", "-r", "0", "-o", "/dev/null", "-c", "400")


class Campaign(NamedTuple):
    """Connections, seconds by the clock and of processors, and how often each window was read (bounds left out)."""

    calls: int
    wall_s: float
    cpu_s: float
    windows: Counter[str]


def campaign(standing: Town, count: int, jobs: int) -> Campaign:
    """Probe so many targets."""
    with tempfile.TemporaryDirectory(prefix="jobs-") as name:
        words = command(Path(name), standing, [lit(n) for n in range(count)], *WORDS, "--jobs", str(jobs))
        began = time.monotonic()
        process = subprocess.Popen(words)
        # With the workers, which it has waited for.
        _, _, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began
        connection = sqlite3.connect(Path(name) / "town.db")
        try:
            ((calls,),) = connection.execute("SELECT count(*) FROM trace")
            read = connection.execute("SELECT value FROM observation WHERE knob = 'icw' AND grade = 'C'")
            return Campaign(calls, wall_s, usage.ru_utime + usage.ru_stime, Counter(value for (value,) in read))
        finally:
            connection.close()


def main(count: int, jobs: int) -> int:
    """Print a row for each number of processes; 1 if their readings differ."""
    found: dict[int, list[tuple[float, float]]] = {1: [], jobs: []}
    windows: dict[int, set[str]] = {1: set(), jobs: set()}
    with town() as standing:
        starts = {n: campaign(standing, 1, n).cpu_s for n in found}
        for _ in range(ROUNDS):
            for n in found:
                one = campaign(standing, count, n)
                found[n].append((one.calls / one.wall_s, (one.cpu_s - starts[n]) / one.calls * 1000))
                windows[n] |= set(one.windows)
    print(f"{'processes':>9} {'per second':>11} {'CPU s per 1000':>15} {'two processors':>15} {'start, CPU s':>13}")
    middle = {n: tuple(median(column) for column in zip(*rows, strict=True)) for n, rows in found.items()}
    for n, (per_s, cost) in middle.items():
        print(f"{n:9} {per_s:11.0f} {cost:15.2f} {PROCESSORS * 1000 / cost:15.0f} {starts[n]:13.2f}")
    (per_s, cost), (per_s_together, cost_together) = middle[1], middle[jobs]
    print(f"ratio     {per_s_together / per_s:11.2f} {cost_together / cost:15.2f}")
    return 0 if windows[1] == windows[jobs] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    sys.exit(main(given.count, given.jobs))
