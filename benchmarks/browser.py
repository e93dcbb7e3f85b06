# SPDX-License-Identifier: MIT
"""Claim: over at least 128 cells our page-load client orders configurations as Chromium does.

    python -m benchmarks.browser [FOLDER [REPEATS [PAGE...]]]     as root; needs chromium-headless-shell or chromium

Eight networks, sixteen configurations, one page (yardstick) unless others are named: each cell is loaded REPEATS times
(3) by the client and by headless Chromium, on the same servers and stack, in the same virtual time, and its median
counts. One guest for each network, one on each processor; FOLDER keeps what is done, and a second run goes on there.

Spearman's rank correlation is given over all cells, and over the configurations within each network, which is harder:
the first is carried by the networks' differences. Regret is what Chromium loses, in that network, by taking the
configuration that the client found best instead of its own best. Exit code 1: Spearman below 0.9 or median regret
above 5 %.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import correlation, median

from benchmarks.browser_inside import STACKS
from configtron.lab.testbed import loads
from configtron.lab.testbed.browser import program
from configtron.lab.uml.user_mode_linux import GuestJob, Running, UmlVirtual
from tests.support import ROOT

# From a slow mobile link to a fast one, with and without loss, near and far.
CONDITIONS = tuple(
    f"hotcloud:{name}"
    for name in ("1/50/0", "1/250/1", "5/50/0", "5/150/1", "5/500/5", "20/50/0", "20/150/2.5", "20/500/0")
)
# Two browsers' processes and the pages; a guest gets only what it touches.
MEMORY_MB = 1536
LIMIT_S = 3600
# Goals: cells compared, rank correlation over them, regret of the client's choice as a share of the load time.
LEAST_CELLS, LEAST_SPEARMAN, MOST_REGRET = 128, 0.9, 0.05


@dataclass(frozen=True)
class Cell:
    """Medians, ms, of the loads that did not fail."""

    condition: str
    page: str
    configuration: str
    ours: float
    browser: float
    failures: tuple[str, ...]


def main(folder: Path, repeats: int, pages: Sequence[str]) -> int:
    """Boot what is not done, then judge."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    undone = [name for name in CONDITIONS if not done(place(folder, name), repeats, pages)]
    print(f"{len(undone)} of {len(CONDITIONS)} networks to measure: {', '.join(undone)}", flush=True)
    measure(folder, undone, repeats, pages)
    used, pairs = getrusage(RUSAGE_CHILDREN), len(undone) * len(STACKS) * len(loads.VERSIONS) * len(pages) * repeats
    if pairs:
        each = (used.ru_utime + used.ru_stime) / pairs
        print(f"{pairs} loads by each in {time.monotonic() - began:.0f} s; {each:.2f} CPU-s for a pair, boots included")
    return report([cell for name in CONDITIONS for cell in read(place(folder, name))])


def place(folder: Path, condition: str) -> Path:
    return folder / condition.replace("/", "-").replace(":", "-")


def done(folder: Path, repeats: int, pages: Sequence[str]) -> bool:
    """Whether all cells of that network are there, with so many loads."""
    if not (folder / "exit").exists() or (folder / "exit").read_text().strip() != "0":
        return False
    rows = [json.loads(line) for line in (folder / "cells").read_text().splitlines()]
    have = {row["page"] for row in rows if len(row["ours"]) == repeats}
    return have == set(pages) and len(rows) == len(STACKS) * len(loads.VERSIONS) * len(pages)


def measure(folder: Path, conditions: Sequence[str], repeats: int, pages: Sequence[str]) -> None:
    client, _ = loads.program(), program()
    waiting, running = list(conditions), dict[int, tuple[str, Running]]()
    cores = sorted(os.sched_getaffinity(0))
    while waiting or running:
        for cpu in cores:
            if waiting and cpu not in running:
                name = waiting.pop(0)
                words = (sys.executable, "-m", "benchmarks.browser_inside", client, name, str(repeats), *pages)
                environment = (("PYTHONPATH", str(ROOT)),)
                job = GuestJob(words, place(folder, name), 1, cpu, MEMORY_MB, environment, LIMIT_S)
                running[cpu] = (name, UmlVirtual().boot(job))
        time.sleep(0.5)
        for cpu, (name, guest) in list(running.items()):
            code = guest.poll()
            if code is None:
                continue
            del running[cpu]
            print(f"{name}: {'done' if code == 0 else guest.console.read_text() + guest.last_words()}", flush=True)


def read(folder: Path) -> Iterator[Cell]:
    """The cells of one network; a cell without a single good load on both sides cannot be judged."""
    path = folder / "cells"
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        good = {who: [plt for failed, plt in row[who] if not failed] for who in ("ours", "browser")}
        failures = tuple(f"{who}: {failed}" for who in good for failed, _ in row[who] if failed)
        if all(good.values()):
            name = "/".join(map(str, [*row["stack"], row["http"]]))
            yield Cell(row["condition"], row["page"], name, median(good["ours"]), median(good["browser"]), failures)


def ranks(values: Sequence[float]) -> list[float]:
    """1 is the smallest; equal ones share their mean rank."""
    ordered = sorted(values)
    first = {value: ordered.index(value) for value in set(values)}
    return [first[value] + (ordered.count(value) + 1) / 2 for value in values]


def spearman(cells: Sequence[Cell]) -> float:
    return correlation(ranks([cell.ours for cell in cells]), ranks([cell.browser for cell in cells]))


def regret(cells: Sequence[Cell]) -> float:
    """Of one network and page: by what part Chromium is slower with the client's choice than with its own."""
    chosen = min(cells, key=lambda cell: cell.ours)
    return chosen.browser / min(cell.browser for cell in cells) - 1


def report(cells: Sequence[Cell]) -> int:
    groups: Mapping[tuple[str, str], list[Cell]] = {
        key: [cell for cell in cells if (cell.condition, cell.page) == key]
        for key in dict.fromkeys((cell.condition, cell.page) for cell in cells)
    }
    if not groups:
        print("nothing was measured")
        return 1
    print(f"{'network':20} {'page':10} cells  ratio  Spearman  regret  the client's choice")
    for (condition, page), group in groups.items():
        ratio = median(cell.browser / cell.ours for cell in group)
        choice = min(group, key=lambda cell: cell.ours).configuration
        numbers = f"{len(group):5} {ratio:6.3f} {spearman(group):9.3f} {regret(group):7.1%}"
        print(f"{condition:20} {page:10} {numbers}  {choice}")
    whole, inner = spearman(cells), median(spearman(group) for group in groups.values())
    regrets = [regret(group) for group in groups.values()]
    failed = sum(len(cell.failures) for cell in cells)
    print(f"{len(cells)} cells; Spearman {whole:.3f} over all, {inner:.3f} within a network (median)")
    print(
        f"regret of the client's choice: median {median(regrets):.1%}, most {max(regrets):.1%}; failed loads: {failed}"
    )
    return int(len(cells) < LEAST_CELLS or whole < LEAST_SPEARMAN or median(regrets) > MOST_REGRET)


if __name__ == "__main__":
    words = sys.argv[1:]
    names = words[2:] or ["yardstick"]
    repeats = int(words[1]) if len(words) > 1 else 3
    if words:
        sys.exit(main(Path(words[0]), repeats, names))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        sys.exit(main(Path(made), repeats, names))
