# SPDX-License-Identifier: MIT
"""Claim: the testbed's time goes where this says; a page load costs half of what it did, and less than the naive ways.

    python -m benchmarks.testbed_profile [--loads N]     as root; counting needs strace

Shards of one condition that differ in one thing only: their difference is what that thing costs, in CPU seconds of the
guest, and in stops: times that a guest's process was stopped and let go on by the guest's kernel (ptrace), for a system
call or for a page that was not there. Stops are the same in each run; CPU seconds are this machine's, now.

boot            kernel, interpreter, network, certificates, bodies, servers, and one load of the smallest page
configuration   put in force and read back; and again one load
load            of the yardstick page (40 objects, 1.2 MB, TLS), --loads (30) times over HTTP/1.1 and HTTP/2
load, packets   the same by a client that wakes for each packet, as ours did before: what the claim is beside
change, forks   a link's change by `tc`, and `tc` once more to read it back
new client      a client that is started for one load, and that load of the smallest page
cell            of six loads, naive: a boot, and before each load a change by forks and a new client that wakes for each
                packet. Beside it: the same cell in a shard of its study
Exit code 1: the claim is missed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import testbed_naive as naive_ways
from benchmarks.testbed import LINK, WORKER, YARDSTICK, children_s, layout
from configtron.lab.testbed import loads, measure
from configtron.lab.testbed.measure import Guests
from configtron.lab.testbed.shard import Orders
from configtron.lab.testbed.studies import SITES
from configtron.lab.uml import user_mode_linux as uml
from configtron.lab.uml.enclosure import GuestJob, Running
from configtron.model.errors import DONE, USAGE, ConfigtronError, Missing
from configtron.model.repeats import StoppingRule
from tests.support import ROOT

LOADS = 30
# Loads whose stops are counted: they are exact, and counting is slow.
COUNTED_LOADS = 3
# How often a booting guest's kernel is looked for.
LOOK_S = 0.002
SMALLEST = "search"
# Of a cell, when the rule is content at its first look.
CELL_LOADS = 6
# Changes and clients that a naive guest makes, to be separated from its boot.
NAIVE_TIMES = 12
# The kernel of the guest lets a stopped process go on by the one request; asks what fault it was by the other.
GOES_ON, FAULT = "PTRACE_SYSEMU", "PTRACE_GETSIGINFO"
LEAST_GAIN = 2.0


class Cost(NamedTuple):
    """CPU seconds; stops in all, for a page that was not there; the host's system calls for them."""

    cpu_s: float
    stops: float
    faults: float
    calls: float

    def less(self, other: Cost, times: int = 1) -> Cost:
        """A part's cost, from a whole that has it so many times more often."""
        return Cost(*((one - two) / times for one, two in zip(self, other, strict=True)))

    def __str__(self) -> str:
        return f"{self.cpu_s:8.3f} CPU s {self.stops:9.0f} stops {self.faults:8.0f} faults {self.calls:9.0f} host calls"


@dataclass(frozen=True)
class Counting(uml.UmlVirtual):
    """A guest whose kernel's requests to the host are counted, from its first process on."""

    counts: Counter[str] = field(default_factory=Counter)
    threads: list[threading.Thread] = field(default_factory=list)

    def boot(self, job: GuestJob) -> Running:
        running = super().boot(job)
        self.threads.append(threading.Thread(target=self._count, args=(running,)))
        self.threads[-1].start()
        return running

    def _count(self, running: Running) -> None:
        while (number := kernel_of(running.pid)) is None and running.poll() is None:
            time.sleep(LOOK_S)
        words = ["strace", "-e", "trace=ptrace,wait4", "-e", "signal=none", "-p", str(number)]
        child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert child.stderr
        for line in child.stderr:
            self.counts[line[7 : line.find(",")] if line.startswith("ptrace(") else "wait4"] += 1


def kernel_of(number: int) -> int | None:
    """The guest kernel's process among a process's descendants."""
    try:
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for child in map(int, children):
            if Path(f"/proc/{child}/comm").read_text() == "linux\n":
                return child
            if found := kernel_of(child):
                return found
    except OSError:
        pass
    return None


