# SPDX-License-Identifier: MIT
"""Claim: the same seed gives the same bytes of a shard, and of a capture of its packets, in each of a hundred runs.

    python -m benchmarks.testbed_same [--runs N]     as root

A short shard --runs times (100); every other time as many processes as there are cores want all of them. Compared are
its lines and every frame that its router saw, with TLS's bytes and the kernel's stamps in nanoseconds. Exit code 1:
something differed; what did, and in which runs, is printed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import testbed_capture
from benchmarks.testbed import CORES, WORKER, layout
from configtron.lab.testbed import measure
from configtron.lab.testbed.shard import LINES
from configtron.model.errors import DONE, USAGE, ConfigtronError

RUNS = 100
# Loss, both versions, a model-based congestion control and a loss-based one; pages of one object and of eight.
LINK, SITES = "hotcloud:5/150/2.5", ("search", "bank")
CHOSEN = ("cubic/10/pfifo_fast/h2", "cubic/10/pfifo_fast/http1.1", "bbr/30/fq/h2", "bbr/30/fq/http1.1")
SHOWN_EVERY = 10


def main(words: list[str]) -> int:
    runs = RUNS
    if len(words) == 2 and words[0] == "--runs" and words[1].isdigit() and int(words[1]):
        runs = int(words[1])
    elif words:
        print(__doc__, file=sys.stderr)
        return USAGE
    return DONE if same(runs) else 1


def same(runs: int) -> bool:
    """Whether all runs gave the same bytes; prints what they gave."""
    orders = layout(LINK, SITES, [1], seed=7).orders()[0]
    orders = replace(orders, configurations=tuple(c for c in orders.configurations if c.name in CHOSEN))
    assert len(orders.configurations) == len(CHOSEN)
    guests = measure.guests(WORKER)
    guests = replace(guests, command=(sys.executable, testbed_capture.__file__, *guests.command[3:]))
    seen: dict[tuple[str, str], list[int]] = {}
    sizes = (0, 0)
    for run in range(runs):
        with busy(CORES if run % 2 else 0), tempfile.TemporaryDirectory(prefix="testbed-") as folder:
            if why := measure.perform_one(orders, Path(folder), guests).why:
                raise ConfigtronError(why)
            lines, frames = (Path(folder, name).read_bytes() for name in (LINES, testbed_capture.FRAMES))
        sizes = len(lines), len(frames)
        seen.setdefault((hashlib.md5(lines).hexdigest(), hashlib.md5(frames).hexdigest()), []).append(run)
        if (run + 1) % SHOWN_EVERY == 0:
            print(f"  {run + 1} runs, {len(seen)} different; load {os.getloadavg()[0]:.1f}", flush=True)
    most = max(seen.values(), key=len)
    print(f"same seed: {len(most)} of {runs} runs gave the same {sizes[0]} bytes of lines and {sizes[1]} of packets")
    for (lines_md5, frames_md5), which in seen.items():
        again = f"in {len(which)} runs" if which is most else f"in runs {which} (odd ones on busy cores)"
        print(f"  lines {lines_md5}  packets {frames_md5}  {again}")
    return len(seen) == 1


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that want all of a core."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
