# SPDX-License-Identifier: MIT
"""Every policy on an analytic world of a validation seed: how far from the best, how soon, how often worse off.

    OMP_NUM_THREADS=1 python -m benchmarks.policies [SESSIONS_PER_CELL [SEED [ROW ...]]]

The world is `tests/support/worlds.py`'s formula with 3 % of every cell's own; the emulated tensor that some policies
start from is another seed's: other networks, 6 % of every cell's own, each of the formula's strengths off by a third.
24 classes, 6 sites, features off by 8 %, outcomes every 500 sessions. A ROW is a policy, perhaps with "cold" (no
emulated tensor) after a comma.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from configtron.learner import POLICIES, Setting, policy
from configtron.learner.classes import fit
from configtron.learner.columns import Contexts
from configtron.learner.table_policy import TablePolicy
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise
from tests.support.worlds import clients, small_tensor

CONDITIONS, SITES, CLASSES, EVERY = 300, 6, 24, 500
# Sessions whose median is the first column: the first thousand.
FIRST = 1000


def lived_ms(made: TablePolicy, tensor: Tensor, sessions: int, seed: int) -> tuple[np.ndarray, ...]:
    """(median ms of each session's choice, of the best, of Default)."""
    contexts, condition = clients(tensor, sessions, seed, noise=0.08)
    if made.SEES_TRUTH:
        columns = (tensor.bandwidth_kbps[condition], tensor.rtt_ms[condition], tensor.loss[condition])
        contexts = Contexts(*columns, contexts.site, contexts.sites)
    factors, ms, at = Noise().factors(sessions, np.random.default_rng(seed + 1)), np.empty(sessions), 0
    while at < sessions:
        rows = slice(at, min(sessions, at + min(5000, made.due())))
        here = contexts[rows]
        chosen = made.choose_many(here)
        ms[rows] = tensor.lookup(condition[rows], chosen.configuration, here.site)
        made.observe_many(here, chosen, ms[rows] * factors[rows])
        at = rows.stop
    default = tensor.lookup(condition, np.full(sessions, tensor.grid.default), contexts.site)
    return ms, tensor.best_ms[condition, contexts.site].astype(np.float64), default


def main(per_cell: int = 250, seed: int = 1, *rows: str) -> None:
    """Print the table."""
    world = small_tensor(seed, CONDITIONS, SITES, bent=0.03)
    emulated = small_tensor(seed + 100, CONDITIONS, SITES, bent=0.06)
    points = Contexts(world.bandwidth_kbps, world.rtt_ms, world.loss, np.zeros(CONDITIONS, np.int64), ()).points()
    classes = fit(points, CLASSES, np.random.default_rng(seed))
    sessions = per_cell * CLASSES * SITES
    print(f"{sessions} sessions, {CLASSES} classes x {SITES} sites, seed {seed}; distance from the best, shares")
    titles = ("first 1000", "last half", "p95", "excess ms", ">20% worse", "CPU s")
    print(f"{'policy':20s}" + "".join(f"{title:>12s}" for title in titles))
    for name in rows or (*POLICIES, "thompson, cold"):
        warm = None if "cold" in name else emulated
        rng = np.random.default_rng(seed)
        made = policy(name.split(",")[0], Setting(world.grid, world.sites, classes, rng, EVERY, warm, world))
        start = time.process_time()
        ms, best, default = lived_ms(made, world, sessions, seed)
        away, took = ms / best - 1.0, time.process_time() - start
        last = away[sessions // 2 :]
        shares = (np.median(away[:FIRST]), np.median(last), np.percentile(last, 95))
        worse = 100 * (ms > 1.2 * default).mean()
        row = "".join(f"{share:12.3f}" for share in shares)
        print(f"{name:20s}{row}{(ms - best).mean():12.0f}{worse:11.2f}%{took:12.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])  # type: ignore[arg-type]  # two numbers first, then names
