# SPDX-License-Identifier: MIT
"""What a driver costs a connection, however many prefixes there are. Goals: the kernel module at most 1 per cent, eBPF
at most 3, in each of the four figures: connections per second, set-up time at p50 and at p99, CPU per connection.

    python -m benchmarks.tune [DRIVER...]     as root; kmod, ebpf, route, shim, listener; else all

A server in C that does nothing but accept, answer and close is visited by a client in C from 100 000 addresses; both
share one processor, so that whatever a driver adds to either is seen. Blocks of connections go in turn to that server
untouched, tuned and untouched once more, in an order drawn for each round; printed are medians over the rounds of the
ratio to the untouched server of the same round, with 95 per cent intervals. "again" is the second untouched server:
what the method shows where there is no difference. "listener" is a server that itself asks for the profiles' congestion
control, for everybody: this cost is in every driver's figures. eBPF, routes and the LD_PRELOAD shim run on this host's
kernel in namespaces and cgroups of their own; the module in the lab's kernel (User-Mode Linux in real time, which makes
all but the module slower too), whose CPU time is measured from outside. Exit code 1: a goal is missed beyond its
interval.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.cpu_outside import Meter
from configtron.lab.uml.user_mode_linux import Backend, GuestJob, Netns
from configtron.model.errors import USAGE, ConfigtronError
from tests.support import ROOT, guest_module

SOURCES = Path(__file__).resolve().parent / "churn"
SIZES = (0, 1_000, 100_000)
# Where each is measured, its goal (how much worse than untouched, at most; None: no claim).
DRIVERS = {
    "kmod": ("guest", 0.01), "ebpf": ("host", 0.03), "route": ("host", None), "shim": ("host", None),
    "listener": ("host", None),
}  # fmt: skip
# Connections of a block: some 20 ms; what else the machine does changes more slowly.
BLOCKS = {"host": 250, "guest": 100}
# So many that the interval of CPU per connection is within one per cent of its median on a busy machine of two cores.
ROUNDS = 240
LIMIT_S = 1800
CONFIDENCE = 0.95
MISSED, OPEN = "missed", "undecided"
FIGURES = ("connections/s", "set-up p50", "set-up p99", "CPU/connection")


class Ratio(NamedTuple):
    """A median with its interval; 1 is untouched, above 1 is worse."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.3f} [{self.low:.3f} {self.high:.3f}]"


def interval(values: Sequence[float]) -> Ratio:
    """Return the median and its interval by order statistics: no assumption about the distribution of the values."""
    ordered, count = sorted(values), len(values)
    # The interval leaves out `outside` values at each end: as many as its confidence allows.
    outside, mass = 0, 0.0
    while True:
        mass += math.comb(count, outside) / 2**count
        if mass > (1 - CONFIDENCE) / 2:
            break
        outside += 1
    outside = max(outside, 1)
    return Ratio(median(ordered), ordered[outside - 1], ordered[-outside])


def worse(one: dict[str, Any], than: dict[str, Any]) -> tuple[float, ...]:
    """How much worse each figure of a block is than the other's, as a ratio; `FIGURES` in order."""
    rate = (than["connections"] / than["wall_ns"]) / (one["connections"] / one["wall_ns"])
    cpu = (one["cpu_ns"] / one["connections"]) / (than["cpu_ns"] / than["connections"])
    return rate, one["p50_ns"] / than["p50_ns"], one["p99_ns"] / than["p99_ns"], cpu


def ratios(blocks: Iterable[dict[str, Any]], role: str) -> list[Ratio]:
    """Return the figures of the server with that role, as ratios to the untouched server of the same round."""
    rounds: dict[int, dict[str, dict[str, Any]]] = {}
    for block in blocks:
        rounds.setdefault(block["round"], {})[block["role"]] = block
    pairs = [worse(found[role], found["untouched"]) for found in rounds.values()]
    return [interval([pair[n] for pair in pairs]) for n in range(len(FIGURES))]


def compile_programs(folder: Path) -> None:
    """Compile the load and the shim by this machine's compiler."""
    gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*gcc, str(SOURCES / "churn.c"), "-o", str(folder / "churn")], check=True)
    subprocess.run([*gcc, "-shared", "-fPIC", str(SOURCES / "shim.c"), "-o", str(folder / "shim.so")], check=True)


