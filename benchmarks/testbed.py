# SPDX-License-Identifier: MIT
"""Claim: the testbed loads 20 pages of 1.2 MB a second on two cores, the same bytes each time; the study takes hours.

    python -m benchmarks.testbed [speed|smoke|same|kill|grid]... [--runs N] [--kills N] [--conditions N]     as root

speed   yardstick pages (40 objects, 1.2 MB, TLS) over 5 Mbit/s and 50 ms: loads a second and virtual seconds a second,
        in one guest and in one a core; then the same kernel in real time
smoke   `configtron learn measure --smoke`: 576 cells, of which each must have a load; at most 60 s
same    `benchmarks.testbed_same` with --runs (20): as many different shards and captures as there are
kill    the smoke measurement, four loads a cell, killed (SIGKILL) --kills times (6) at drawn moments and resumed, and
        every third time one of its guests with it: shards that were lost, at most one; no other is measured twice; the
        same tensor, byte for byte, as one left in peace. At last the measurement and all of its guests at once, as a
        machine fails
grid    what `--study hotcloud` would take: cells drawn from --conditions (6) of its conditions, by its own rule of
        repeats. A condition's cells are alike, so the interval is over conditions: a bootstrap of their means
The machine may be busy: CPU seconds of the guests stand beside those of the clock. A claim holds if it did by the
clock, or would on idle cores, by the CPU seconds. Exit code 1: a claim is missed.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from configtron.lab.testbed import measure, orphans
from configtron.lab.testbed.layout import Layout, laid_out
from configtron.lab.testbed.measure import Guests, ShardResult
from configtron.lab.testbed.shard import ORDERS, Orders
from configtron.lab.testbed.studies import STUDIES
from configtron.lab.uml import user_mode_linux as uml
from configtron.model.errors import DONE, USAGE, ConfigtronError
from configtron.model.repeats import StoppingRule

WORKER = "configtron.service.shard_guest"
PARTS = ("speed", "smoke", "same", "kill", "grid")
CORES = len(os.sched_getaffinity(0))
YARDSTICK, LINK = "yardstick", "hotcloud:5/50/0"
# Loads of a configuration: 16 configurations make 320, 7 s of a guest that has its core for itself.
SPEED_LOADS = 20
# In real time a load takes as long as it says.
REAL_LOADS = 1
# Configurations drawn in each condition of the grid: with ten sites that is 60 cells, half a minute of a core.
GRID_CONFIGURATIONS = 6
DRAWN = 2000
# The smoke tensor with longer shards, so that a kill falls into one; and how soon after a start it comes.
KILLED = ("--smoke", "--looks", "4")
KILLED_AFTER_S = (0.5, 8.0)
LEAST_LOADS_PER_S, MOST_SMOKE_S, MOST_GRID_H = 20.0, 60.0, 5.0
# Fewer means than these cannot be drawn from as if they were all there is.
LEAST_DRAWN = 6
# The grid that the claim is about.
GRID = "hotcloud"


class Took(NamedTuple):
    """What some shards took: seconds of the clock, of CPU, of virtual time; loads."""

    wall_s: float
    cpu_s: float
    virtual_s: float
    loads: int

    def __str__(self) -> str:
        rates = (self.loads / self.wall_s, self.loads / self.cpu_s, self.virtual_s / self.wall_s)
        each = "{:7.1f} loads/s   {:7.1f} loads per CPU s   {:7.1f} virtual s/s".format(*rates)
        return f"{self.loads:5} loads {self.wall_s:7.1f} s {each}"


def took(shards: Sequence[Orders], jobs: int, guests: Guests) -> tuple[Took, list[ShardResult]]:
    """Run shards and see what they took. Errors: what the guests say."""
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        began, before = time.monotonic(), children_s()
        places = [(orders, Path(folder) / str(n)) for n, orders in enumerate(shards)]
        every = list(measure.perform(places, guests, jobs, lambda seen: None))
        wall_s, cpu_s = time.monotonic() - began, children_s() - before
    if lost := [ended.why for ended in every if ended.why]:
        raise ConfigtronError(lost[0])
    filled = [ended.filled() for ended in every]
    return Took(wall_s, cpu_s, sum(f.virtual_s for f in filled), sum(len(f.samples) for f in filled)), every


def children_s() -> float:
    """CPU seconds of this process's children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def layout(condition: str, sites: Sequence[str], looks: Sequence[int], study: str = "smoke", seed: int = 1) -> Layout:
    """One condition of a study."""
    return laid_out(STUDIES[study].narrowed([condition], sites, looks), seed)


