# SPDX-License-Identifier: MIT
"""How long the command line takes to say its version and its help, beside a bare interpreter.

Claim: `configtron --version` within 60 ms and `--help` within 120 ms of wall time on an idle machine. Processor time is
printed too, since it is the same on a busy one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 40
CONFIGTRON = str(Path(sys.executable).with_name("configtron"))
# What is run -> wall time that it may take, ms.
CLAIMS: tuple[tuple[list[str], float | None], ...] = (
    ([sys.executable, "-c", ""], None),
    ([CONFIGTRON, "--version"], 60),
    ([CONFIGTRON, "--help"], 120),
)


def measured(command: list[str]) -> tuple[list[float], list[float]]:
    """Wall and processor times of many runs, ms, sorted."""
    wall, cpu = [], []
    for _ in range(RUNS):
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        usage = os.wait4(process.pid, 0)[2]
        wall.append((time.perf_counter() - began) * 1e3)
        cpu.append((usage.ru_utime + usage.ru_stime) * 1e3)
    return sorted(wall), sorted(cpu)


def main() -> None:
    print(f"{RUNS} runs each, ms; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{'command':28} {'best':>6} {'median':>7} {'cpu':>6} {'claim':>6}")
    for command, claim in CLAIMS:
        wall, cpu = measured(command)
        name = " ".join([Path(command[0]).name, *command[1:]])
        limit = f"{claim:.0f}" if claim else "-"
        print(f"{name:28} {wall[0]:6.0f} {statistics.median(wall):7.0f} {statistics.median(cpu):6.0f} {limit:>6}")


if __name__ == "__main__":
    main()
