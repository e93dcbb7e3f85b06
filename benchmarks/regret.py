# SPDX-License-Identifier: MIT
"""Where the preferred policy's distance from the best comes from: classes, templates, what is not known, exploration.

    OMP_NUM_THREADS=1 python -m benchmarks.regret [SESSIONS_PER_CELL [SEED ...]]

Each line takes one thing from the policy that it cannot help or has not learned; medians and 95th percentiles of the
last half of the sessions of `benchmarks.simulator goals`, on true page load times, without noise:

    best of 20 classes   the fastest configuration on the mean of each class and site: what classes cost
    best of fine ones    the same over the classes that the policy ended with
    templates            the fastest of the policy's candidates for each network and site: what 32 cost
    features alone       the policy's shared part by itself: what no feature predicts
    expected best        the configuration that the policy expects most of, at the end: what it has not learned
    served               what it served meanwhile, exploration and the measuring of Default included
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.simulator import CLASSES, classes_of, lived
from configtron.learner import PREFERRED
from configtron.learner.cell_best import cell_best
from configtron.learner.columns import Codes, Floats
from configtron.learner.policies.thompson import Thompson
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic, mis_specified
from configtron.studies.sim.sessions import Sessions, drawn, networks_of


def away(world: Tensor, sessions: Sessions, configuration: Codes) -> str:
    """Median and p95 of the distance from the best, of the last half of sessions."""
    half = slice(len(sessions) - len(configuration), None)
    condition, site = sessions.condition[half], sessions.seen.site[half]
    share = world.lookup(condition, configuration, site) / world.best_ms[condition, site] - 1.0
    return f"{np.median(share):8.3f}{np.percentile(share, 95):8.3f}"


def points_of(world: Tensor) -> Floats:
    """(conditions, 3): where classes see the tensor's own networks."""
    return networks_of(world).points()


def decomposed(per_cell: int, seed: int) -> None:
    """One world's lines."""
    world, warm = analytic(np.random.default_rng(seed)), mis_specified(np.random.default_rng(seed + 100))
    sessions = drawn(world, per_cell * CLASSES * len(world.sites), np.random.default_rng(seed + 200))
    replay = lived(PREFERRED, world, sessions, warm, seed)
    made = replay.managers[0]
    assert isinstance(made, Thompson)
    half = slice(len(sessions) // 2, None)
    seen, condition = sessions.seen[half], sessions.condition[half]
    fine, noise_ln = made.cells.classes_, made.cells.tally_.noise_ln(0.25)
    print(f"\nseed {seed}: {len(fine)} classes at the end, noise of a load {noise_ln:.3f}")
    print(f"{'':24s}{'median':>8s}{'p95':>8s}")
    row, _ = made.where(seen)
    for name, classes in (("best of 20 classes", classes_of(world, seed)), ("best of fine ones", fine)):
        best, _ = cell_best(world, classes.assign(points_of(world)), len(classes))
        print(f"{name:24s}{away(world, sessions, best[classes.of(seen), seen.site])}")
    few = made.model.candidates_
    held = few[world.median_ms[:, few].argmin(axis=1)]
    print(f"{'templates':24s}{away(world, sessions, held[condition, seen.site])}")
    model = made.model.model()
    for name, table in (("features alone", model.shared()), ("expected best", model.mean())):
        print(f"{name:24s}{away(world, sessions, few[table[:, few].argmin(axis=1)][row])}")
    print(f"{'served':24s}{away(world, sessions, replay.decisions_.configuration[half])}", flush=True)


if __name__ == "__main__":
    per_cell, *seeds = map(int, sys.argv[1:] or ["250"])
    for seed in seeds or [11]:
        decomposed(per_cell, seed)
