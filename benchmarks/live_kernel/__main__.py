# SPDX-License-Identifier: MIT
"""The closed loop on kernels that draw, in the lab's virtual time: what clients of six continents gain.

    python -m benchmarks.live_kernel [DRIVER [SEED [EPOCHS]]]        as root

In a guest: web servers (nginx) whose kernel draws by DRIVER (kmod, or ebpf), clients behind emulated networks that load
site models over HTTP/1.1 and HTTP/2, beacons and log lines through the production joins, and the production learner,
whose maps go back into the kernels. Half of the clients are held back. Every connection's arm is compared with
model/draw.py's. Exit code 1: an arm, a row or a propensity differs, or a client has two arms within an epoch.
The same seed prints the same bytes; seconds go to stderr.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.guest_play import play
from benchmarks.live_kernel.judged import checked, kept
from benchmarks.live_kernel.report import differing, gains, over_time
from benchmarks.live_kernel.scenario import KernelScenario, pages
from configtron.lab.testbed import loads, servers
from configtron.model.errors import USAGE, ConfigtronError
from rigs import guest_module

DRIVERS = ("kmod", "ebpf")
# Of real time.
LIMIT_S = 7200


def played(folder: Path, scenario: KernelScenario) -> dict[str, Any]:
    """Run a scenario in a guest, return what it kept."""
    if scenario.driver == "kmod":
        guest_module.build(folder)
    servers.certify(list(pages().values()), folder / "tls")
    words = (loads.program(), scenario.text())
    return play(folder, "benchmarks.live_kernel.inside", words, columns=120, limit_s=LIMIT_S, memory_mb=1024)


def main(arguments: Sequence[str]) -> int:
    """Play, print, judge."""
    words = [*arguments, *("kmod", "1", "24")[len(arguments) :]]
    if words[0] not in DRIVERS or not all(word.isdecimal() for word in words[1:]):
        print(f"benchmarks.live_kernel: write one of {', '.join(DRIVERS)}, a seed, a number of epochs", file=sys.stderr)
        return USAGE
    scenario = replace(KernelScenario(driver=words[0], seed=int(words[1]), epochs=int(words[2])).quiet())
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        run = kept(scenario, played(Path(folder), scenario))
    print(f"{time.monotonic() - began:.0f} s for {scenario.epochs * scenario.epoch_s} s of the guest", file=sys.stderr)
    found = checked(run)
    print("\n".join(gains(run)))
    print("\n".join(over_time(run)))
    wrong = differing(run, found)
    print("\n".join(wrong.lines))
    return int(wrong.bad)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.live_kernel: {error}", file=sys.stderr)
        sys.exit(error.code)
