# SPDX-License-Identifier: MIT
"""Claim: a campaign of 100 000 targets, two of whose processes are killed, stores each result once, within its rate.

    python -m benchmarks.large_campaign [TARGETS] [--jobs N] [--kills N] [--rate R] [--seed S]      as root

Worker processes probe a town (`benchmarks/town.py`), two connections a target. Whenever so many targets as the seed
draws have ended, a worker that the seed draws is killed (SIGKILL); what the other workers leave is resumed. Printed:
connections a second (kills and resumed starts included), results missing and results stored twice (database, journal's
packets), connections that reached the server without a result (in flight at a kill, so asked again), SYNs in the
fullest second where they arrive, peaks of memory of the parent and of the largest worker, the database's integrity,
and what is left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.kills import asked, calls_of, children, left_behind, resumed, with_own_address, wrong_calls
from benchmarks.town import Town, command, one_of_many, town
from configtron.model.errors import DONE, INTERRUPTED, PARTIAL
from configtron.probe.wire.journal import ended
from rigs.syn_arrivals import fullest_second, syn_arrivals

TARGETS, JOBS, KILLS, RATE = 100_000, 2, 2, 1000
# So many targets show, without a kill, which calls each one gets.
SAMPLE = 40
# Kills fall while this part of the targets is done: work is under way, and some is left.
FROM, TO = 0.05, 0.85
LOOK_S = 0.05
WORDS = ("--profile", "quick", "--tests", "icw_tls", "-o", "/dev/null", "-c", "400")
# What the server's addresses begin with.
PREFIX = "10."


class Campaign(NamedTuple):
    """What a campaign took: seconds, kills, starts of the command, peaks of memory (MB)."""

    wall_s: float
    kills: int
    starts: int
    parent_mb: int
    worker_mb: int


class Peaks:
    """The largest resident sets seen, MB: of the command, and of any of its workers."""

    def __init__(self) -> None:
        self.parent_mb = self.worker_mb = 0

    def look(self, pid: int) -> None:
        """Look at a command and its workers."""
        self.parent_mb = max(self.parent_mb, _peak_mb(pid))
        self.worker_mb = max([self.worker_mb, *(_peak_mb(worker) for worker in children(pid))])


def _peak_mb(pid: int) -> int:
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) >> 10 if found else 0
    return 0


def moments(rng: random.Random, kills: int, targets: int) -> list[int]:
    """How many targets have ended when each kill falls."""
    return sorted(int(targets * rng.uniform(FROM, TO)) for _ in range(kills))


def campaign(begin: list[str], folder: Path, rng: random.Random, kills: Sequence[int]) -> Campaign:
    """Begin one, kill its workers when so many targets have ended, resume it until it is through."""
    due, peaks, starts, began, words = list(kills), Peaks(), 0, time.monotonic(), begin
    while True:
        running = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        starts += 1
        try:
            while running.poll() is None:
                time.sleep(LOOK_S)
                peaks.look(running.pid)
                if due and _done(folder) >= due[0] and (workers := children(running.pid)):
                    os.kill(rng.choice(workers), signal.SIGKILL)
                    due.pop(0)
        finally:
            running.kill()
            running.wait()
        if running.returncode in (DONE, PARTIAL):
            took_s = time.monotonic() - began
            return Campaign(took_s, len(kills) - len(due), starts, peaks.parent_mb, peaks.worker_mb)
        assert running.returncode == INTERRUPTED, running.returncode
        words = resumed(begin)


def _done(folder: Path) -> int:
    """Return how many targets have ended."""
    return sum(ended(shard) for shard in folder.glob("town.db.runs/1/*") if shard.is_dir())


def expected(sample: Counter[str], vantage: str, addresses: Sequence[str]) -> Counter[str]:
    """Every call that the targets get, if each gets those of the sample's."""
    names = {call.rpartition("/")[2] for call in sample}
    return Counter(f"{vantage}/{address}/{name}" for address in addresses for name in names)


def main(targets: int, jobs: int, kills: int, rate: int, seed: int) -> int:
    """Print what came of it; 1 if a result is missing or doubled, the rate was exceeded or anything is left behind."""
    rng = random.Random(seed)
    with town() as whole, tempfile.TemporaryDirectory(prefix="large-") as name:
        standing, before = with_own_address(whole), {path.name for path in Path("/run/netns").iterdir()}
        vantage, addresses = standing.vantages[0].name, [f"{one_of_many(n)}:443" for n in range(targets)]
        sample = expected(_sampled(standing), vantage, addresses)
        folder = Path(name)
        begin = command(folder, standing, addresses, *WORDS, "-r", str(rate), "--jobs", str(jobs))
        with syn_arrivals(standing.netns, PREFIX) as arrivals:
            took = campaign(begin, folder, rng, moments(rng, kills, targets))
        found, connected = calls_of(folder), len({arrival[1:] for arrival in arrivals})
        ((calls,),) = asked(folder / "town.db", "SELECT count(*) FROM trace WHERE frames > 0")
        ((integrity,),) = asked(folder / "town.db", "PRAGMA integrity_check")
        wrong, left = wrong_calls(found, sample), left_behind(standing, before)
        fullest = fullest_second([arrival.at for arrival in arrivals])
    assert isinstance(calls, int)
    doubled = sum(times > 1 for times in found.values())
    rows = {
        "targets": targets,
        "connections": f"{calls} in {took.wall_s:.0f} s, {calls / took.wall_s:.0f} a second",
        "processes killed": f"{took.kills}, of {jobs} workers; the command was started {took.starts} times",
        "results missing": len(set(sample) - set(found)),
        "results doubled": doubled,
        "other faults": len(wrong) - len(set(sample) - set(found)) - doubled,
        "connections asked again": connected - calls,
        "SYNs in the fullest second": f"{fullest} of {rate * 1.01:.0f}",
        "memory, parent and worker": f"{took.parent_mb} and {took.worker_mb} MB at most",
        "database": integrity,
        "left behind": left or "nothing",
    }
    for row, figure in rows.items():
        print(f"{row:27} {figure}", flush=True)
    return 1 if wrong or left or took.kills < kills or not 0 < fullest <= rate * 1.01 else 0


def _sampled(standing: Town) -> Counter[str]:
    """The calls of a small campaign without a kill."""
    with tempfile.TemporaryDirectory(prefix="large-") as name:
        words = command(Path(name), standing, [f"{one_of_many(n)}:443" for n in range(SAMPLE)], *WORDS, "-r", "0")
        subprocess.run(words, check=True)
        return calls_of(Path(name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="?", type=int, default=TARGETS)
    for option, default in (("--jobs", JOBS), ("--kills", KILLS), ("--rate", RATE), ("--seed", 1)):
        parser.add_argument(option, type=int, default=default)
    given = parser.parse_args()
    sys.exit(main(given.targets, given.jobs, given.kills, given.rate, given.seed))
