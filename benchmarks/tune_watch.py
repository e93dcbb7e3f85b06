# SPDX-License-Identifier: MIT
"""Claim: `tune watch` sees an external change of a knob within a second, also among a hundred thousand prefixes.

    python -m benchmarks.tune_watch [TIMES] [DRIVER...]      as root

In a network namespace of its own: rules are applied, a watch begins, and the benchmark changes them by other means (ip
route, /proc/sys, the BPF maps) at drawn moments. A line a driver and size: the seconds from the change to the event on
the watch's standard output, median and slowest.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from statistics import median

from benchmarks.tune_kills import INSIDE
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers import load
from tests.support.children import child
from tests.support.isolation import with_own_pins
from tests.support.tune_sandbox import TuneSandbox, tune_sandbox

TIMES = 10
SIZES = (4, 100_000)
DRIVERS = ("sysctl", "route", "ebpf")
# A claim of one second is missed long before this.
PATIENCE_S = 20.0
LEASE_S = 60.0


def fill(here: TuneSandbox, size: int) -> None:
    """So many prefixes more."""
    lines = "".join(f"10.{128 + (n >> 14)}.{n >> 6 & 255}.{(n & 63) << 2}/30 web\n" for n in range(size))
    subprocess.run(here.command("prefix", "import", "-"), input=lines, text=True, check=True, stdout=subprocess.DEVNULL)


def touch(here: TuneSandbox, turn: int) -> str:
    """Make an external change; return its scope."""
    if here.driver == "sysctl":
        knob, value = (("tcp_autocorking", 1), ("tcp_slow_start_after_idle", 1))[turn % 2]
        path = f"/proc/sys/net/ipv4/{knob}"
        subprocess.run(["ip", "netns", "exec", here.name, "sh", "-c", f"echo {value} > {path}"], check=True)
        return "profile:web"
    prefix = f"10.128.0.{turn << 2}/30"
    if here.driver == "route":
        table = json.loads(subprocess.run(
            ["ip", "-j", "-n", here.name, "route", "show", "table", "all", "exact", prefix],
            capture_output=True, check=True).stdout)[0]["table"]  # fmt: skip
        subprocess.run(["ip", "-n", here.name, "route", "del", prefix, "table", str(table)], check=True)
    else:
        load("ebpf", Place(cgroup=f"/{here.name}")).apply(Changes(dropped_prefixes=frozenset({prefix})))
    return prefix


def seen(here: TuneSandbox, times: int) -> list[float]:
    """Return how long each change took to be reported, s."""
    rng, took = random.Random(1), []
    words = here.command("watch", "-f", "jsonl")
    with child(words, signal.SIGTERM, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        time.sleep(3.0)
        for turn in range(times):
            time.sleep(rng.uniform(0.5, 1.5))
            began = time.monotonic()
            scope = touch(here, turn)
            event = json.loads(watch.stdout.readline())
            took.append(time.monotonic() - began)
            assert (event["event"], event["scope"]) == ("foreign", scope), event
            if here.driver == "sysctl":
                # Its one scope is frozen now: begin anew, so that the next change is one.
                here.run("unfreeze", "--all")
                here.run("apply", *here.where, "--lease", str(LEASE_S))
    return took


def main(arguments: list[str]) -> int:
    """A line a driver and size; 1 if anything took longer than a second."""
    if arguments[:1] != [INSIDE]:
        again = [sys.executable, "-m", "benchmarks.tune_watch", INSIDE, *arguments]
        return subprocess.run(with_own_pins(again)).returncode
    times = int(arguments[1]) if len(arguments) > 1 else TIMES
    slow = False
    for driver in arguments[2:] or DRIVERS:
        for size in SIZES if driver != "sysctl" else SIZES[:1]:
            with tune_sandbox(driver) as here:
                if driver != "sysctl":
                    fill(here, max(size, times))
                here.run("apply", *here.where, "--lease", str(LEASE_S))
                took = seen(here, times)
                slow = slow or max(took) > 1.0
                print(f"{driver:7} {size:7} prefixes  {len(took)} changes  seen after {median(took):.2f} s (median),"
                      f" {max(took):.2f} s (slowest)", flush=True)  # fmt: skip
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
