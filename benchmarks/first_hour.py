# SPDX-License-Identifier: MIT
"""The first thousand sessions of a cold start, on worlds drawn for it: what exploring costs clients.

    OMP_NUM_THREADS=1 python -m benchmarks.first_hour [WORLDS [SEED]]

WORLDS analytic and as many idiosyncratic worlds (300 networks x 12 sites x 168 configurations, 20 classes), seeds from
SEED on; outcomes every 500 sessions, no warm start. Rows: Default alone; the policy with its budget; the same without
one, that is a quarter of sessions unproven from the first on. Columns: mean page load time of the first thousand
sessions over Default's, with Student's interval over worlds, and the worst world; share of those sessions more than
20 % worse than Default; the same over all sessions of the run, and mean excess over the best, ms.
Below: the same worlds with one configuration, one knob from Default, ten times slower everywhere: sessions that got it.
A goal that is missed (at most 1 %; at most 20 sessions) ends with exit code 1.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from benchmarks.claims import Claims
from benchmarks.simulator import classes_of
from configtron.learner.policies.default import Default
from configtron.learner.policies.thompson import Thompson
from configtron.learner.setting import BUDGET, Setting
from configtron.learner.table_policy import TablePolicy
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic, idiosyncratic
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import WORSE, best_ms, default_ms, over
from configtron.studies.sim.sessions import drawn

FIRST, SESSIONS, EVERY_S, SEED = 1000, 5000, 50.0, 71_000
CLAIM_SLOWER, CLAIM_BROKEN, TIMES_SLOWER = 0.01, 20, 10.0
ROWS = ("default", "thompson", "thompson, no budget")
BROKEN = "thompson, one ten times slower"


def made(row: str, world: Tensor, seed: int) -> TablePolicy:
    """A row's policy, which has seen nothing."""
    rng = np.random.default_rng(seed)
    if row == "default":
        return Default(world.grid, rng)
    budget = None if row.endswith("no budget") else BUDGET
    return Thompson(Setting(world.grid, world.sites, classes_of(world, seed), rng, update_every=0, budget=budget))


def replayed(row: str, world: Tensor, seed: int) -> Replay:
    """A cold start's first sessions."""
    sessions = drawn(world, SESSIONS, np.random.default_rng(seed + 200))
    noise = np.random.default_rng(seed + 1)
    one = Replay(sessions, world, [made(row, world, seed)], noise, interval_s=EVERY_S, delay_s=0.0, at_once=True)
    one.run()
    return one


def figures(one: Replay) -> tuple[float, float, float, float, float]:
    """First thousand: share slower, share of sessions 20 % worse; all: the same two, and excess over the best, ms."""
    ms, default, best = one.median_ms_, default_ms(one), best_ms(one)
    worse = ms > WORSE * default
    first = ms[:FIRST].sum() / default[:FIRST].sum() - 1.0
    whole = ms.sum() / default.sum() - 1.0
    numbers = (first, worse[:FIRST].mean(), whole, worse.mean(), (ms - best).mean())
    return tuple(float(number) for number in numbers)  # type: ignore[return-value]


def broken(world: Tensor, seed: int) -> tuple[Tensor, int]:
    """The world with a configuration, one knob from Default, ten times slower; and which."""
    apart = (world.grid.positions != world.grid.positions[world.grid.default]).sum(axis=1)
    which = int(np.random.default_rng(seed).choice(np.flatnonzero(apart == 1)))
    ms = world.median_ms.copy()
    ms[:, which] *= TIMES_SLOWER
    return replace(world, median_ms=ms), which


def main(worlds: int = 5, seed: int = SEED) -> int:
    """Print the tables; 1 if a goal is missed."""
    claims = Claims()
    makers = [(make, seed + at) for make in (analytic, idiosyncratic) for at in range(worlds)]
    print(f"{len(makers)} worlds, seeds {seed} to {seed + worlds - 1}, {SESSIONS} sessions, cold")
    titles = ("first 1000, slower", "worst", ">20% worse", "all, slower", ">20% worse", "excess ms")
    print(f"{'policy':24s}{titles[0]:>26s}" + "".join(f"{title:>13s}" for title in titles[1:]))
    for row in ROWS:
        found = np.array([figures(replayed(row, make(np.random.default_rng(at)), at)) for make, at in makers])
        first, mean = over(found[:, 0].tolist()), found.mean(axis=0)
        span = f"{first.value:+.2%} [{first.low:+.2%}, {first.high:+.2%}]"
        shares = f"{found[:, 0].max():+13.2%}{mean[1]:13.2%}{mean[2]:+13.2%}{mean[3]:13.2%}"
        print(f"{row:24s}{span:>26s}{shares}{mean[4]:13.0f}", flush=True)
        if row == "thompson":
            claims.hold("first 1000, mean of worlds, slower than Default", first.value, CLAIM_SLOWER, ".4f")
    counts = []
    for make, at in makers:
        world, which = broken(make(np.random.default_rng(at)), at)
        counts.append(int((replayed("thompson", world, at).decisions_.configuration == which).sum()))
    print(f"{BROKEN}: sessions that got it: {', '.join(map(str, counts))}")
    claims.hold("sessions on it, most", max(counts), CLAIM_BROKEN, ".0f")
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
