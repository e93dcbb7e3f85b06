# SPDX-License-Identifier: MIT
"""Claim: each further target takes less than a kilobyte of memory, however many targets there are.

    python -m benchmarks.memory [SMALL LARGE]      as root

The program probes a town twice, with a thousand targets and with a hundred thousand (paths of 32 000 addresses), two
connections each, with everything recorded. It prints each run's peak resident set (ru_maxrss), its seconds, and the
number of probe connections in the database.
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
# Active targets, parallel name look-ups and remembered ports have fixed limits; all else may take this much per target.
GROWTH_MAX_KB_PER_TARGET = 1.0


def main(small: int, large: int) -> int:
    """Print one row per number of targets; return 1 if a run fails, or if memory grows beyond the limit per target."""
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
    return 0 if 1024 * (resident[1] - resident[0]) <= GROWTH_MAX_KB_PER_TARGET * (large - small) else 1


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:3])) if len(sys.argv) > 2 else main(SMALL, LARGE))
