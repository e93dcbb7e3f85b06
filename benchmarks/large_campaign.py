# SPDX-License-Identifier: MIT
"""Claim: a campaign of 100 000 targets, two of whose processes are killed, stores each result once, within its rate.

    python -m benchmarks.large_campaign [TARGETS] [--jobs N] [--kills N] [--rate R] [--seed S]      as root

Worker processes probe a town (`benchmarks/town.py`), with two connections for each target. The seed draws after how
many finished targets a worker is killed (SIGKILL), and which one. The other workers go on; then the run is resumed.
Printed: connections a second (with the time of kills and restarts), missing results, results that are stored twice (in
the database or the journal's packets), connections that reached the server and have no result (they were open at a
kill, so they were made again), SYNs that arrive in the fullest second, the largest memory of the parent and of a
worker, the database's integrity, and namespaces and firewall tables that are left behind.
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
from tests.support.syn_arrivals import fullest_second, syn_arrivals

TARGETS, JOBS, KILLS, RATE_PER_S = 100_000, 2, 2, 1000
# Targets of a campaign without kills, which shows which probe calls each target gets.
SAMPLE_TARGETS = 40
# The shares of finished targets between which kills are drawn: work has begun, and enough is left.
FIRST_KILL_SHARE, LAST_KILL_SHARE = 0.05, 0.85
POLL_S = 0.05
PROBE_OPTIONS = ("--profile", "quick", "--tests", "icw_tls", "-o", "/dev/null", "-c", "400")
# The server's addresses begin with this.
SERVER_PREFIX = "10."


class CampaignCost(NamedTuple):
    """The cost of a campaign: seconds, kills, starts of the command, largest resident sets (MB)."""

    wall_s: float
    kills: int
    starts: int
    parent_mb: int
    worker_mb: int


def _peak_mb(pid: int) -> int:
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) >> 10 if found else 0
    return 0


def draw_kill_points(rng: random.Random, kills: int, targets: int) -> list[int]:
    """Return after how many finished targets each kill comes, sorted."""
    return sorted(int(targets * rng.uniform(FIRST_KILL_SHARE, LAST_KILL_SHARE)) for _ in range(kills))


def run_with_kills(first_command: list[str], folder: Path, rng: random.Random, kills: Sequence[int]) -> CampaignCost:
    """Run a campaign, kill a worker after each of these numbers of finished targets, and resume until all are done."""
    due, peak_mb, starts, began, words = list(kills), (0, 0), 0, time.monotonic(), first_command
    while True:
        running = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        starts += 1
        try:
            while running.poll() is None:
                time.sleep(POLL_S)
                workers_mb = max(map(_peak_mb, children(running.pid)), default=0)
                peak_mb = max(peak_mb[0], _peak_mb(running.pid)), max(peak_mb[1], workers_mb)
                if due and _finished_targets(folder) >= due[0] and (workers := children(running.pid)):
                    os.kill(rng.choice(workers), signal.SIGKILL)
                    due.pop(0)
        finally:
            running.kill()
            running.wait()
        if running.returncode in (DONE, PARTIAL):
            took_s = time.monotonic() - began
            return CampaignCost(took_s, len(kills) - len(due), starts, *peak_mb)
        assert running.returncode == INTERRUPTED, running.returncode
        words = resumed(first_command)


def _finished_targets(folder: Path) -> int:
    """Return how many targets are finished."""
    return sum(ended(shard) for shard in folder.glob("town.db.runs/1/*") if shard.is_dir())


def expected_calls(sample: Counter[str], vantage: str, addresses: Sequence[str]) -> Counter[str]:
    """Return all calls that these targets get if each gets the calls of the sample's targets."""
    names = {call.rpartition("/")[2] for call in sample}
    return Counter(f"{vantage}/{address}/{name}" for address in addresses for name in names)


def main(targets: int, jobs: int, kills: int, rate: int, seed: int) -> int:
    """Print the figures. Return 1 if a result is missing or stored twice, the rate was exceeded or anything is left."""
    rng = random.Random(seed)
    with town() as plain_town, tempfile.TemporaryDirectory(prefix="large-") as name:
        probed_town, before = with_own_address(plain_town), {path.name for path in Path("/run/netns").iterdir()}
        vantage, addresses = probed_town.vantages[0].name, [f"{one_of_many(n)}:443" for n in range(targets)]
        sample = expected_calls(_sample_calls(probed_town), vantage, addresses)
        folder = Path(name)
        first_command = command(folder, probed_town, addresses, *PROBE_OPTIONS, "-r", str(rate), "--jobs", str(jobs))
        with syn_arrivals(probed_town.netns, SERVER_PREFIX) as arrivals:
            cost = run_with_kills(first_command, folder, rng, draw_kill_points(rng, kills, targets))
        found, connected = calls_of(folder), len({arrival[1:] for arrival in arrivals})
        ((calls,),) = asked(folder / "town.db", "SELECT count(*) FROM trace WHERE frames > 0")
        ((integrity,),) = asked(folder / "town.db", "PRAGMA integrity_check")
        wrong, left = wrong_calls(found, sample), left_behind(probed_town, before)
        fullest = fullest_second([arrival.at for arrival in arrivals])
    assert isinstance(calls, int)
    doubled = sum(times > 1 for times in found.values())
    rows = {
        "targets": targets,
        "connections": f"{calls} in {cost.wall_s:.0f} s, {calls / cost.wall_s:.0f} a second",
        "processes killed": f"{cost.kills}, of {jobs} workers; the command was started {cost.starts} times",
        "results missing": len(set(sample) - set(found)),
        "results doubled": doubled,
        "other faults": len(wrong) - len(set(sample) - set(found)) - doubled,
        "connections asked again": connected - calls,
        "SYNs in the fullest second": f"{fullest} of {rate * 1.01:.0f}",
        "memory, parent and worker": f"{cost.parent_mb} and {cost.worker_mb} MB at most",
        "database": integrity,
        "left behind": left or "nothing",
    }
    for row, figure in rows.items():
        print(f"{row:27} {figure}", flush=True)
    return 1 if wrong or left or cost.kills < kills or not 0 < fullest <= rate * 1.01 else 0


def _sample_calls(probed_town: Town) -> Counter[str]:
    """Return the calls of a small campaign without a kill."""
    with tempfile.TemporaryDirectory(prefix="large-") as name:
        addresses = [f"{one_of_many(n)}:443" for n in range(SAMPLE_TARGETS)]
        subprocess.run(command(Path(name), probed_town, addresses, *PROBE_OPTIONS, "-r", "0"), check=True)
        return calls_of(Path(name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="?", type=int, default=TARGETS)
    for option, default in (("--jobs", JOBS), ("--kills", KILLS), ("--rate", RATE_PER_S), ("--seed", 1)):
        parser.add_argument(option, type=int, default=default)
    given = parser.parse_args()
    sys.exit(main(given.targets, given.jobs, given.kills, given.rate, given.seed))
