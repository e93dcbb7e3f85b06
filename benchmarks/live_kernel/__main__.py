# SPDX-License-Identifier: MIT
"""The closed loop on kernels that draw, in the lab's virtual time: what clients of six continents gain.

    python -m benchmarks.live_kernel [DRIVER [SEED [EPOCHS]]] [--windows N] [--docs FILE] [--runs FOLDER]      as root

(make demo-live-kernel)

In a guest: four web servers (nginx) whose kernel draws by DRIVER (kmod or ebpf; neither: both, each on a core of its
own), clients behind emulated networks that load site models over HTTP/1.1 and HTTP/2, beacons and log lines through the
production joins, and the production learner, whose maps go back into the kernels. Half of the clients are held back.
Planted: a continent's networks change, every queue becomes shorter than a burst, a sysctl makes paced profiles harmful,
a server and its agent are killed, the manager is killed. Every connection's arm is compared with model/draw.py's.
Exit code 1: an arm, a row or a propensity differs from the draw, or a client had two arms within an epoch. --windows:
segments of the largest initial window that is tried, 32 unless given, as without an operator's bound; --docs: write the
tables between the marks in FILE, too; --runs: save runs in FOLDER, read those that it has.
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

from benchmarks.live_kernel.draw_checks import RecordedRun, check_draws, parse_run, served_loads
from benchmarks.live_kernel.recorded_runs import load_or_play, play_timed
from benchmarks.live_kernel.recovery import by_epoch, by_phase, fault_lines, likeliest_profiles, neighbours
from benchmarks.live_kernel.report import claims, difference_lines, first_drawn, gains, profile_shares
from benchmarks.live_kernel.scenario import KernelScenario
from benchmarks.page_marks import into
from configtron.model.errors import USAGE, ConfigtronError

DRIVERS = ("kmod", "ebpf")
BEGIN, END = "<!-- benchmarks.live_kernel -->", "<!-- end of benchmarks.live_kernel -->"


def one_driver(scenario: KernelScenario, folder: str = "") -> tuple[str, int]:
    """Play a run, or read it where the folder has it; return the tables and the exit code."""
    name = f"{scenario.driver}{scenario.seed}"
    run = load_or_play(Path(folder), name, scenario) if folder else parse_run(scenario, play_timed(scenario))
    lines, bad = tables(run)
    return "\n".join(lines) + "\n", int(bad)


def tables(run: RecordedRun) -> tuple[list[str], bool]:
    """Return all tables of a run, and whether anything differs from the draw."""
    every, checks = served_loads(run), check_draws(run)
    compared = difference_lines(run, checks)
    blocks = (gains(run), by_epoch(run, every), by_phase(run, every, first_drawn(run)), profile_shares(run),
              likeliest_profiles(run), fault_lines(run, every), neighbours(run, every), compared.lines)  # fmt: skip
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
    for name in ("--windows", "--docs", "--runs"):
        if name in words[:-1]:
            at = words.index(name)
            options[name] = words[at + 1]
            del words[at : at + 2]
    driver = words.pop(0) if words and words[0] in DRIVERS else ""
    windows = options.get("--windows", "")
    if not all(word.isdecimal() for word in (*words, windows or "0")) or len(words) > 2:
        usage = f"write {' or '.join(DRIVERS)} or neither, a seed, a number of epochs, --windows N,"
        usage += " --docs FILE, --runs FOLDER"
        print(f"benchmarks.live_kernel: {usage}", file=sys.stderr)
        return USAGE
    folder = options.get("--runs", "")
    if driver:
        numbers: dict[str, Any] = dict(zip(("seed", "epochs"), map(int, words), strict=False))
        numbers |= {"windows": int(windows)} if windows else {}
        text, code = one_driver(replace(KernelScenario(driver=driver), **numbers), folder)
    else:
        beside = [word for name in ("--windows", "--runs") if name in options for word in (name, options[name])]
        text, code = every_driver([*words, *beside])
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