def cpu_s_of(run: Callable[[uml.UmlVirtual], None]) -> float:
    """CPU seconds of what `run` does with a backend."""
    before = children_s()
    run(uml.UmlVirtual())
    return children_s() - before


def cost(run: Callable[[uml.UmlVirtual], None]) -> Cost:
    """Of what `run` does with a backend: twice, because counting stretches time."""
    cpu_s = cpu_s_of(run)
    counting = Counting()
    run(counting)
    for thread in counting.threads:
        thread.join()
    counts = counting.counts
    return Cost(cpu_s, counts[GOES_ON], counts[FAULT], sum(counts.values()))


def shard(orders: Orders, client: str = "") -> Callable[[uml.UmlVirtual], None]:
    """Its run, with another client than ours if need be. Errors: what its guest says."""
    guests = measure.guests(WORKER)
    command = (*guests.command[:3], client, guests.command[4]) if client else guests.command

    def run(backend: uml.UmlVirtual) -> None:
        with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
            if why := measure.perform_one(orders, Path(folder), Guests(backend, command, guests.software)).why:
                raise ConfigtronError(why)

    return run


def load_of(orders: Orders, times: int, client: str = "") -> Cost:
    """A load's: CPU seconds from many, stops from few."""

    def loaded(so_often: int) -> Callable[[uml.UmlVirtual], None]:
        return shard(replace(orders, rule=StoppingRule((so_often,))), client)

    one, each = cost(loaded(1)), len(orders.configurations)
    few = cost(loaded(COUNTED_LOADS)).less(one, (COUNTED_LOADS - 1) * each)
    return few._replace(cpu_s=(cpu_s_of(loaded(times)) - one.cpu_s) / (times - 1) / each)


def naive(what: str, times: int) -> Cost:
    """A guest of testbed_naive.py's."""

    def run(backend: uml.UmlVirtual) -> None:
        words = (sys.executable, "-m", naive_ways.__name__, loads.program(), what, str(times))
        with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
            running = backend.boot(GuestJob(words, Path(folder), 1, 0, environment=(("PYTHONPATH", str(ROOT)),)))
            if running.wait():
                raise ConfigtronError(running.console.read_text()[-2000:] + running.last_words())

    return cost(run)


def main(words: list[str]) -> int:
    times = LOADS
    if len(words) == 2 and words[0] == "--loads" and words[1].isdigit() and int(words[1]) > 1:
        times = int(words[1])
    elif words:
        print(__doc__, file=sys.stderr)
        return USAGE
    if not shutil.which("strace"):
        raise Missing("strace is not installed; run: apt-get install strace")
    show = partial(print, flush=True)
    small = layout(LINK, [SMALLEST], [1]).orders()[0]
    large = layout(LINK, [YARDSTICK], [1]).orders()[0]
    pair = tuple(two for two in large.configurations if two.name.startswith("cubic/10/pfifo_fast/"))
    large = replace(large, configurations=pair)
    boot = cost(shard(replace(small, configurations=small.configurations[:1])))
    show(f"boot           {boot}")
    change = cost(shard(small)).less(boot, len(small.configurations) - 1)
    show(f"configuration  {change}")
    load = load_of(large, times)
    show(f"load           {load}")
    before = load_of(large, times, loads.program("EACH_PACKET"))
    show(f"load, packets  {before}")
    forks, client = (naive(what, NAIVE_TIMES).less(naive(what, 0), NAIVE_TIMES) for what in naive_ways.WAYS)
    show(f"change, forks  {forks}")
    show(f"new client     {client}")
    cells = [boot.cpu_s + CELL_LOADS * (before.cpu_s + forks.cpu_s + client.cpu_s)]
    cells.append(change.cpu_s / len(SITES) + CELL_LOADS * load.cpu_s)
    show(f"cell           naive {cells[0]:.2f} CPU s, here {cells[1]:.2f}: {cells[0] / cells[1]:.1f} times")
    gain = before.cpu_s / load.cpu_s, before.stops / load.stops
    show(f"a load beside one with a wake-up for each packet: CPU {gain[0]:.2f} times less, stops {gain[1]:.2f} times")
    show(f"claim: {LEAST_GAIN:g} times")
    return DONE if gain[0] >= LEAST_GAIN else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(error, file=sys.stderr)
        sys.exit(error.code)
