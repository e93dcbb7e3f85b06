# SPDX-License-Identifier: MIT
"""Cost of each command of `tune` with many prefixes, beside `ip -batch` and pyroute2: `benchmarks.tune_scale COUNT`.

CPU seconds (user and kernel) of whole commands, whose Python modules are compiled before, as after an installation. The
watchdog's seconds are not counted. The peers write as many routes with the same metrics into a table of their own; they
have no journal, no lease and no comparison.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

from tests.support import ROOT

# Seconds of the processor: of one changed prefix of a hundred thousand; of a million.
GOALS = {"one changed": 0.15, "import and apply": 4.0, "plan": 3.0, "verify": 3.0}
# Two knobs that every driver reaches for a prefix.
SETTINGS = {
    "fast": (("initcwnd", 30), ("tcp_congestion_control", "cubic")),
    "slow": (("initcwnd", 4), ("tcp_congestion_control", "reno")),
}
METRICS = {"fast": "initcwnd 30 congctl cubic", "slow": "initcwnd 4 congctl reno"}
# Every /24 from 11.0.0.0 on, below 127; the step has no factor in common with their number, so none comes twice.
FIRST, NETWORKS, STEP = 11 << 16, 116 << 16, 4_999_999
SEED = 1
TABLE = "77"
# pyroute2 takes half a millisecond of processor time for a prefix, so it gets this many at most.
PYROUTE2_MOST_PREFIXES = 10_000
PYROUTE2_PROGRAM = f"""
import sys
from pyroute2 import IPRoute
METRICS = {{"fast": {{"initcwnd": 30, "cc_algo": "cubic"}}, "slow": {{"initcwnd": 4, "cc_algo": "reno"}}}}
with IPRoute() as ip:
    link = ip.link_lookup(ifname="configtron0")[0]
    for line in open(sys.argv[1]).readlines()[: int(sys.argv[2])]:
        prefix, name = line.split()
        ip.route("replace", dst=prefix, gateway="192.0.2.2", oif=link, table={TABLE}, metrics=METRICS[name])
"""


class Used(NamedTuple):
    """Processor and wall seconds and the most memory of a command."""

    cpu_s: float
    wall_s: float
    memory_mb: float


def prefix_profiles(count: int) -> Iterator[tuple[str, str]]:
    """Yield distinct prefixes, each with one of the two profiles."""
    random = Random(SEED)
    for turn in range(count):
        number = FIRST + turn * STEP % NETWORKS
        yield f"{number >> 16}.{number >> 8 & 255}.{number & 255}.0/24", random.choice(("fast", "slow"))


def measure_command(words: Sequence[str], folder: Path, environment: Mapping[str, str], to: Path | None = None) -> Used:
    """Run a command in a folder. Errors: `SystemExit` with the last line of its output, if it fails."""
    began = perf_counter()
    with tempfile.TemporaryFile("w+") as complaints, open(to or os.devnull, "w") as output:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=output, stderr=complaints)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        complaints.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(words[:6])}: {(complaints.read().splitlines() or ['no word'])[-1]}")
    return Used(usage.ru_utime + usage.ru_stime, perf_counter() - began, usage.ru_maxrss / 1024)


def measure_tune_commands(driver: str, group: str, count: int, scratch: Path) -> dict[str, Used]:
    """Return the cost of each command from import to rollback of so many prefixes."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(scratch / "compiled"), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    database, file = scratch / "db", scratch / "prefixes"
    driver_options = ["--driver", driver, *(["--cgroup", group] if group else [])]

    def run(*words: str) -> Used:
        return measure_command(
            [sys.executable, "-m", "configtron", "--db", str(database), "tune", *words], ROOT, environment
        )

    for name, settings in SETTINGS.items():
        run("profile", "set", name, *(f"{knob}={value}" for knob, value in settings))
    found = {"import": run("prefix", "import", str(file)), "plan": run("plan", *driver_options)}
    found["apply"] = run("apply", *driver_options, "--keep")
    prefix, name = next(prefix_profiles(1))
    found["set one"] = run("prefix", "set", prefix, "slow" if name == "fast" else "fast")
    found["one changed"] = run("apply", *driver_options, "--keep")
    found["plan, none due"], found["verify"] = run("plan", *driver_options), run("verify")
    found["rollback"] = run("rollback", *driver_options)
    both = found["import"], found["apply"]
    summed = Used(sum(one.cpu_s for one in both), sum(one.wall_s for one in both), max(one.memory_mb for one in both))
    return {"import and apply": summed, **found}


def measure_peers(count: int, scratch: Path) -> dict[str, Used]:
    """Return the cost of the same routes by `ip -batch`, and by pyroute2 if it is installed."""
    here, environment, batch = Path(scratch), os.environ, scratch / "batch"
    route = f"via 192.0.2.2 dev configtron0 table {TABLE}"
    with batch.open("w") as file:
        file.writelines(f"route add {prefix} {route} {METRICS[name]}\n" for prefix, name in prefix_profiles(count))
    prefix, name = next(prefix_profiles(1))
    one = f"ip route replace {prefix} {route} {METRICS[name]}".split()
    found = {"ip -batch, all": measure_command(["ip", "-batch", str(batch)], here, environment)}
    found["ip route replace, one"] = measure_command(one, here, environment)
    found["ip route show, all"] = measure_command(["ip", "route", "show", "table", TABLE], here, environment)
    found["ip route flush, all"] = measure_command(["ip", "route", "flush", "table", TABLE], here, environment)
    if not subprocess.run([sys.executable, "-c", "import pyroute2"], capture_output=True, check=False).returncode:
        some = min(count, PYROUTE2_MOST_PREFIXES)
        words = [sys.executable, "-c", PYROUTE2_PROGRAM, str(scratch / "prefixes"), str(some)]
        found[f"pyroute2, {some}"] = measure_command(words, here, environment)
        measure_command(["ip", "route", "flush", "table", TABLE], here, environment)
    return found


def table(driver: str, group: str, count: int) -> Iterator[str]:
    """Yield the lines of the table."""
    with tempfile.TemporaryDirectory() as folder:
        scratch, found = Path(folder), dict[str, Used]()
        # first few prefixes, so that modules are compiled before commands are measured
        for some in (10, count):
            (scratch / "db").unlink(missing_ok=True)
            with (scratch / "prefixes").open("w") as file:
                file.writelines(f"{prefix} {name}\n" for prefix, name in prefix_profiles(some))
            found = measure_tune_commands(driver, group, some, scratch)
        yield f"{driver}, {count} prefixes; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
        yield f"{'command':22}{'cpu s':>8}{'goal':>6}{'wall s':>8}{'MB':>6}"
        for name, used in (found | measure_peers(count, scratch)).items():
            yield _row(name, used, GOALS.get(name))


def _row(name: str, used: Used, goal: float | None) -> str:
    wanted = "" if goal is None else f"{goal:g}"
    return f"{name:22}{used.cpu_s:8.2f}{wanted:>6}{used.wall_s:8.2f}{used.memory_mb:6.0f}"
