# SPDX-License-Identifier: MIT
"""What each command of `tune` takes with many prefixes, beside `ip -batch` and pyroute2: `benchmarks.tune_scale COUNT`.

Seconds of the processor, in the kernel too, of whole commands as they are typed, modules compiled before as after an
installation; the watchdog's apart. The peers write as many routes with the same metrics in a table of their own, and
have no journal, no lease and no comparison. Another folder of configtron (`--beside`) takes turns with this one.
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

from rigs import ROOT

# Seconds of the processor: of one changed prefix of a hundred thousand; of a million.
GOALS = {"one changed": 0.15, "import and apply": 4.0, "plan": 3.0, "verify": 3.0}
SETTINGS = {
    "fast": ("initcwnd=30", "tcp_congestion_control=cubic"),
    "slow": ("initcwnd=4", "tcp_congestion_control=reno"),
}
METRICS = {"fast": "initcwnd 30 congctl cubic", "slow": "initcwnd 4 congctl reno"}
# Every /24 from 11.0.0.0 on, below 127; the step has no factor in common with their number, so none comes twice.
FIRST, NETWORKS, STEP = 11 << 16, 116 << 16, 4_999_999
SEED = 1
TABLE = "77"
# pyroute2 takes half a millisecond of the processor for each.
PYROUTE2_MOST = 10_000
BY_PYROUTE2 = f"""
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


def lines(count: int) -> Iterator[tuple[str, str]]:
    """Distinct prefixes, each with one of the two profiles."""
    random = Random(SEED)
    for turn in range(count):
        number = FIRST + turn * STEP % NETWORKS
        yield f"{number >> 16}.{number >> 8 & 255}.{number & 255}.0/24", random.choice(("fast", "slow"))


def spent(words: Sequence[str], folder: Path, environment: Mapping[str, str], to: Path | None = None) -> Used:
    """Run a command there. Errors: `SystemExit` with the last line of its output."""
    began = perf_counter()
    with tempfile.TemporaryFile("w+") as complaints, open(to or os.devnull, "w") as output:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=output, stderr=complaints)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        complaints.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(words[:6])}: {(complaints.read().splitlines() or ['no word'])[-1]}")
    return Used(usage.ru_utime + usage.ru_stime, perf_counter() - began, usage.ru_maxrss / 1024)


def commands(code: Path, driver: str, group: str, count: int, scratch: Path) -> dict[str, Used]:
    """Each command of a life of so many prefixes, by the configtron in a folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(scratch / "compiled"), "PYTHONPATH": str(code)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    database, file = scratch / "db", scratch / "prefixes"
    where = ["--driver", driver, *(["--cgroup", group] if group else [])]

    def typed(*words: str) -> Used:
        return spent([sys.executable, "-m", "configtron", "--db", str(database), "tune", *words], code, environment)

    for name, settings in SETTINGS.items():
        typed("profile", "set", name, *settings)
    found = {"import": typed("prefix", "import", str(file)), "plan": typed("plan", *where)}
    found["apply"] = typed("apply", *where, "--keep")
    prefix, name = next(lines(1))
    found["set one"] = typed("prefix", "set", prefix, "slow" if name == "fast" else "fast")
    found["one changed"] = typed("apply", *where, "--keep")
    found["plan, none due"], found["verify"] = typed("plan", *where), typed("verify")
    found["rollback"] = typed("rollback", *where)
    both = found["import"], found["apply"]
    summed = Used(sum(one.cpu_s for one in both), sum(one.wall_s for one in both), max(one.memory_mb for one in both))
    return {"import and apply": summed, **found}


def peers(count: int, scratch: Path) -> dict[str, Used]:
    """The same routes by `ip -batch`, and by pyroute2 where it is installed."""
    here, environment, batch = Path(scratch), os.environ, scratch / "batch"
    route = f"via 192.0.2.2 dev configtron0 table {TABLE}"
    with batch.open("w") as file:
        file.writelines(f"route add {prefix} {route} {METRICS[name]}\n" for prefix, name in lines(count))
    prefix, name = next(lines(1))
    one = f"ip route replace {prefix} {route} {METRICS[name]}".split()
    found = {"ip -batch, all": spent(["ip", "-batch", str(batch)], here, environment)}
    found["ip route replace, one"] = spent(one, here, environment)
    found["ip route show, all"] = spent(["ip", "route", "show", "table", TABLE], here, environment)
    found["ip route flush, all"] = spent(["ip", "route", "flush", "table", TABLE], here, environment)
    if not subprocess.run([sys.executable, "-c", "import pyroute2"], capture_output=True, check=False).returncode:
        some = min(count, PYROUTE2_MOST)
        words = [sys.executable, "-c", BY_PYROUTE2, str(scratch / "prefixes"), str(some)]
        found[f"pyroute2, {some}"] = spent(words, here, environment)
        spent(["ip", "route", "flush", "table", TABLE], here, environment)
    return found


def table(driver: str, group: str, count: int, beside: Path | None) -> Iterator[str]:
    """Yield the lines of the table."""
    folders = [ROOT, *([beside] if beside else [])]
    with tempfile.TemporaryDirectory() as folder:
        found: list[dict[str, Used]] = []
        # first a few, so that no measured command compiles modules
        for some in (10, count):
            found = []
            for turn, code in enumerate(folders):
                scratch = Path(folder) / str(turn)
                scratch.mkdir(exist_ok=True)
                (scratch / "db").unlink(missing_ok=True)
                with (scratch / "prefixes").open("w") as file:
                    file.writelines(f"{prefix} {name}\n" for prefix, name in lines(some))
                found.append(commands(code, driver, group, some, scratch))
        yield f"{driver}, {count} prefixes; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
        yield f"{'command':22}{'cpu s':>8}{'goal':>6}{'wall s':>8}{'MB':>6}" + (f"{'beside':>8}" if beside else "")
        for name, used in found[0].items():
            other = f"{found[1][name].cpu_s:8.2f}" if beside else ""
            yield f"{_row(name, used, GOALS.get(name))}{other}"
        for name, used in peers(count, Path(folder) / "0").items():
            yield _row(name, used, None)


def _row(name: str, used: Used, goal: float | None) -> str:
    wanted = "" if goal is None else f"{goal:g}"
    return f"{name:22}{used.cpu_s:8.2f}{wanted:>6}{used.wall_s:8.2f}{used.memory_mb:6.0f}"
