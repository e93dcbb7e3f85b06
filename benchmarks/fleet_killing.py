# SPDX-License-Identifier: MIT
"""A profile that kills three loads of ten and makes the others faster: what becomes of it, with and without reports.

    python -m benchmarks.fleet_killing [--seeds 10] [--first 0] [--write]

--write: put how long it was in force into `benchmarks/fault_rows/killing.jsonl`, for `benchmarks.fault_table`.

Each seed runs the whole simulated fleet twice (`fleet_killing.py`), of some minutes of virtual time: once browsers
report loads that failed (Network Error Logging), once none does. The second is not a rule: it shows what the reports
are for.

Exit code 1: a rule of the simulation was broken, or with reports the profile was not taken back by its failures.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.fault_table import ROWS
from benchmarks.fleet_faults import MEMORY
from tests.support.fleet_killing import FASTER, KILLED, REPORTING, KillingFound, KillingWorld

FAULT = "a profile that breaks 30 % of its connections and makes the other loads faster"


def world_of(seed: int, reports: bool) -> KillingWorld:
    """Run one seed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = KillingWorld(seed, Path(folder), reports)
        world.run()
        return world


def row(found: Sequence[KillingFound], without: Sequence[KillingFound]) -> str:
    """Return the row of the table of faults, JSON."""
    spans_s = [one.at_s - one.begun_s for one in found]
    everywhere = sum(one.stage == "all" for one in without)
    end = (f"the canary's alarm takes it back by failed loads that browsers reported; without their reports it looked"
           f" {1 - median(one.faster for one in without):.0%} faster and reached all clients in {everywhere} of"
           f" {len(without)} runs")  # fmt: skip
    recovery = f"{min(spans_s):.0f}, {median(spans_s):.0f}, {max(spans_s):.0f} of {len(spans_s)}"
    by = "`python -m benchmarks.fleet_killing`"
    return json.dumps({"fault": FAULT, "by": by, "end": end, "line": found[0].line.partition(" (")[0],
                       "recovery": recovery})  # fmt: skip


def main() -> int:
    """Run the seeds and print one line a run, then both sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="keep the figures for the table of faults")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{KILLED:.0%} of the profile's connections break, the other loads take {FASTER:.0%} of their time;"
          f" {REPORTING:.0%} of browsers report")  # fmt: skip
    runs: dict[bool, list[KillingFound]] = {True: [], False: []}
    wrong = 0
    for seed in range(options.first, options.first + options.seeds):
        for reports, found in runs.items():
            world = world_of(seed, reports)
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
    if options.write:
        (ROWS / "killing.jsonl").write_text(row(runs[True], runs[False]) + "\n")
    return 1 if wrong or len(back) < len(runs[True]) else 0


def _text(found: KillingFound) -> str:
    goal = f" ({found.goal})" if found.goal else ""
    return (f"{found.stage} by {found.why}{goal} {found.at_s - found.begun_s:.0f} s after its first connection;"
            f" {found.broken} loads broken, {found.reported} reported, {found.failures} failures stored, {found.taught}"
            f" of them teach; loads that finished took {found.faster:.2f} of held-back clients'")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
