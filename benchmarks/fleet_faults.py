# SPDX-License-Identifier: MIT
"""A fleet under faults: seeds of the whole-system simulation, and what was planted in them.

    python -m benchmarks.fleet_faults [--seeds 500] [--first 0]
    python -m benchmarks.fleet_faults killing [--seeds 10] [--first 0]

Each seed is a manager, three agents (two with kernels that draw), visitors (a tenth lies), a faulty network, kills,
reboots, clock jumps, full disks, revoked keys, forged and replayed documents, frames and beacons, a second manager with
another key of the draw (`support/fleet_world.py`); every tenth runs twice and must replay bit for bit. One seed again:

    python -m benchmarks.fleet_faults --seeds 1 --first SEED --twice 1

killing: a profile that kills three loads of ten and makes the others faster. Each seed runs the whole fleet twice
(`support/fleet_killing.py`), of some minutes of virtual time: once browsers report loads that failed (Network Error
Logging), once none does. The second is not a rule: it is what silence gets, and shows what the reports are for.

Exit code 1: a rule was broken (the lines name seed, time and rule), or with reports the profile was not taken back by
its failures.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from tests.support.fleet_killing import FASTER, KILLED, REPORTING, KillingFound, KillingWorld
from tests.support.fleet_world import FAULTS_S, QUIET_S, World

# Databases are written and thrown away: memory is enough.
MEMORY = Path("/dev/shm")


def world_of(seed: int) -> World:
    """Run one seed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = World(seed, Path(folder))
        world.run()
        return world


def faults(options: argparse.Namespace) -> int:
    """Run the seeds and print one line a broken rule, then the totals."""
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
    for kind, some in seconds.items():
        print(f"  {kind}: {min(some):.1f}, {median(some):.1f}, {max(some):.1f} of {len(some)}")
    return 1 if broken else 0


def killing_world(seed: int, reports: bool) -> KillingWorld:
    """Run one seed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = KillingWorld(seed, Path(folder), reports)
        world.run()
        return world


def killing(options: argparse.Namespace) -> int:
    """Run the seeds and print one line a run, then both sums."""
    print(f"{KILLED:.0%} of the profile's connections break, the other loads take {FASTER:.0%} of their time;"
          f" {REPORTING:.0%} of browsers report")  # fmt: skip
    runs: dict[bool, list[KillingFound]] = {True: [], False: []}
    wrong = 0
    for seed in range(options.first, options.first + options.seeds):
        for reports, found in runs.items():
            world = killing_world(seed, reports)
            assert world.found is not None
            found.append(world.found)
            wrong += bool(world.wrong)
            for line in world.wrong[:3]:
                print(line)
            print(f"seed {seed}, {'with' if reports else 'without'} reports: {_text(world.found)}", flush=True)
    back = [one for one in runs[True] if (one.stage, one.why, one.goal) == ("returned", "alarm", "failures")]
    for reports, found in runs.items():
        back_again = sum(one.stage == "returned" for one in found)
        print(f"{'with' if reports else 'without'} reports: {back_again} of {len(found)} taken back,"
              f" {sum(one.stage == 'all' for one in found)} for all clients; loads broken, median"
              f" {median(one.broken for one in found):.0f}")  # fmt: skip
    return 1 if wrong or len(back) < len(runs[True]) else 0


def _text(found: KillingFound) -> str:
    goal = f" ({found.goal})" if found.goal else ""
    return (f"{found.stage} by {found.why}{goal} {found.at_s - found.begun_s:.0f} s after its first connection;"
            f" {found.broken} loads broken, {found.reported} reported, {found.failures} failures stored, {found.taught}"
            f" of them teach; loads that finished took {found.faster:.2f} of held-back clients'")  # fmt: skip


def main() -> int:
    """Run the simulation that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=("faults", "killing"), default="faults")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--twice", type=int, default=10, help="of every so many seeds, one is replayed and compared")
    options = parser.parse_args()
    options.seeds = options.seeds or (500 if options.kind == "faults" else 10)
    logging.disable(logging.CRITICAL)
    return faults(options) if options.kind == "faults" else killing(options)


if __name__ == "__main__":
    sys.exit(main())
