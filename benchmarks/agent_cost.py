# SPDX-License-Identifier: MIT
"""What an agent costs its server, and whether each connection is decided, at so many new connections a second.

    python -m benchmarks.agent_cost [--rate 5000] [--seconds 20] [--policy initial]
                                                                     as root; needs clang, libbpf-dev, gcc

Goals: every connection decided; the agent takes at most 5 % of a core at 5 000 new connections a second with records
on (ALN, SIGCOMM 2023, decided one in ten connections at that rate).

A manager with a map of 100 000 prefixes, an agent of it with the driver ebpf, both as their commands run them; a server
in C and clients in C at 100 000 addresses, one connection each: question, answer of 1000 bytes, close. Two parts:

    decided   the agent without page loads; the kernel's records are read here, and each connection must have one, with
              a class of the map, and an arm of its mix unless its client is held back
    cost      the agent with page loads (`tune agent --beacons`), thus with the reader of records and log lines:
              processor time and memory of its two processes, idle and under load; and how late the agent renews its
              lease under load, beyond the second between two renewals, by the kernel's own word

The map has two classes of two arms; with `--policy initial` it is that policy's: as many classes as it makes at most,
small windows more often than large ones, round trips drawn evenly in logarithms, and the strategies that the guard
permits, of which this driver lacks `resume`.

Every connection is reset by its client after the answer, which is the dearer end: the agent hands it on to the join of
error reports. No web server logs here: what a log line costs is in `benchmarks.page_loads`.

Runs in namespaces of its own (tests/support/isolation.py). Exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from benchmarks.cpu_outside import family
from benchmarks.loop import free_endpoint
from benchmarks.tune import compiled
from benchmarks.tune_inside import CLIENT_NET, LENGTHS, prefixes_of
from configtron.learner.initial.initial_strategies import FIXED_WINDOW, MOST_INITIAL
from configtron.learner.initial.quantisation import MAX_CWND
from configtron.learner.window_classes import SHARES, cut_class, joined_classes, path_classes, permitted
from configtron.learner.window_maker import INITIAL, profiles_and_mixes
from configtron.model.close_records import CloseRecord
from configtron.model.errors import Missing
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Place
from configtron.service.fleet import enrolment
from configtron.service.fleet.agent import PAGES_TURN_S
from configtron.service.fleet.applier import RENEW_S
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.guard import Limits, barred, unasked
from tests.support import ROOT
from tests.support.children import child
from tests.support.isolation import apart

# Process numbers begin anew in there.
GROUP = f"configtron-agent-{token_hex(4)}"
PORT, PREFIXES = 8080, max(LENGTHS)
# Of a second: the client opens a part of the rate so often.
TURN_S, LOOK_S = 0.05, 0.1
WARM_S, PATIENCE_S = 3.0, 60.0
CPU_GOAL = 0.05
PROFILES = {
    "fast": Profile("fast", (("initcwnd", 30), ("tcp_congestion_control", "cubic"))),
    "off": Profile("off"),
}
MIXES = {"near": (("fast", 40_000), ("off", 25_536)), "far": (("fast", 10_000), ("off", 55_536))}
# Whom the agent's process without rights runs as: the kernel's overflow user, which every Linux has.
USER = pwd.getpwuid(65_534).pw_name


def map_of_clients(policy: str) -> FleetMap:
    """Return a map in which each client has a prefix of its own. policy: `INITIAL`, or "" for two classes."""
    profiles, mixes, names = PROFILES, MIXES, list(MIXES)
    if policy == INITIAL:
        profiles, mixes, names = strategies()
    prefixes = {prefix: names[at % len(names)] for at, prefix in enumerate(prefixes_of(PREFIXES))}
    return FleetMap(0, 0, profiles, mixes, prefixes, b"k" * 16, 1, holdback=3277, epoch_s=86_400, ports=(PORT,))


def strategies() -> tuple[dict[str, Profile], dict[str, Any], list[str]]:
    """Return the profiles and mixes of `MOST_CLASSES` classes of the policy `initial`, and the class of each prefix, by
    turns."""
    rng = np.random.default_rng(1)
    most = permitted(lambda profile: next(barred(profile, Limits()), "") or unasked(profile, Limits()), FIXED_WINDOW)
    sizes = np.array([value for value in MAX_CWND.values if value <= MOST_INITIAL]).astype(np.int64)
    low = np.minimum(rng.geometric(0.15, PREFIXES), len(sizes) - 1)
    windows = np.stack([0 * low, 0 * low + FIXED_WINDOW, sizes[low - 1], sizes[low], sizes[low]], axis=1)
    rtt_ms = np.exp(rng.uniform(np.log(5.0), np.log(640.0), PREFIXES))
    every = path_classes(windows, 4 * sizes[low], rtt_ms)
    cut = {one: cut_class(one, most) for one in set(every)}
    found = joined_classes([cut[one] for one in every])
    return *profiles_and_mixes(found, SHARES), [one.name for one in found]


@contextmanager
def managed(folder: Path, given: FleetMap) -> Iterator[str]:
    """A manager's process; the line that an agent joins by."""
    options = ManagerOptions(folder / "m.db", folder / "keys", free_endpoint())
    line = enrolment.enroll(options.database, options.keys, "web1", options.endpoint).text
    maker = FixedMapMaker(given, 86_400.0)
    process = multiprocessing.get_context("fork").Process(target=run_manager, args=(options, maker))
    process.start()
    try:
        yield line
    finally:
        process.kill()
        process.join()


