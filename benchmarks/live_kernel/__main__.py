# SPDX-License-Identifier: MIT
"""The closed loop on kernels that draw, in the lab's virtual time: what clients of six continents gain.

    python -m benchmarks.live_kernel [DRIVER [SEED [EPOCHS]]] [--docs FILE] [--kept FOLDER]       as root

(make demo-live-kernel)

In a guest: four web servers (nginx) whose kernel draws by DRIVER (kmod or ebpf; neither: both, each on a core of its
own), clients behind emulated networks that load site models over HTTP/1.1 and HTTP/2, beacons and log lines through the
production joins, and the production learner, whose maps go back into the kernels. Half of the clients are held back.
Planted: a continent's networks change, every queue becomes shorter than a burst, a sysctl makes paced profiles harmful,
a server and its agent are killed, the manager is killed. Every connection's arm is compared with model/draw.py's.
Exit code 1: an arm, a row or a propensity differs from the draw, or a client had two arms within an epoch. --docs:
write the tables between the marks in FILE, too; --kept: what FOLDER has is not played again, and it keeps the runs.
The same seed prints the same bytes; seconds and progress go to stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.live_kernel.judged import KeptRun, checked, kept, served
from benchmarks.live_kernel.kept_runs import found_of, kept_run
from benchmarks.live_kernel.recovery import by_epoch, by_stretch, chosen, neighbours, planted
from benchmarks.live_kernel.report import claims, differing, first_drawn, gains, over_time
from benchmarks.live_kernel.scenario import KernelScenario
from benchmarks.page_marks import into
from configtron.model.errors import USAGE, ConfigtronError

DRIVERS = ("kmod", "ebpf")
BEGIN, END = "<!-- benchmarks.live_kernel -->", "<!-- end of benchmarks.live_kernel -->"


def one_driver(scenario: KernelScenario, folder: str = "") -> tuple[str, int]:
    """Play, unless a folder has the run; return the tables and the exit code."""
    name = f"{scenario.driver}{scenario.seed}"
    run = kept_run(Path(folder), name, scenario) if folder else kept(scenario, found_of(scenario))
    lines, bad = tables(run)
    return "\n".join(lines) + "\n", int(bad)


def tables(run: KeptRun) -> tuple[list[str], bool]:
    """Return all tables of a run, and whether anything differs from the draw."""
    every, checks = served(run), checked(run)
    compared = differing(run, checks)
    blocks = (gains(run), by_epoch(run, every), by_stretch(run, every, first_drawn(run)), over_time(run), chosen(run),
              planted(run, every), neighbours(run, every), compared.lines)  # fmt: skip
    lines = [line for block in blocks for line in (*block, "")]
    return [*lines, claims(run, every, checks)], compared.bad


def every_driver(words: Sequence[str]) -> tuple[str, int]:
    """Return what a run with each driver prints, and the worse exit code: at once, on different cores."""
    cores = sorted(os.sched_getaffinity(0))
    running = [
        subprocess.Popen([sys.executable, "-m", "benchmarks.live_kernel", driver, *words], stdout=subprocess.PIPE,
                         text=True, preexec_fn=partial(os.sched_setaffinity, 0, {cores[at % len(cores)]}))
        for at, driver in enumerate(DRIVERS)
    ]  # fmt: skip
    printed = [one.communicate()[0] for one in running]
    return "\n".join(printed), max(one.returncode for one in running)


def main(arguments: Sequence[str]) -> int:
    """Run one driver, or both."""
    words, options = list(arguments), dict[str, str]()
    for name in ("--docs", "--kept"):
        if name in words[:-1]:
            at = words.index(name)
            options[name] = words[at + 1]
            del words[at : at + 2]
    driver = words.pop(0) if words and words[0] in DRIVERS else ""
    if not all(word.isdecimal() for word in words) or len(words) > 2:
        usage = f"write {' or '.join(DRIVERS)} or neither, a seed, a number of epochs, --docs FILE, --kept FOLDER"
        print(f"benchmarks.live_kernel: {usage}", file=sys.stderr)
        return USAGE
    folder = options.get("--kept", "")
    if driver:
        numbers: dict[str, Any] = dict(zip(("seed", "epochs"), map(int, words), strict=False))
        text, code = one_driver(replace(KernelScenario(driver=driver), **numbers), folder)
    else:
        text, code = every_driver([*words, *(("--kept", folder) if folder else ())])
    print(text, end="")
    if page := options.get("--docs"):
        into(Path(page), text, BEGIN, END)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.live_kernel: {error}", file=sys.stderr)
        sys.exit(error.code)
