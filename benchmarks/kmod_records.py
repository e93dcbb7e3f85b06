# SPDX-License-Identifier: MIT
"""What the module's records cost a connection, without a reader and with some, and what of it is under a lock.

Question   Is the one lock for all readers' rings a limit, so that each processor should have rings of its own?
Method     A module of its own (kmod/configtron_bench_records.c) fills records of a socket by the module's own code and
           pushes them to readers' rings, which are emptied in between; the least of two hundred pieces of 256 is
           reported, which no neighbour has slowed down. A connection has two records: filled beside other processors,
           pushed under the lock. So the lock holds at most 1 / (2 pushes) connections a second, of all processors.
           The kernel is the lab's in real time, which has one processor: the lock itself is free there, and its
           cache line never travels; the bound is one from above.
Stop when  every number of readers was measured.
Reads as   ns of filling both records of a connection, and of pushing one; connections a second that the lock holds.
           Without a reader the module fills and pushes nothing: one word is read.
Fails as   exit code 1 where a record was lost.

    python -m benchmarks.kmod_records [--readers 1,2,4,16]
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from benchmarks.kmod_lookup import PIECES, in_guest, parameters

READERS = (1, 2, 4, 16)
NAME = "configtron_bench_records"
# As in configtron_bench_records.c: pushes at once.
PIECE = 256


def inside(module: str, readers: list[int]) -> None:
    """Inside the guest: a line of JSON for each number of readers."""
    for number in readers:
        found = parameters(module, f"readers={number} pieces={PIECES}", "fill_ps", "push_ps", "pushed")
        lost = number * PIECES * PIECE - found["pushed"]
        row = {"readers": number, "fill ns": found["fill_ps"] / 1000, "push ns": found["push_ps"] / 1000, "lost": lost}
        print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", default=",".join(map(str, READERS)))
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside, [int(number) for number in given.readers.split(",")])
        return 0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; least of {PIECES} pieces")
    print("readers  fill both, ns  push one, ns  connections/s that the lock holds")
    lost = 0.0
    for row in in_guest("benchmarks.kmod_records", NAME, "--readers", given.readers):
        number, fill, push = float(row["readers"]), float(row["fill ns"]), float(row["push ns"])
        print(f"{number:7.0f} {fill:14.0f} {push:13.0f} {1e9 / (2 * push):16,.0f}")
        lost += float(row["lost"])
    print(f"records lost: {lost:.0f}")
    return int(lost != 0)


if __name__ == "__main__":
    sys.exit(main())