def speed() -> bool:
    """Loads a second, in virtual time and in real."""
    orders = layout(LINK, [YARDSTICK], [SPEED_LOADS]).orders()[0]
    guests = measure.guests(WORKER)
    boot, _ = took([bare(orders)], 1, guests)
    print(f"boot, servers, one load {boot.wall_s:.2f} s, {boot.cpu_s:.2f} CPU s")
    one, _ = took([orders], 1, guests)
    print(f"one guest              {one}")
    every, _ = took([replace(orders, seed=seed) for seed in range(CORES)], CORES, guests)
    print(f"{CORES} guests on {CORES} cores    {every}")
    real = measure.guests(WORKER, uml.UmlVirtual("uml-real-time", virtual_time=False))
    slow, _ = took([replace(orders, rule=StoppingRule((REAL_LOADS,)))], 1, real)
    print(f"one guest in real time {slow}")
    print(f"loads/s beside real time: {one.loads / one.wall_s / (slow.loads / slow.wall_s):.0f} times in one guest")
    idle = every.loads / every.cpu_s * CORES
    print(f"with {CORES} idle cores it would be {idle:.1f} loads/s; claim: at least {LEAST_LOADS_PER_S:g}")
    return max(idle, every.loads / every.wall_s) >= LEAST_LOADS_PER_S


def bare(orders: Orders) -> Orders:
    """The same with one load: what a boot costs."""
    return replace(orders, configurations=orders.configurations[:1], pages=orders.pages[:1], rule=StoppingRule((1,)))


def smoke() -> bool:
    """The command, as people type it, in an empty place."""
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        began, before = time.monotonic(), children_s()
        code = subprocess.run(learn(Path(folder) / "x.db", "--smoke", "-f", "jsonl")).returncode
        wall_s, cpu_s = time.monotonic() - began, children_s() - before
        cells = len(Path(f"{folder}/x.db.table").read_text().splitlines())
    claim = f"{cpu_s / CORES:.1f} s on {CORES} idle cores; claim: at most {MOST_SMOKE_S:g} s"
    print(f"smoke: {cells} cells, exit code {code}, {wall_s:.1f} s, {cpu_s:.1f} CPU s, {claim}")
    return code == DONE and cells == STUDIES["smoke"].cells and min(wall_s, cpu_s / CORES) <= MOST_SMOKE_S


def kill(times: int) -> bool:
    """Lost are shards that were begun, are not whole and that no guest is at any more."""
    rng, lost = random.Random(1), list[int]()
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        db, peace = Path(folder) / "x.db", Path(folder) / "peace.npz"
        shards = Path(f"{db}.measurements") / "1"
        for turn in range(times + 1):
            guests = CORES if turn == times else int(turn % 3 == 2)
            with_it = killed(learn(db, "--resume", "1") if turn else learn(db, *KILLED), shards, guests, rng)
            if with_it is None:
                break
            lost.append(sum(is_lost(place) for place in shards.glob("[0-9]*")))
            print(f"  killed the measurement and {with_it} guests: {lost[-1]} shards lost", flush=True)
        last = subprocess.run(learn(db, "--resume", "1", "--tensor", f"{folder}/killed.npz")).returncode
        left = subprocess.run(learn(Path(folder) / "y.db", *KILLED, "--tensor", str(peace))).returncode
        same_bytes = peace.read_bytes() == Path(f"{folder}/killed.npz").read_bytes()
        again = sum(orphans.boots(place) - 1 for place in shards.glob("[0-9]*"))
        database = sqlite3.connect(db).execute("PRAGMA integrity_check").fetchone()[0]
    single = lost[:times]
    most = max(single, default=0)
    print(f"killed {len(single)} times with {CORES} jobs: lost at most {most} shards; claim: at most 1")
    if lost[times:]:
        print(f"killed with all of its guests: lost {lost[times]} shards")
    print(f"measured twice {again} shards; database {database}; the tensor is the same bytes: {same_bytes}")
    return last == left == DONE and same_bytes and most <= 1 and again == sum(lost)


