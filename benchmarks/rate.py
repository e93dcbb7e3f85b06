# SPDX-License-Identifier: MIT
"""Claim: no second holds more SYNs than the rate allows, over all vantages together, seen where they arrive.

    python -m benchmarks.rate [RATE...] [--jobs N]      as root; worker processes, one by default

The program probes a town of which a tenth is dark (no host answers there, so that SYNs are repeated) from three
vantages at once. A socket in the *server's* namespace records the kernel's time of each SYN that arrives. Printed: the
fullest window of one second, the mean rate while the run was at it, and what the window may hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.town import command, dark, lit, town
from tests.support.syn_arrivals import fullest_second, syn_arrivals

RATES = (50, 200, 1000)
VANTAGES = 3
# Seconds' worth of connections at each rate; more would only be more of the same.
SECONDS = 20
# A tenth of the targets answer nothing.
DARK_EACH = 10
# What the addresses of the town begin with.
TOWN = "198.19."


def measured(rate: int, jobs: int) -> list[float]:
    """When the SYNs of a run at that rate arrived."""
    # A target that answers gets five connections from `quick`'s icw and http tests, from each vantage.
    count = max(rate * SECONDS // (5 * VANTAGES), 10)
    addresses = [dark(n) if n % DARK_EACH == 0 else lit(n) for n in range(count)]
    with town(VANTAGES) as standing, tempfile.TemporaryDirectory(prefix="rate-") as name:
        words = ["--profile", "quick", "--tests", "icw,http", "-r", str(rate), "-o", "/dev/null", "-c", "5000"]
        words += ["--jobs", str(jobs)]
        with syn_arrivals(standing.netns, TOWN) as arrivals:
            subprocess.run(command(Path(name), standing, addresses, *words), check=False)
        return sorted(arrival.at for arrival in arrivals)


def main(rates: Sequence[int], jobs: int = 1) -> int:
    """A row a rate; 1 if a window held more than the rate and one per cent."""
    print(f"{'rate':>6} {'SYNs':>7} {'fullest second':>15} {'allowed':>8} {'mean rate':>10}")
    holds = True
    for rate in rates:
        times = measured(rate, jobs)
        # The mean over the busy part: the end waits for the last hosts' answers.
        busy = times[: len(times) // 2]
        mean = (len(busy) - 1) / (busy[-1] - busy[0]) if len(busy) > 1 else 0.0
        print(f"{rate:6} {len(times):7} {fullest_second(times):15} {rate * 1.01:8.1f} {mean:10.1f}", flush=True)
        holds = holds and 0 < fullest_second(times) <= rate * 1.01
    return 0 if holds else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rates", nargs="*", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sys.exit(main(given.rates or RATES, given.jobs))
