# SPDX-License-Identifier: MIT
"""Claim: a list of a million targets is read, checked and put in order in flat memory.

    python -m benchmarks.target_list [COUNT...]      1000, 100 000 and 1 000 000 lines by default

Each list is made, in the form rank,domain, and laid out as `probe run` does before it begins, in a process of its own:
its largest resident set and processor seconds.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from configtron.service import campaign

COUNTS = (1_000, 100_000, 1_000_000)


def laid_out(path: Path, count: int) -> None:
    """Lay a list out in this process, and print its costs as JSON."""
    with campaign.planned(campaign.ProbeOptions(input_files=(path,), max_targets=count)) as layout:
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps([layout.size, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime]))


def main(arguments: list[str]) -> None:
    """Print a line for each size."""
    if arguments[:1] == ["--in-child"]:
        laid_out(Path(arguments[1]), int(arguments[2]))
        return
    for count in map(int, arguments) if arguments else COUNTS:
        with tempfile.TemporaryDirectory(prefix="targets-") as folder:
            path = Path(folder) / "list.csv"
            with path.open("w") as file:
                file.writelines(f"{n + 1},host-{n * 7919 % count:07}.example\n" for n in range(count))
            words = [sys.executable, "-m", "benchmarks.target_list", "--in-child", str(path), str(count)]
            size, memory_mb, cpu_s = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
            print(
                f"{size:>8} targets: {memory_mb:5.0f} MB largest resident set, {cpu_s:5.1f} s of processor", flush=True
            )


if __name__ == "__main__":
    main(sys.argv[1:])
