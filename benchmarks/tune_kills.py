# SPDX-License-Identifier: MIT
"""Claim: whatever moment `tune apply` or `tune rollback` is killed at, the host is as it was within the lease.

    python -m benchmarks.tune_kills [COUNT] [DRIVER...]      as root

In a network namespace of its own. One run of the command is traced to list its system calls, from the moment it takes
the lock; then it is run again for each of COUNT of them, spread evenly, and strace kills it (SIGKILL) at the entry of
that very call: no code of configtron knows. Every other time its watchdog is killed too, as soon as it is known, and
the next command (`tune recover`, as the timer runs it) has to mend what is left. Baseline is what `ip` and the sysctl
files say (for ebpf: what is pinned and attached; for kmod besides what the module holds), read before anything was
applied. Where this host has not the module, kmod is tried on the lab's kernel in real time.

A line a driver and command: points, how often the baseline came back in time, the slowest (s after the death, or after
the mending command began), what was left behind.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from configtron.model.tuning import Place
from configtron.tune.drivers import load
from tests.support import guest_module
from tests.support.isolation import with_own_pins
from tests.support.kill_points import campaign

COUNT = 60
DRIVERS = ("sysctl", "route", "ebpf", "kmod")
# The slowest, a rollback's point after another on the lab's kernel, takes some eight seconds.
POINT_LIMIT_S = 60
INSIDE = "inside"


def main(arguments: list[str]) -> int:
    """A line a driver and command; 1 if a baseline did not come back."""
    if arguments[:1] != [INSIDE]:
        return _outside(int(arguments[0]) if arguments else COUNT, arguments[1:] or list(DRIVERS))
    count, drivers = int(arguments[1]), arguments[2:]
    return 0 if all([campaign(driver, verb, count) for driver in drivers for verb in ("apply", "rollback")]) else 1


def _outside(count: int, drivers: Sequence[str]) -> int:
    """Each driver where it can act. Mounts of our own: another configtron must not find our pins, nor we its."""
    again = [sys.executable, "-m", "benchmarks.tune_kills", INSIDE, str(count)]
    here = [driver for driver in drivers if not load(driver, Place()).missing()]
    code = subprocess.run(with_own_pins([*again, *here])).returncode if here else 0
    for driver in drivers:
        if driver == "kmod" and driver not in here:
            ended, output = guest_module.run((*again, driver), POINT_LIMIT_S * (count + 1) * 2)
            print(output, end="", flush=True)
            code = code or ended
        elif driver not in here:
            print(f"{driver:7} {load(driver, Place()).missing()}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
