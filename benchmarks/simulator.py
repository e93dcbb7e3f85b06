# SPDX-License-Identifier: MIT
"""The simulator: the medians that it was made by, beside the paper's, and how fast sessions are replayed.

    OMP_NUM_THREADS=1 python -m benchmarks.simulator shapes
    OMP_NUM_THREADS=1 python -m benchmarks.simulator speed [MILLIONS [MILLIONS_OF_THE_LEARNER]]

shapes: Default's medians and the oracle's gain by trace, the paper's beside ours.
speed: a fixed policy, and the full learner with an update every 10 000 sessions; times of this process's CPU (the
machine may be busy). 16 M sessions are claimed; of fewer, the time is judged in proportion, and the line says of how
many. A claim that is missed ends with exit code 1. How policies fare, beside Default and the best static configuration,
is in `benchmarks.sealed`.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.claims import Claims
from configtron.learner import PREFERRED, Setting, policy
from configtron.learner.classes import Classes, fit
from configtron.learner.table_policy import TablePolicy
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic, mis_specified
from configtron.studies.sim.conditions import DEFAULT_MEDIAN_MS, draw
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import over
from configtron.studies.sim.sessions import USUAL, Sessions, drawn, networks_of

CLASSES, EVERY_S = 20, 50.0
# Sessions, seconds of them under a fixed policy and under the learner, sessions an update.
CLAIM_SESSIONS, CLAIM_S, CLAIM_LEARNER_S, LEARNER_EVERY = 16_000_000, 10.0, 1200.0, 10_000
# What CT reports the ensemble to gain at the median; the oracle gains no less.
PAPER_GAIN = {"pantheon": 0.19, "mawi": 0.16, "fcc": 0.112, "caida": 0.101}


def classes_of(tensor: Tensor, seed: int) -> Classes:
    """CLASSES classes over a tensor's conditions."""
    return fit(networks_of(tensor).points(), CLASSES, np.random.default_rng(seed))


def lived(row: str, world: Tensor, sessions: Sessions, warm: Tensor | None, seed: int) -> Replay:
    """A whole replay under one policy."""
    rng, own = np.random.default_rng(seed), classes_of(world, seed)
    made: TablePolicy = policy(row, Setting(world.grid, world.sites, own, rng, 0, warm, world))
    noise = np.random.default_rng(seed + 1)
    replay = Replay(sessions, world, [made], noise, interval_s=EVERY_S, delay_s=0.0, at_once=True)
    replay.run()
    return replay


def shapes() -> None:
    """Default's medians by shape, four seeds each."""
    print(f"{'shape':12s}{'Default, ms':>24s}{'paper':>8s}{'oracle gains':>16s}{'paper, learned':>16s}")
    for shape, paper_ms in DEFAULT_MEDIAN_MS.items():
        medians, gains = [], []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            tensor = analytic(rng, conditions=draw(shape, 300, rng))
            default = tensor.median_ms[:, tensor.grid.default]
            medians.append(float(np.median(default)))
            gains.append(float(np.median(1.0 - tensor.best_ms / default)))
        ours = over(medians)
        span = f"{ours.value:.0f} [{ours.low:.0f}, {ours.high:.0f}]"
        print(f"{shape:12s}{span:>24s}{paper_ms:8.0f}{over(gains).value:16.3f}{PAPER_GAIN[shape]:16.3f}")


def speed(millions: int = CLAIM_SESSIONS // 1_000_000, learner_millions: int = 1) -> int:
    """Policies over a million sessions, as often as asked; drawing them is timed apart. 1 if one is too slow."""
    claims, all_millions = Claims(), CLAIM_SESSIONS // 1_000_000
    world = analytic(np.random.default_rng(1))
    before = time.process_time()
    sessions = drawn(world, 1_000_000, np.random.default_rng(2))
    print(f"drawing a million sessions: {time.process_time() - before:.1f} CPU s")
    rows = (("default", millions, 86_400.0, None, CLAIM_S), ("cell_optimum", millions, 86_400.0, None, CLAIM_S))
    warm, every_s = mis_specified(np.random.default_rng(101)), LEARNER_EVERY / USUAL.per_s
    for name, times, interval_s, start, claim_s in (
        *rows,
        (PREFERRED, learner_millions, every_s, warm, CLAIM_LEARNER_S),
    ):
        setting = Setting(world.grid, world.sites, classes_of(world, 1), np.random.default_rng(1), 0, start, world)
        made, took = policy(name, setting), 0.0
        for at in range(times):
            replay = Replay(sessions, world, [made], np.random.default_rng(at), interval_s=interval_s)
            before = time.process_time()
            replay.run()
            took += time.process_time() - before
        whole_s = all_millions * took / times
        shown = f"{took:.1f} CPU s for {times} M sessions, {times / took:.2f} M/s; {whole_s:.0f} s for {all_millions} M"
        print(f"{name:16s}{shown}; {claims.at_most(whole_s, claim_s)}", flush=True)
    return claims.exit_code


if __name__ == "__main__":
    if sys.argv[1:2] == ["speed"]:
        sys.exit(speed(*map(int, sys.argv[2:])))
    shapes()
