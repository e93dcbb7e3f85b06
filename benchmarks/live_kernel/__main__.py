# SPDX-License-Identifier: MIT
"""The closed loop on kernels that draw, in the lab's virtual time: what clients of six continents gain.

    python -m benchmarks.live_kernel [DRIVER [SEED [EPOCHS]]] [--windows N]      as root

(make demo-live-kernel)

In a guest: four web servers (nginx) whose kernel draws by DRIVER (kmod or ebpf; neither: both, each on a core of its
own), clients behind emulated networks that load site models over HTTP/1.1 and HTTP/2, beacons and log lines through the
production joins, and the production learner, whose maps go back into the kernels. Half of the clients are held back:
they have Default, which is what silence would get. Planted: a continent's networks change, every queue becomes shorter
than a burst, a server and its agent are killed, the manager is killed. Every connection's arm is compared with
model/draw.py's. Exit code 1: an arm, a row or a propensity differs from the draw, or a client had two arms within an
epoch. --windows: segments of the largest initial window that is tried, 32 unless given, as without an operator's bound;
The same seed prints the same bytes; seconds and progress go to
stderr.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.guest_play import play
from benchmarks.live_kernel.draw_checks import RecordedRun, check_draws, parse_run, served_loads
from benchmarks.live_kernel.report import (
    by_epoch,
    claims,
    difference_lines,
    fault_lines,
    gains,
)
from benchmarks.live_kernel.scenario import KernelScenario, pages
from configtron.lab.testbed import loads, servers
from configtron.model.errors import ConfigtronError
from configtron.tune.guard import MOST_LEARNED_WINDOW
from tests.support import guest_module

DRIVERS = ("kmod", "ebpf")
# Real time after which a run is ended.
LIMIT_S = 3 * 3600


def played(folder: Path, scenario: KernelScenario) -> dict[str, Any]:
    """Play a scenario in a guest kernel; return what it recorded."""
    if scenario.driver == "kmod":
        guest_module.build(folder)
    servers.certify(list(pages().values()), folder / "tls")
    words = (loads.program(), scenario.text())
    return play(folder, "benchmarks.live_kernel.inside", words, columns=120, limit_s=LIMIT_S, memory_mb=1024)


def one_driver(scenario: KernelScenario) -> tuple[str, int]:
    """Play a run; return the tables and the exit code. Progress and seconds go to stderr."""
    began, used = time.monotonic(), os.times()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, redirect_stdout(sys.stderr):
        found = played(Path(folder), scenario)
    now = os.times()
    cpu_s = now.children_user + now.children_system - used.children_user - used.children_system
    print(f"{scenario.driver}: {time.monotonic() - began:.0f} s, {cpu_s:.0f} s of a processor, for"
          f" {scenario.epochs * scenario.epoch_s} s of the guest", file=sys.stderr)  # fmt: skip
    lines, bad = tables(parse_run(scenario, found))
    return "\n".join(lines) + "\n", int(bad)


def tables(run: RecordedRun) -> tuple[list[str], bool]:
    """Return all tables of a run, and whether anything differs from the draw."""
    every, checks = served_loads(run), check_draws(run)
    compared = difference_lines(run, checks)
    blocks = (gains(run), by_epoch(run, every), fault_lines(run, every), compared.lines)
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


def main(words: Sequence[str]) -> int:
    """Run one driver, or both."""
    driver, rest = (words[0], words[1:]) if words and words[0] in DRIVERS else ("", words)
    parser = argparse.ArgumentParser(prog="benchmarks.live_kernel", usage="[kmod|ebpf] [SEED [EPOCHS]] [OPTIONS]")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("epochs", type=int, nargs="?", default=KernelScenario().epochs)
    parser.add_argument("--windows", type=int, default=MOST_LEARNED_WINDOW)
    given = parser.parse_args(rest)
    if driver:
        scenario = KernelScenario(driver=driver, seed=given.seed, epochs=given.epochs, windows=given.windows)
        text, code = one_driver(scenario)
    else:
        text, code = every_driver([str(given.seed), str(given.epochs), "--windows", str(given.windows)])
    print(text, end="")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.live_kernel: {error}", file=sys.stderr)
        sys.exit(error.code)
