# SPDX-License-Identifier: MIT
"""Claim: over 60 cells without loss, page load times in virtual time are those of real time: median difference 2 %.

    python -m benchmarks.testbed_real [--conditions N] [--loads N]     as root, on a machine that does nothing else

The same cells (HotCloud's loss-free conditions, five drawn configurations each, three sites in turn) are measured by
the same kernel, servers and client twice: in virtual time, where computing takes none, and in real time, where it takes
what it takes. Real time is User-Mode Linux without `time-travel`, one guest a core: its processes are dearer than a
real machine's (a system call costs some microseconds), so the difference is an upper bound of what virtual time leaves
out. Namespaces of this host's kernel would be cheaper, but not every host, and not this one, has netem.
`again` is virtual time beside itself with another seed: what chance alone does to six connections that share a queue.
With --conditions (12, all) and --loads (2) of each cell, of which the median is taken. Exit code 1: a claim is missed.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.testbed import CORES, WORKER, layout
from configtron.lab.testbed import measure
from configtron.lab.testbed.families import hotcloud
from configtron.lab.testbed.measure import Guests
from configtron.lab.testbed.shard import Orders
from configtron.lab.uml import user_mode_linux as uml
from configtron.model.errors import DONE, USAGE, ConfigtronError

# One connection's page, one of two origins, one of three.
SITES = ("search", "bank", "blog")
# Drawn in each condition: with all twelve, 60 cells.
CONFIGURATIONS = 5
MOST_MEDIAN, MOST_MEAN = 0.02, 0.05
SHOWN = 6

Cell = tuple[str, str, str]


class Spread(NamedTuple):
    """Of the differences of some cells, as fractions."""

    cells: int
    median: float
    mean: float
    signed: float
    most: float

    def __str__(self) -> str:
        shown = f"median {self.median:6.2%}  mean {self.mean:6.2%}  signed median {self.signed:+7.2%}"
        return f"{self.cells:3} cells: {shown}  most {self.most:6.2%}"


def shards(conditions: int, loads: int, seed: int) -> list[Orders]:
    """So many of the loss-free conditions, each with configurations drawn for it and a site in turn."""
    rng = random.Random(1)
    quiet = [condition.name for condition in hotcloud() if not condition.down.loss]
    found = []
    for number, name in enumerate(quiet):
        (orders,) = layout(name, [SITES[number % len(SITES)]], [loads], study="hotcloud", seed=seed).orders()
        found.append(replace(orders, configurations=tuple(rng.sample(orders.configurations, CONFIGURATIONS))))
    stretch = len(found) / conditions
    return [found[int(n * stretch)] for n in range(conditions)]


def measured(every: Sequence[Orders], guests: Guests) -> dict[Cell, float]:
    """Each cell's median, ms. Errors: what the guests say."""
    found: dict[Cell, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        places = [(orders, Path(folder) / str(n)) for n, orders in enumerate(every)]
        of = {orders.condition.name: orders for orders in every}
        for ended in measure.perform(places, guests, CORES, lambda seen: None):
            if ended.why:
                raise ConfigtronError(ended.why)
            for sample in ended.filled().samples:
                name = of[ended.condition].configurations[sample.configuration].name
                if sample.plt_ms is None:
                    raise ConfigtronError(f"{ended.condition} {name} {sample.site}: {sample.failed}")
                found.setdefault((ended.condition, name, sample.site), []).append(sample.plt_ms)
    return {cell: median(ms) for cell, ms in found.items()}


def spread(cells: Mapping[Cell, float], beside: Mapping[Cell, float]) -> Spread:
    """How far `cells` are from `beside`."""
    ratios = [cells[cell] / beside[cell] - 1 for cell in beside]
    sizes = [abs(ratio) for ratio in ratios]
    return Spread(len(sizes), median(sizes), fmean(sizes), median(ratios), max(sizes))


def main(words: list[str]) -> int:
    numbers = {"--conditions": 12, "--loads": 2}
    while words:
        word = words.pop(0)
        if word not in numbers or not words or not words[0].isdigit() or not int(words[0]):
            print(__doc__, file=sys.stderr)
            return USAGE
        numbers[word] = int(words.pop(0))
    conditions, loads = numbers["--conditions"], numbers["--loads"]
    virtual = measured(shards(conditions, loads, 1), measure.guests(WORKER))
    again = measured(shards(conditions, loads, 2), measure.guests(WORKER))
    clock = uml.UmlVirtual("uml-real-time", virtual_time=False)
    print(f"load before {os.getloadavg()[0]:.1f} on {CORES} cores", flush=True)
    real = measured(shards(conditions, loads, 1), measure.guests(WORKER, clock))
    print(f"load after {os.getloadavg()[0]:.1f}")
    for name in dict.fromkeys(cell[0] for cell in virtual):
        here = {cell: ms for cell, ms in virtual.items() if cell[0] == name}
        print(f"{name:18} {next(iter(here))[2]:8} {spread(real, here)}")
    print("furthest apart:")
    for cell in sorted(virtual, key=lambda cell: -abs(real[cell] / virtual[cell] - 1))[:SHOWN]:
        times = f"virtual {virtual[cell]:8.1f} ms  real {real[cell]:8.1f} ms  {real[cell] / virtual[cell] - 1:+7.2%}"
        print(f"  {times}  {' '.join(cell)}")
    for version in ("http/1.1", "h2"):
        some = {cell: ms for cell, ms in virtual.items() if version.replace("/", "") in cell[1].replace("/", "")}
        print(f"{version:9} real beside virtual  {spread(real, some)}" if some else f"{version:9} none drawn")
    found = spread(real, virtual)
    print(f"virtual again        {spread(again, virtual)}")
    print(f"real beside virtual  {found}")
    print(f"claim: median at most {MOST_MEDIAN:.0%}, mean at most {MOST_MEAN:.0%}")
    return DONE if found.median <= MOST_MEDIAN and found.mean <= MOST_MEAN else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