@contextmanager
def agent(folder: Path, line: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent's processes, with the map in force."""
    command = [sys.executable, "-m", "configtron", "--db", str(folder / "tune.db"), "tune", "--driver", "ebpf",
               "--cgroup", GROUP, "agent", "--folder", str(folder / "agent"), "--user", USER]  # fmt: skip
    subprocess.run([*command, "--join", line], check=True, stdout=subprocess.DEVNULL)
    with child([*command, *more], signal.SIGINT, stderr=(folder / "agent.log").open("ab")) as process:
        until("a map in force", lambda: plan_of(EbpfDriver(Place(cgroup=GROUP, listen=str(PORT)))), process, folder)
        yield process


def plan_of(driver: EbpfDriver) -> bool:
    """Return whether a plan is in force."""
    try:
        return driver.plan_state() is not None
    except Missing:
        return False


def until(what: str, holds: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait for something of a process."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"no {what}: {(folder / 'agent.log').read_text()[-2000:]}")
        time.sleep(0.05)


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The server, in the control group; its process number."""
    group = pins.mounts("cgroup2")[0] / GROUP
    group.mkdir()
    try:
        words = [str(folder / "churn"), "serve", str(PORT)]
        settle = (group / "cgroup.procs").write_text
        with child(words, prepare=lambda: void(settle(str(os.getpid()))), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
    finally:
        group.rmdir()


def void(_: object) -> None:
    """Take a result that nothing needs."""


class Visits:
    """Clients that open connections at a rate."""

    def __init__(self, folder: Path, server: int, rate: int) -> None:
        self._server, self._count, self.made = server, round(rate * TURN_S), 0
        words, pipe = [str(folder / "churn"), "visit"], subprocess.PIPE
        self.process: Any = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)

    def run(self, seconds: float, every: Callable[[], None] = lambda: None) -> float:
        """Open connections for so long, `every` between two turns; return how many a second."""
        began = due = time.monotonic()
        before = self.made
        while due < began + seconds:
            first = self.made % PREFIXES
            self.process.stdin.write(f"127.0.0.1 {PORT} {self._server} {self._count} {first}\n")
            self.process.stdin.flush()
            if len(self.process.stdout.readline().split()) != 5:
                raise SystemExit("the client ended")
            self.made += self._count
            every()
            due += TURN_S
            time.sleep(max(due - time.monotonic(), 0.0))
        return (self.made - before) / (time.monotonic() - began)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def decided(visits: Visits, seconds: float, given: FleetMap) -> dict[str, Any]:
    """Read the kernel's records of connections; count those with the class of their prefix and an arm, or held back."""
    driver = EbpfDriver(Place(cgroup=GROUP, listen=str(PORT)))
    list(driver.records())
    lost = driver.lost_records()
    wide = {prefix.rpartition(".")[0] for prefix in given.prefixes}
    kinds: Counter[str] = Counter()

    def look() -> None:
        for record in driver.records():
            if isinstance(record, CloseRecord):
                kinds["close records"] += 1
                continue
            kinds["open records"] += 1
            known = record.prefix.removesuffix(".0/24") in wide
            kinds["decided"] += known and record.class_name in given.mixes and (record.arm is not None or record.held)
            kinds["held back"] += record.held

    made = visits.made
    rate = visits.run(seconds, look)
    time.sleep(0.5)
    look()
    return {"made": visits.made - made, "rate": rate, "lost": driver.lost_records() - lost, **kinds}


def kind_of(pid: int) -> str:
    """Return which process of an agent that is."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    kinds = {"agent_network": "network process", "lease.watchdog": "watchdog"}
    return next((name for sign, name in kinds.items() if any(sign in word for word in words)), "root process")


def used_s(pid: int) -> float:
    """Return the processor time of a process, s: user and system, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Return a process's largest resident memory so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


class Renewals:
    """The ends of the lease as the kernel has them, seen often."""

    def __init__(self, driver: EbpfDriver) -> None:
        self._driver, self._seen = driver, list[int]()

    def look(self) -> None:
        """Take the end of the lease of now."""
        plan = self._driver.plan_state()
        if plan is not None and plan.not_after not in self._seen[-1:]:
            self._seen.append(plan.not_after)

    def late_ms(self) -> list[float]:
        """Return how late each renewal was after the one before, shortest first, ms."""
        return sorted((now - before) / 1e6 - 1e3 * RENEW_S for before, now in pairwise(self._seen))


def cost(process: subprocess.Popen[bytes], visits: Visits, seconds: float) -> dict[str, Any]:
    """Measure the agent's processes, idle and under load."""
    driver = EbpfDriver(Place(cgroup=GROUP, listen=str(PORT)))
    lost = driver.lost_records()
    time.sleep(WARM_S)
    pids = family(process.pid)
    shares: dict[str, Any] = {}
    renewals = Renewals(driver)
    for name in ("idle", "load"):
        if name == "load":
            visits.run(WARM_S)
        before, began = [used_s(pid) for pid in pids], time.monotonic()
        if name == "load":
            shares["rate"] = visits.run(seconds, renewals.look)
        else:
            time.sleep(seconds / 2)
        took = time.monotonic() - began
        shares[name] = [(used_s(pid) - was) / took for pid, was in zip(pids, before, strict=True)]
    memory = [memory_mb(pid) for pid in pids]
    names, lost = [kind_of(pid) for pid in pids], driver.lost_records() - lost
    return {**shares, "names": names, "memory": memory, "lost": lost, "late_ms": renewals.late_ms()}


def inside(rate: int, seconds: float, policy: str) -> None:
    """Print one line of JSON; apart from the host."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "route", "add", "local", CLIENT_NET, "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        compiled(folder)
        given = map_of_clients(policy)
        with managed(folder, given) as line, served(folder) as server:
            with agent(folder, line):
                visits = Visits(folder, server, rate)
                visits.run(WARM_S)
                found = {"decided": decided(visits, seconds / 2, given), "classes": len(given.mixes),
                         "profiles": len(given.profiles)}  # fmt: skip
            pages = ("--beacons", "127.0.0.1:9315", "--log-socket", str(folder / "lines"))
            with agent(folder, line, *pages) as process:
                found["cost"] = cost(process, visits, seconds)
            visits.close()
    print(json.dumps(found))


def report(found: dict[str, Any]) -> int:
    """Print what was measured; 1 if a goal is missed."""
    seen, spent = found["decided"], found["cost"]
    made = seen["made"]
    print(
        f"decided: {seen.get('decided', 0)} of {made} connections at {seen['rate']:.0f} a second"
        f" ({seen.get('held back', 0)} held back), {seen.get('close records', 0)} ends; {seen['lost']} records lost"
    )
    under, idle = sum(spent["load"]), sum(spent["idle"])
    parts = ", ".join(f"{name} {share:.1%}" for name, share in zip(spent["names"], spent["load"], strict=True))
    print(f"agent at {spent['rate']:.0f} connections a second, records on: {under:.1%} of a core (goal"
          f" {CPU_GOAL:.0%}; {parts}), idle {idle:.1%}; {spent['lost']} records lost")  # fmt: skip
    late = spent["late_ms"]
    p99 = late[min(int(0.99 * len(late)), len(late) - 1)]
    print(f"renewals of the lease under load: {len(late)}, late by {late[len(late) // 2]:.0f} ms in the median and"
          f" {p99:.0f} ms at p99, of a turn of {1e3 * PAGES_TURN_S:.0f} ms")  # fmt: skip
    parts = ", ".join(f"{name} {size:.0f} MB" for name, size in zip(spent["names"], spent["memory"], strict=True))
    print(f"memory at most: {parts}, with a map of {PREFIXES} prefixes, {found['classes']} classes and"
          f" {found['profiles']} profiles")  # fmt: skip
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0 if seen.get("decided") == made and not spent["lost"] and under <= CPU_GOAL else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--policy", choices=(INITIAL,), default="")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.rate, options.seconds, options.policy)
        return 0
    again = [sys.executable, "-m", "benchmarks.agent_cost", "--inside", f"--rate={options.rate}",
             f"--seconds={options.seconds}", *([f"--policy={options.policy}"] if options.policy else [])]  # fmt: skip
    done = subprocess.run(apart(again), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return report(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
