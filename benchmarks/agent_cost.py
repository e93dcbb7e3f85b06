# SPDX-License-Identifier: MIT
"""What an agent costs its server, and whether each connection is decided, at so many new connections a second.

    python -m benchmarks.agent_cost [--rate 5000] [--seconds 20]      as root; needs clang, libbpf-dev, gcc

Goals: every connection decided; the agent takes at most 5 % of a core at 5 000 new connections a second with records
on (ALN, SIGCOMM 2023, decided one in ten connections at that rate).

A manager with a map of 100 000 prefixes, an agent of it with the driver ebpf, both as their commands run them; a server
in C and clients in C at 100 000 addresses, one connection each: question, answer of 1000 bytes, close. Two parts:

    decided   the agent without page loads; the kernel's records are read here, and each connection must have one, with
              a class of the map, and an arm of its mix unless its client is held back
    cost      the agent with page loads (`tune agent --beacons`), thus with the reader of records and log lines:
              processor time of its processes and the watchdog (their control group's), idle and under load

The map is the policy initial's: as many classes as it makes at most, small windows more often than large ones, round
trips drawn evenly in logarithms, and the strategies that the guard permits, of which this driver lacks `resume`.

Every connection is reset by its client after the answer, which is the dearer end: the agent hands it on to the join of
error reports. No web server logs here. An agent that does nothing costs nothing and decides no connection: the figures
are beside that.

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
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from benchmarks.tune import compile_programs
from benchmarks.tune_inside import CLIENT_NET, LENGTHS, prefixes_of
from configtron.learner.initial.initial_strategies import FIXED_WINDOW, MOST_INITIAL
from configtron.learner.initial.quantisation import MAX_CWND
from configtron.learner.window_classes import SHARES, cut_class, joined_classes, path_classes, permitted
from configtron.learner.window_maker import profiles_and_mixes
from configtron.model.close_records import CloseRecord
from configtron.model.errors import Missing
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Place
from configtron.service.fleet import enrolment
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.tune.drivers.bpf import pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.guard import Limits, why_not
from tests.support import ROOT
from tests.support.children import child
from tests.support.isolation import apart
from tests.support.loopback import free_endpoint
from tests.support.waiting import until

# Process numbers begin anew in there.
GROUP = f"configtron-agent-{token_hex(4)}"
AGENT = f"{GROUP}-own"
PORT, PREFIXES = 8080, max(LENGTHS)
# Of a second: the client opens a part of the rate so often.
TURN_S = 0.05
WARM_S = 3.0
CPU_GOAL = 0.05
# Whom the agent's process without rights runs as: the kernel's overflow user, which every Linux has.
USER = pwd.getpwuid(65_534).pw_name


def map_of_clients() -> FleetMap:
    """Return a map in which each client has a prefix of its own."""
    profiles, mixes, names = strategies()
    prefixes = dict(zip(prefixes_of(PREFIXES), names, strict=True))
    return FleetMap(0, 0, profiles, mixes, prefixes, b"k" * 16, 1, holdback=3277, epoch_s=86_400, ports=(PORT,))


def strategies() -> tuple[dict[str, Profile], dict[str, Any], list[str]]:
    """Return the profiles and mixes of `MOST_CLASSES` classes of the policy `initial`, and the class of each prefix."""
    rng = np.random.default_rng(1)
    most = permitted(lambda profile: next(why_not(profile, Limits(), learned=True), ""), FIXED_WINDOW)
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
def agent(folder: Path, line: str, *more: str) -> Iterator[None]:
    """An agent's processes, with the map in force."""
    command = [sys.executable, "-m", "configtron", "--db", str(folder / "tune.db"), "tune", "--driver", "ebpf",
               "--cgroup", GROUP, "agent", "--folder", str(folder / "agent"), "--user", USER]  # fmt: skip
    subprocess.run([*command, "--join", line], check=True, stdout=subprocess.DEVNULL)
    driver, log = EbpfDriver(Place(cgroup=GROUP, listen=str(PORT))), folder / "agent.log"

    def is_applied() -> bool:
        with suppress(Missing):
            return driver.plan_state() is not None
        return False

    with grouped(AGENT) as enter, child([*command, *more], signal.SIGINT, enter, stderr=log.open("ab")) as one:
        until(lambda: is_applied() or one.poll() is not None, log.read_text)
        assert one.poll() is None, log.read_text()
        yield


@contextmanager
def grouped(name: str) -> Iterator[Callable[[], None]]:
    """A control group, and what a process calls to enter it; taken away at the end."""
    group = pins.mounts("cgroup2")[0] / name
    group.mkdir()
    try:
        yield lambda: void((group / "cgroup.procs").write_text(str(os.getpid())))
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), lambda: f"processes stay in {group}")
        group.rmdir()


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The server, in the control group; its process number."""
    words = [str(folder / "churn"), "serve", str(PORT)]
    with grouped(GROUP) as enter, child(words, prepare=enter, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


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


def used_s() -> float:
    """Return the processor time of the agent's control group, s."""
    lines = (pins.mounts("cgroup2")[0] / AGENT / "cpu.stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec")) / 1e6


def cost(visits: Visits, seconds: float) -> dict[str, Any]:
    """Measure the agent's share of a core, idle and under load."""
    driver = EbpfDriver(Place(cgroup=GROUP, listen=str(PORT)))
    time.sleep(WARM_S)
    lost, before, began = driver.lost_records(), used_s(), time.monotonic()
    time.sleep(seconds / 2)
    idle = (used_s() - before) / (time.monotonic() - began)
    visits.run(WARM_S)
    before, began = used_s(), time.monotonic()
    rate = visits.run(seconds)
    load = (used_s() - before) / (time.monotonic() - began)
    return {"rate": rate, "idle": idle, "load": load, "lost": driver.lost_records() - lost}


def inside(rate: int, seconds: float) -> None:
    """Print one line of JSON; apart from the host."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "route", "add", "local", CLIENT_NET, "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        compile_programs(folder)
        given = map_of_clients()
        with managed(folder, given) as line, served(folder) as server:
            with agent(folder, line):
                visits = Visits(folder, server, rate)
                visits.run(WARM_S)
                found = {"decided": decided(visits, seconds / 2, given), "classes": len(given.mixes),
                         "profiles": len(given.profiles)}  # fmt: skip
            pages = ("--beacons", "127.0.0.1:9315", "--log-socket", str(folder / "lines"))
            with agent(folder, line, *pages):
                found["cost"] = cost(visits, seconds)
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
    print(f"agent at {spent['rate']:.0f} connections a second, records on: {spent['load']:.1%} of a core (goal"
          f" {CPU_GOAL:.0%}), idle {spent['idle']:.1%}; {spent['lost']} records lost; a map of {PREFIXES} prefixes,"
          f" {found['classes']} classes and {found['profiles']} profiles")  # fmt: skip
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0 if seen.get("decided") == made and not spent["lost"] and spent["load"] <= CPU_GOAL else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.rate, options.seconds)
        return 0
    again = [sys.executable, "-m", "benchmarks.agent_cost", "--inside", f"--rate={options.rate}",
             f"--seconds={options.seconds}"]  # fmt: skip
    done = subprocess.run(apart(again), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return report(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
