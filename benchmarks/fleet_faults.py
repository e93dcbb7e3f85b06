# SPDX-License-Identifier: MIT
"""A fleet under faults: 500 seeds of the whole-system simulation, and what was planted in them.

    python -m benchmarks.fleet_faults [--seeds 500] [--first 0]

Each seed is a manager, three agents (two with kernels that draw), visitors (a tenth lies), a faulty network, kills,
reboots, clock jumps, full disks, revoked keys, forged and replayed documents, frames and beacons, a second manager with
another key of the draw (`rigs/fleet_world.py`); every tenth runs twice and must replay bit for bit. One seed again:

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
from pathlib import Path

from rigs.fleet_world import FAULTS_S, QUIET_S, World

# Databases are written and thrown away: memory is enough.
MEMORY = Path("/dev/shm")


def world_of(seed: int) -> World:
    """Run one seed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = World(seed, Path(folder))
        world.run()
        return world


def main() -> int:
    """Run the seeds and print one line a broken rule, then the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--twice", type=int, default=10, help="of every so many seeds, one is replayed and compared")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    planted: Counter[str] = Counter()
    broken = replayed = rows = maps = visits = 0
    judged: Counter[str] = Counter()
    began = time.process_time()
    for seed in range(options.first, options.first + options.seeds):
        world = world_of(seed)
        planted.update(world.counts)
        rows += sum(len(host.taken) for host in world.hosts.values())
        maps += len(world.maps)
        visits += len(world.visitors.visits)
        judged.update(world.judge.pages.counts)
        if seed % options.twice == 0:
            replayed += 1
            if world_of(seed).digest != world.digest:
                world.wrong.append(f"seed {seed}: does not replay")
        broken += bool(world.wrong)
        for line in world.wrong[:3]:
            print(line, flush=True)
    seconds = time.process_time() - began
    print(f"{options.seeds} seeds of {FAULTS_S + QUIET_S:g} s, {broken} with a broken rule; {replayed} replayed bit for"
          f" bit; {rows} outcomes, {maps} maps; {seconds:.0f} s of a processor")  # fmt: skip
    print(f"{visits} page loads, {judged['clear']} of them undisturbed, none of which may be missing;"
          f" {judged['rows checked']} rows compared with what the judge draws")  # fmt: skip
    print(", ".join(f"{name} {count}" for name, count in planted.most_common()))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
