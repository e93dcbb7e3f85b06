# SPDX-License-Identifier: MIT
"""How the drivers of `tune` bear many prefixes: apply, change a hundred, read back, revert; and
what each command of `tune` takes, beside `ip -batch` and pyroute2.

Goal: a hundred thousand prefixes are in force in at most 3 s and a change of a hundred in at most 50 ms, with each of
kmod, ebpf and route; everything is read back and compared, or the row says so. These are the driver's calls alone.
"apply cpu" is seconds of the processor, "diff cpu" is milliseconds, in the kernel too. Who types `configtron tune
apply` waits for the whole command, which journals the rules and starts a watchdog, too: the last form measures that.

Every driver that knows prefixes is taken; one that cannot act here says why instead. Each size runs in a fresh network
and mount namespace with a control group of its own, so that nothing of the host's is touched and nothing is left.

    python -m benchmarks.tune_scale [--drivers ebpf,route] [--sizes 1000,100000]
    python -m benchmarks.tune_scale --here ...     in the namespaces one is in: a guest, which ends anyway
    python -m benchmarks.tune_scale 1000000        each command with so many, beside its goal and its peers
                                                   (--drivers)

Where this host has not the module, kmod is measured on the lab's kernel, User-Mode Linux in real time: what a program
touches for the first time, and every system call, costs many times what it costs elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from benchmarks import tune_commands
from configtron.model.nouns import Profile
from configtron.model.protocols import Driver
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers import DRIVERS, load
from configtron.tune.drivers.bpf import pins
from configtron.tune.rules import difference
from tests.support import guest_module
from tests.support.isolation import apart

# Drivers that set a whole namespace and know no prefixes.
WHOLE = ("sysctl",)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
CHANGED = 100
# Drivers that act on a control group; the others on the namespace, which is ours too.
BY_GROUP = ("ebpf",)
# Drivers whose commands are measured: they need no module.
COMMANDS_OF = ("ebpf", "route")
PROFILES = {name: Profile(name, settings) for name, settings in tune_commands.SETTINGS.items()}
SCALE_COLUMNS = ("apply s", "apply cpu", "diff ms", "diff worst", "diff cpu", "read s", "revert s", "complete")
# The first change after so many finds caches cold; the median of these is printed beside the worst.
DIFFS = 5
# A million prefixes on the lab's kernel take half a minute.
LIMIT_S = 600


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure(driver: Driver, count: int) -> dict[str, object]:
    want = Rules(PROFILES, dict(tune_commands.prefix_profiles(count)), "fast")
    before = driver.before()
    try:
        row: dict[str, object] = {}
        first = difference(Rules(), want)
        back: list[Rules] = []
        spent = time.process_time()
        row["apply s"] = seconds(lambda: back.append(driver.apply(first)))
        # of this process, in the kernel too: what a busy machine does not stretch
        row["apply cpu"] = time.process_time() - spent
        row["read s"] = seconds(lambda: back.append(driver.read()))
        complete = all((rules.prefixes, dict(rules.profiles)) == (want.prefixes, PROFILES) for rules in back)
        took, used = [], []
        for turn in range(DIFFS):
            some = list(want.prefixes)[turn * CHANGED : (turn + 1) * CHANGED]
            other = {prefix: "slow" if want.prefixes[prefix] == "fast" else "fast" for prefix in some}
            spent = time.process_time()
            took.append(seconds(lambda changed=other: back.append(driver.apply(Changes(prefixes=changed)))))  # type: ignore[misc]
            used.append(time.process_time() - spent)
            complete = complete and back[-1].prefixes == other
        row["diff ms"], row["diff worst"] = sorted(took)[DIFFS // 2] * 1000, max(took) * 1000
        row["diff cpu"] = sorted(used)[DIFFS // 2] * 1000
        row["complete"] = "yes" if complete else "NO"
    finally:
        row["revert s"] = seconds(lambda: driver.revert(before))
    return row


@contextmanager
def room() -> Iterator[str]:
    """A link with a default route, for the driver that writes routes, and a control group; both ours."""
    for command in (
        "link set lo up",
        "link add configtron0 type veth peer name configtron1",
        "addr add 192.0.2.1/24 dev configtron0",
        "link set configtron0 up",
        "link set configtron1 up",
        "route add default via 192.0.2.2",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    groups = pins.mounts("cgroup2")
    # process numbers repeat in namespaces of their own
    name = f"configtron-scale-{os.urandom(4).hex()}"
    if groups:
        (groups[0] / name).mkdir()
    try:
        yield name if groups else ""
    finally:
        subprocess.run(["ip", "link", "delete", "configtron0"], check=True)
        if groups:
            with suppress(FileNotFoundError):
                (groups[0] / name).rmdir()


def inside(name: str, count: int) -> None:
    """One driver, one size, here; the row as JSON."""
    with room() as group:
        place = Place(cgroup=group if name in BY_GROUP else "")
        driver = load(name, place)
        why = driver.missing()
        row = {"missing": why} if why else measure(driver, count)
        print(json.dumps(row))


def commands_inside(name: str, count: int) -> None:
    """The table of a driver's commands, here."""
    with room() as group:
        for line in tune_commands.table(name, group if name in BY_GROUP else "", count):
            print(line, flush=True)


def commands_apart(words: Sequence[str]) -> None:
    """The same in namespaces of their own. Errors: `SystemExit`."""
    subprocess.run(apart([sys.executable, "-m", "benchmarks.tune_scale", *words, "--here"]), check=True)


def row_of(name: str, count: int, here: bool) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.tune_scale", "--inside", name, "--sizes", str(count)]
    command = command if here else apart(command)
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=output, text=True, check=False)
        output.seek(0)
        if done.returncode:
            return {"missing": (output.read().strip().splitlines() or ["no word"])[-1]}
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drivers", default=",".join(name for name in DRIVERS if name not in WHOLE))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("count", type=int, nargs="?", help="each command of tune with so many prefixes")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    if given.count and not given.here:
        commands_apart(sys.argv[1:])
        return
    if given.count:
        for name in (name for name in given.drivers.split(",") if name in COMMANDS_OF):
            commands_inside(name, given.count)
        return
    if given.inside:
        inside(given.inside, sizes[0])
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; {CHANGED} prefixes changed, {DIFFS} times")
    print(f"{'driver':8} {'prefixes':>9} " + " ".join(f"{column:>10}" for column in SCALE_COLUMNS))
    for name in given.drivers.split(","):
        if name == "kmod" and not given.here and load(name, Place()).missing():
            in_guest(given.sizes)
            continue
        for size in sizes:
            row = row_of(name, size, given.here)
            if "missing" in row:
                print(f"{name:8} {size:9} {row['missing']}", flush=True)
                break
            print(f"{name:8} {size:9} " + " ".join(f"{cell(row[column]):>10}" for column in SCALE_COLUMNS), flush=True)


def in_guest(sizes: str) -> None:
    """kmod on the lab's kernel: prints its rows, or why there are none."""
    words = (sys.executable, "-m", "benchmarks.tune_scale", "--here", "--drivers", "kmod", "--sizes", sizes)
    code, output = guest_module.run(words, LIMIT_S)
    rows = output.splitlines()[2:]
    print("\n".join(rows) if not code else f"kmod: the guest ended with {code}: {output}", flush=True)


def cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "-" if value is None else str(value)


if __name__ == "__main__":
    main()