def measure(driver: str, folder: Path, rounds: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Return the blocks of all phases of a driver."""
    where, output = DRIVERS[driver][0], folder / driver
    output.mkdir()
    if driver == "kmod":
        guest_module.build(output)
    phases = [{"driver": driver, "prefixes": count} for count in (sizes if driver != "listener" else (0,))]
    plan = {"phases": phases, "rounds": rounds, "block": BLOCKS[where], "seed": 1, "programs": str(folder)}
    (output / "plan.json").write_text(json.dumps(plan))
    words = (sys.executable, "-m", "benchmarks.tune_inside", "/run/output/plan.json")
    environment = (("PYTHONPATH", str(ROOT)),)
    job = GuestJob(words, output, seed=1, cpu=max(os.sched_getaffinity(0)), environment=environment, limit_s=LIMIT_S)
    with Meter() as meter:
        running = backend(where).boot(job)
        meter.watch(running.pid)
        code = running.wait(LIMIT_S + 60)
    if code:
        raise SystemExit(running.console.read_text() + running.last_words())
    blocks = [json.loads(line) for line in (output / "blocks.jsonl").read_text().splitlines()]
    if where == "guest":
        # Its own clocks cannot separate the guest's work from waiting for the host's processor.
        blocks = [block | {"cpu_ns": meter.used_ns(block["began"], block["ended"])} for block in blocks]
    return blocks


def backend(where: str) -> Backend:
    """The host's kernel in namespaces of our own, or the lab's kernel in real time."""
    return Netns() if where == "host" else guest_module.kernel()


def verdict(driver: str, found: Sequence[Ratio]) -> str:
    """Whether the goal holds, by every figure; otherwise which figures miss it, and which leave it open."""
    goal = DRIVERS[driver][1] if driver in DRIVERS else None
    if goal is None:
        return ""
    named = list(zip(FIGURES, found, strict=True))
    beyond = [name for name, ratio in named if ratio.low > 1 + goal]
    open_ = [name for name, ratio in named if ratio.low <= 1 + goal < ratio.high]
    words = [f"{word} ({goal:.0%}): {', '.join(names)}" for word, names in ((MISSED, beyond), (OPEN, open_)) if names]
    return "; ".join(words) or f"holds ({goal:.0%})"


def report(blocks: Sequence[dict[str, Any]]) -> list[str]:
    """Print what was measured of a driver; the verdicts."""
    plain = [block for block in blocks if block["role"] == "untouched"]
    rate = median(1e9 * block["connections"] / block["wall_ns"] for block in plain)
    p50, p99 = (median(block[name] / 1e3 for block in plain) for name in ("p50_ns", "p99_ns"))
    cpu = median(block["cpu_ns"] / block["connections"] / 1e3 for block in plain)
    print(f"{'untouched':18}{rate:22.0f}{p50:19.1f} us{p99:19.1f} us{cpu:19.1f} us")
    verdicts, phases = [], dict.fromkeys((block["driver"], block["prefixes"]) for block in blocks)
    for driver, count in phases:
        of_phase = [block for block in blocks if (block["driver"], block["prefixes"]) == (driver, count)]
        for role, name in (("tuned", driver), ("untouched again", "  again")):
            found = ratios(of_phase, role)
            word = verdict(name, found)
            verdicts.append(word)
            print(f"{name:9}{count:>9}" + "".join(f"{ratio!s:>22}" for ratio in found) + (f"  {word}" if word else ""))
    sys.stdout.flush()
    return verdicts


def main(names: Sequence[str]) -> int:
    """Measure, print, judge."""
    if unknown := sorted(set(names) - DRIVERS.keys()):
        print(f"no driver {unknown[0]!r} here; there is: {', '.join(DRIVERS)}", file=sys.stderr)
        return USAGE
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        compile_programs(Path(folder))
        print("times untouched, above 1 is worse: median [95 %]")
        print(f"{'driver':9}{'prefixes':>9}" + "".join(f"{name:>22}" for name in FIGURES) + "  goal", flush=True)
        for driver in names or DRIVERS:
            verdicts += report(measure(driver, Path(folder), ROUNDS, SIZES))
    return 1 if any(word.startswith(MISSED) for word in verdicts) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.tune: {error}", file=sys.stderr)
        sys.exit(error.code)
