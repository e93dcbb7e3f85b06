# SPDX-License-Identifier: MIT
"""How fast outcomes go into the store and come out of it, what `learn run` makes of a million, and kills.

    OMP_NUM_THREADS=1 python -m benchmarks.outcomes [THOUSANDS]

Claims: 200 000 outcomes a second in bulk, each with its decision's arm, propensity and class; a policy learns from a
million of them in flat memory; after `kill -9` at any moment the store is whole and holds every batch that it
reported. Rates are by this process's CPU (the machine may be busy) and by the clock.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from configtron.db.outcomes import BATCH, Outcomes
from configtron.learner.classes import fit
from configtron.learner.columns import ARM, Decisions
from configtron.learner.logged import Logged, taught
from configtron.learner.saved import Recipe
from tests.support import ROOT
from tests.support.worlds import clients, small_tensor

CLAIM_PER_S, KILLS = 200_000, 20
TENSOR = small_tensor(conditions=300, sites=12)
# Learners that are taken through all of them: one that counts, the product's own.
POLICIES = ("mab_nc", "thompson")


def outcomes(n: int, seed: int) -> Logged:
    """n outcomes as a manager would hand them in: 40 prefixes, 12 sites, any of 168 configurations."""
    contexts, condition = clients(TENSOR, n, seed)
    rng = np.random.default_rng(seed)
    configuration, width = rng.integers(len(TENSOR.grid), size=n), len(TENSOR.grid)
    ms = TENSOR.lookup(condition, configuration, contexts.site) * np.exp(0.1 * rng.standard_normal(n))
    codes = (np.full(n, -1), rng.integers(24, size=n), configuration, np.full(n, ARM["epsilon"]))
    made = Decisions(*codes, np.full(n, 1.0 / width), ms)
    names = tuple(f"nc{at}" for at in range(24))
    return Logged(codes[0] * 0, contexts, made, ms, rng.integers(10**18, size=n), TENSOR.grid.profiles, names)


def clock(what: str, n: int, began: tuple[float, float], claim: str = "") -> None:
    """A line: rates since `began`, a moment of CPU and of the clock."""
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    print(f"{what:34s}{n / cpu:12.0f}/s CPU{n / wall:12.0f}/s clock{peak_mb():8d} MB at most  {claim}", flush=True)


def peak_mb() -> int:
    """The most memory that this process ever held, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def now() -> tuple[float, float]:
    """CPU and clock, s."""
    return time.process_time(), time.perf_counter()


def speed(n: int, folder: Path) -> None:
    """In, out, and through learners."""
    parts = [outcomes(BATCH, seed) for seed in range(8)]
    with Outcomes(folder / "o.db") as store:
        log, began = store.begin_log("sim", "{}"), now()
        for at in range(n // BATCH):
            store.add(log, parts[at % len(parts)])
        clock(f"{n // BATCH * BATCH} outcomes in", n // BATCH * BATCH, began, f"claim {CLAIM_PER_S}/s")
        size = sum(path.stat().st_size for path in folder.iterdir())
        began = now()
        count = sum(len(part) for part in store.batches(log))
        clock(f"{count} outcomes out", count, began)
        print(f"{size / count:.0f} bytes an outcome")
        classes = fit(parts[0].contexts.points(), 24, np.random.default_rng(1))
        for name in POLICIES:
            began = now()
            recipe = Recipe(name, TENSOR.grid, TENSOR.sites, classes, 1, 10_000)
            made = recipe.make()
            found = store.begin_learner(name, name, log, recipe.text(), None, made.save())
            at, early_mb = 0, 0
            for part in store.batches(log):
                chosen = taught(made, part)
                found = store.save_learner(found, made.save(), part, chosen, made.grid.profiles, made.class_ids_)
                at += len(part)
                early_mb = early_mb or (peak_mb() if at >= count // 5 else 0)
            clock(f"{name}, an update each 10 000", count, began, f"{early_mb} MB after a fifth; claim flat")


WRITER = """
import sys
from pathlib import Path
from benchmarks.outcomes import outcomes
from configtron.db.outcomes import Outcomes
store, batch = Outcomes(Path(sys.argv[1])), outcomes(5000, 1)
log = store.begin_log("sim", "{}")
print(0, flush=True)
while True:
    store.add(log, batch)
    print(store.count(log), flush=True)
"""


def kills(folder: Path) -> int:
    """Writers killed at moments drawn at random; how many left something wrong behind."""
    chance, wrong = random.Random(1), 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", WRITER, str(folder / "k.db")]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.3))
        os.kill(writer.pid, signal.SIGKILL)
        reported = [0, *map(int, writer.communicate()[0].splitlines())][-1]
        with Outcomes(folder / "k.db") as store:
            newest = store.logs()[-1]
            whole = store._connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
            wrong += not (whole and newest.outcomes >= reported and newest.outcomes % 5000 == 0)
    print(f"{KILLS} writers killed, {newest.id} logs by then; {wrong} left something wrong; claim 0")
    return wrong


def main(thousands: int = 1000) -> int:
    """Print all of it; 1 if a kill did harm."""
    with tempfile.TemporaryDirectory() as folder:
        speed(thousands * 1000, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        return int(kills(Path(folder)) > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
