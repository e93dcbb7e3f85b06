# SPDX-License-Identifier: MIT
"""The closed loop on kernels that draw, in the lab's virtual time: what clients of six continents gain.

    python -m benchmarks.live_kernel [DRIVER [SEED [EPOCHS]]] [--docs FILE]        as root; make demo-live-kernel

In a guest: four web servers (nginx) whose kernel draws by DRIVER (kmod or ebpf; neither: both, each on a core of its
own), clients behind emulated networks that load site models over HTTP/1.1 and HTTP/2, beacons and log lines through the
production joins, and the production learner, whose maps go back into the kernels. Half of the clients are held back.
Planted: a continent's networks change, every queue becomes shorter than a burst, a server and its agent are killed, the
manager is killed. Every connection's arm is compared with model/draw.py's. Exit code 1: an arm, a row or a propensity
differs, or a client of a listed prefix had two arms within an epoch. --docs: write the tables between the marks in
FILE, too. The same seed prints the same bytes; seconds and progress go to stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.guest_play import play
from benchmarks.live_kernel.judged import checked, kept, served
from benchmarks.live_kernel.recovery import by_epoch, by_stretch, chosen, neighbours, planted
from benchmarks.live_kernel.report import claims, differing, first_drawn, gains, over_time
from benchmarks.live_kernel.scenario import KernelScenario, pages
from configtron.lab.testbed import loads, servers
from configtron.model.errors import USAGE, BadInput, ConfigtronError
from rigs import guest_module

DRIVERS = ("kmod", "ebpf")
BEGIN, END = "<!-- benchmarks.live_kernel -->", "<!-- end of benchmarks.live_kernel -->"
# Of real time.
LIMIT_S = 3 * 3600


def played(folder: Path, scenario: KernelScenario) -> dict[str, Any]:
    """Run a scenario in a guest, return what it kept."""
    if scenario.driver == "kmod":
        guest_module.build(folder)
    servers.certify(list(pages().values()), folder / "tls")
    words = (loads.program(), scenario.text())
    return play(folder, "benchmarks.live_kernel.inside", words, columns=120, limit_s=LIMIT_S, memory_mb=1024)


def one_driver(scenario: KernelScenario) -> int:
    """Play, print, judge."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, redirect_stdout(sys.stderr):
        found = played(Path(folder), scenario)
    took_s, lasted_s = time.monotonic() - began, scenario.epochs * scenario.epoch_s
    print(f"{scenario.driver}: {took_s:.0f} s for {lasted_s} s of the guest", file=sys.stderr)
    lines, bad = tables(scenario, found)
    print("\n".join(lines))
    return int(bad)


def tables(scenario: KernelScenario, found: dict[str, Any]) -> tuple[list[str], bool]:
    """Return all tables of a run, and whether anything differs from the draw."""
    run = kept(scenario, found)
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


def into(page: Path, text: str) -> None:
    """Write tables between the marks of a page. Errors: `BadInput` for a page without them."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadInput(f"{page}: there is no {BEGIN} ... {END}")
    page.write_text(f"{before}{begin}\n```\n{text}```\n{end}{after}")


def main(arguments: Sequence[str]) -> int:
    """Run one driver, or both."""
    at = arguments.index("--docs") if "--docs" in arguments else len(arguments)
    words, files = list(arguments[:at]), arguments[at + 1 :]
    driver = words.pop(0) if words and words[0] in DRIVERS else ""
    if not all(word.isdecimal() for word in words) or len(words) > 2 or (at < len(arguments) and len(files) != 1):
        usage = f"write {' or '.join(DRIVERS)} or neither, a seed, a number of epochs, --docs FILE"
        print(f"benchmarks.live_kernel: {usage}", file=sys.stderr)
        return USAGE
    if driver and not files:
        numbers = dict(zip(("seed", "epochs"), map(int, words), strict=False))
        return one_driver(replace(KernelScenario(driver=driver), **numbers))
    text, code = every_driver(words)
    print(text, end="")
    if files:
        into(Path(files[0]), text)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.live_kernel: {error}", file=sys.stderr)
        sys.exit(error.code)
