# SPDX-License-Identifier: MIT
"""Claim: a target more costs less than a kilobyte of memory, however many there are.

    python -m benchmarks.memory [SMALL LARGE]      as root

The program probes a town twice, with a thousand targets and with a hundred thousand (paths of 32 000 addresses), two
connections each, everything kept. Printed: the largest resident set of each process as the kernel counted it, how long
it took, and the calls in the database.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.kills import asked
from benchmarks.town import command, lit, town
from configtron.model.errors import DONE

SMALL, LARGE = 1000, 100_000
ADDRESSES = 32_000
# Targets under way, names looked up at once and remembered ports are bounded; what may still grow, per target.
GROWTH_MOST_KB = 1.0


def main(small: int, large: int) -> int:
    """A row a size; 1 if the larger one needs much more memory."""
    print(f"{'targets':>8} {'calls':>8} {'seconds':>8} {'largest resident set, MB':>25}")
    resident = []
    for count in (small, large):
        with town() as standing, tempfile.TemporaryDirectory(prefix="memory-") as name:
            folder = Path(name)
            urls = [f"http://{lit(n % ADDRESSES)}/{n // ADDRESSES}" for n in range(count)]
            words = ("--profile", "quick", "--tests", "signature", "-r", "0", "-f", "csv", "-o", "/dev/null")
            began = time.monotonic()
            process = subprocess.Popen(command(folder, standing, urls, *words, "-c", "1000"))
            _, status, usage = os.wait4(process.pid, 0)
            took = time.monotonic() - began
            (calls,) = asked(folder / "town.db", "SELECT count(*) FROM trace WHERE frames > 0")[0]
            resident.append(usage.ru_maxrss / 1024)
            print(f"{count:8} {calls:8} {took:8.0f} {resident[-1]:25.1f}", flush=True)
            if os.waitstatus_to_exitcode(status) != DONE:
                return 1
    return 0 if 1024 * (resident[1] - resident[0]) <= GROWTH_MOST_KB * (large - small) else 1


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:3])) if len(sys.argv) > 2 else main(SMALL, LARGE))
