# SPDX-License-Identifier: MIT
"""A fleet under faults: 500 seeds of the whole-system simulation, and what was planted in them.

    python -m benchmarks.fleet_faults [--seeds 500] [--first 0] [--write]

--write: put how long each kind was felt into `benchmarks/fault_rows/simulation.jsonl`, for `benchmarks.fault_table`.

Each seed is a manager, three agents (two with kernels that draw), visitors (a tenth lies), a faulty network, kills,
reboots, clock jumps, full disks, revoked keys, forged and replayed documents, frames and beacons, a second manager with
another key of the draw (`support/fleet_world.py`); every tenth runs twice and must replay bit for bit. One seed again:

    python -m benchmarks.fleet_faults --seeds 1 --first SEED --twice 1

Exit code 1: a rule was broken; the lines name seed, time and rule.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.fault_table import ROWS, Row, written
from tests.support.fleet_world import FAULTS_S, QUIET_S, World

# Databases are written and thrown away: memory is enough.
MEMORY = Path("/dev/shm")
# Kind -> how it ends, and the words of the log that name it.
RIGHT = "the agent runs, holds a map, and its kernel has that map's rules for its clock's epoch; no row lost or doubled"
ANEW = "the agent was started anew; map 3.7, kept by its former start, is in force again"
TEXTS = {
    "agent killed": (RIGHT, ANEW),
    "reboot": (RIGHT, ANEW),
    "killed between writes": (RIGHT, ANEW),
    "manager killed": ("it runs, under a later term, and all agents within reach obey it", ""),
    "old manager started": ("it stops", "agent a1 obeys the manager m (term 2), which came later; this one stops"),
    "partition": (f"{RIGHT}; the manager has its outcomes", "the manager has not been heard for 10 s: map 3.7 goes on"),
    "agent's clock jumps": (RIGHT, "this host's wall clock was stepped by +30 s: epochs follow it"),
    "manager's clock jumps": (
        "agents obey it; maps are made and renewed",
        "this host's wall clock was stepped by +30 s",
    ),
    "agent's journal full": (
        RIGHT,
        "map 3.7 is in force, but not kept for the next start yet: no space left",
    ),
    "module of another version": (RIGHT, "map 3.7 is refused, Default stays: the module speaks version 2"),
    "lease watchdog killed": (RIGHT, ""),
    "external change": ("the place is frozen", "another program changed what is in force; no map is applied until"),
    "revoked": ("no frame by that key is heard", "a frame by the key ... is dropped: revoked, or never enrolled"),
    "forged document": (RIGHT, "a document is refused, map 3.7 stays: its signature is not the manager's"),
    "forged map": (RIGHT, "a document is refused, map 3.7 stays: its signature is not the manager's"),
    "map replayed": (RIGHT, ""),
}


def world_of(seed: int) -> World:
    """Run one seed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = World(seed, Path(folder))
        world.run()
        return world


def rows(seconds: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return a row of `fault_table` for each kind."""
    found = []
    for kind, (end, line) in TEXTS.items():
        if some := seconds.get(kind):
            recovery = f"{min(some):.1f}, {median(some):.1f}, {max(some):.1f} of {len(some)}"
            found.append(Row(kind, "simulation", end, line, recovery))
    return found


def main() -> int:
    """Run the seeds and print one line a broken rule, then the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--twice", type=int, default=10, help="of every so many seeds, one is replayed and compared")
    parser.add_argument("--write", action="store_true", help="keep recovery times for the table of faults")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    planted: Counter[str] = Counter()
    seconds: dict[str, list[float]] = {}
    broken = replayed = outcomes = maps = visits = 0
    judged: Counter[str] = Counter()
    began = time.process_time()
    for seed in range(options.first, options.first + options.seeds):
        world = world_of(seed)
        planted.update(world.counts)
        outcomes += sum(len(host.taken) for host in world.hosts.values())
        maps += len(world.maps)
        visits += len(world.visitors.visits)
        judged.update(world.judge.pages.counts)
        for kind, some in world.recovery.seconds.items():
            seconds.setdefault(kind, []).extend(some)
        if seed % options.twice == 0:
            replayed += 1
            if world_of(seed).digest != world.digest:
                world.wrong.append(f"seed {seed}: does not replay")
        broken += bool(world.wrong)
        for line in world.wrong[:3]:
            print(line, flush=True)
    used_s = time.process_time() - began
    print(f"{options.seeds} seeds of {FAULTS_S + QUIET_S:g} s, {broken} with a broken rule; {replayed} replayed bit for"
          f" bit; {outcomes} outcomes, {maps} maps; {used_s:.0f} s of a processor")  # fmt: skip
    print(f"{visits} page loads, {judged['clear']} of them undisturbed, none of which may be missing;"
          f" {judged['rows checked']} rows compared with what the judge draws")  # fmt: skip
    print(", ".join(f"{name} {count}" for name, count in planted.most_common()))
    print("virtual s until the end state, least, median and most:")
    print("\n".join(f"  {row.fault}: {row.recovery}" for row in rows(seconds)))
    if options.write:
        (ROWS / "simulation.jsonl").write_text(written(rows(seconds)))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