def killed(command: list[str], shards: Path, guests: int, rng: random.Random) -> int | None:
    """Run it until a drawn moment, kill it and so many of its guests; how many those were, None if it was over."""
    running = subprocess.Popen(command)
    while not shards.exists():
        time.sleep(measure.LOOK_EVERY_S)
    try:
        running.wait(rng.uniform(*KILLED_AFTER_S))
        return None
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    alive = [one for one in map(orphans.adopted, sorted(shards.glob("[0-9]*"))) if one.poll() is None]
    chosen = rng.sample(alive, min(guests, len(alive)))
    for guest in chosen:
        guest.kill()
    return len(chosen)


def is_lost(folder: Path) -> bool:
    """Whether a shard that was begun there must be measured again."""
    if not orphans.boots(folder) or orphans.adopted(folder).poll() is None:
        return False
    return not measure.whole(folder, Orders.from_json((folder / ORDERS).read_text()))


def learn(db: Path, *words: str) -> list[str]:
    """The command; its table is discarded."""
    return [sys.executable, "-m", "configtron", "-q", "--db", str(db), "learn", "measure", "-o", f"{db}.table", *words]


def grid(conditions: int) -> bool:
    """A sample of the study, and the whole of it from there."""
    study, rng, guests = STUDIES[GRID], random.Random(1), measure.guests(WORKER)
    every = laid_out(study, 1).orders()
    # one of each stretch of the study's order, so that slow, fast, lossy and clean links are all met
    stretch = len(every) / conditions
    drawn = [every[int(n * stretch + rng.random() * stretch)] for n in range(conditions)]
    shards = [replace(o, configurations=tuple(rng.sample(o.configurations, GRID_CONFIGURATIONS))) for o in drawn]
    boot, _ = took([bare(drawn[0])], 1, guests)
    total, means = Took(0.0, 0.0, 0.0, 0), []
    for orders in shards:
        one, _ = took([orders], 1, guests)
        total = Took(total[0] + one[0], total[1] + one[1], total[2] + one[2], total.loads + one.loads)
        means.append((one.cpu_s - boot.cpu_s) / orders.cells)
        print(f"  {orders.condition.name:22} {orders.cells:3} cells {one} {means[-1]:6.2f} CPU s a cell")
    hours = [hours_of(fmean(rng.choices(means, k=conditions)), boot.cpu_s, study.cells) for _ in range(DRAWN)]
    low, high = sorted(hours)[DRAWN // 40], sorted(hours)[-DRAWN // 40]
    found = hours_of(fmean(means), boot.cpu_s, study.cells)
    cells = sum(orders.cells for orders in shards)
    print(f"measured: {cells} cells, {total.loads} loads, {total.loads / cells:.1f} a cell")
    shape = f"{len(study.conditions)} x {len(study.grid)} x {len(study.sites)}"
    print(f"all {study.cells} cells ({shape}): {found:.1f} h on {CORES} idle cores, extrapolated"
          f" from {conditions} conditions; claim: {MOST_GRID_H:g} h")  # fmt: skip
    if conditions < LEAST_DRAWN:
        print("too few conditions for an interval")
        return found <= MOST_GRID_H
    print(f"95 %: {low:.1f} to {high:.1f} h")
    return high <= MOST_GRID_H


def hours_of(cell_s: float, boot_s: float, cells: int) -> float:
    """Hours on this machine's cores, were they idle."""
    return (cell_s * cells + boot_s * len(STUDIES[GRID].conditions)) / CORES / 3600


def main(words: list[str]) -> int:
    numbers = {"--runs": 20, "--kills": 6, "--conditions": 6}
    parts = []
    while words:
        word = words.pop(0)
        if word in numbers and words and words[0].isdigit() and int(words[0]):
            numbers[word] = int(words.pop(0))
        elif word in PARTS:
            parts.append(word)
        else:
            print(__doc__, file=sys.stderr)
            return USAGE
    # it uses what stands above
    from benchmarks import testbed_same

    held = []
    for part in parts or PARTS:
        print(f"-- {part}", flush=True)
        ways: dict[str, Callable[[], bool]] = {
            "speed": speed,
            "smoke": smoke,
            "same": lambda: testbed_same.same(numbers["--runs"]),
            "kill": lambda: kill(numbers["--kills"]),
            "grid": lambda: grid(numbers["--conditions"]),
        }
        held.append(ways[part]())
    return DONE if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
