# SPDX-License-Identifier: MIT
"""Policies where a share of what is reported is false: distance from the best and from Default, by distortion.

    OMP_NUM_THREADS=1 python -m benchmarks.distortions [WORLDS [SESSIONS [SEED [ROW ...]]]]

Each row is a distortion (`configtron/learner/sim/distortions.py`), or `clean`; each column a policy in the same worlds:
analytic and idiosyncratic tensors in turn, from SEED on (80000), 20 000 sessions, an update each 500. Printed are the
mean excess over the best of each session's network, ms, and below it the mean load time over Default's, less one, in
per cent with Student's 95 % interval over worlds. Both are of clients' true loads without noise: what bots do, and
what broken clocks say, is not judged. `plain` is thompson with all that guards it against distortions switched off.
Policies start cold but in the rows `..., warm`, whose emulated tensor is mis-specified.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from configtron.learner import PREFERRED
from configtron.learner.table_policy import TablePolicy
from configtron.studies.sim.distortions import DISTORTIONS, distorted
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import best_ms, clients, default_ms, over
from configtron.studies.sim.world import ANALYTIC, World, tensor_of, warm_of, world

# Sessions per second of clock are 10; as many seconds make an update of 500.
EVERY_S = 50.0
PLAIN = "plain"
POLICY_COLUMNS = (PLAIN, PREFERRED, "default", "linucb", "configtron", "mab_nc")
CLEAN = "clean"
ROWS = (CLEAN, *DISTORTIONS)
WARM = ("missing-cells",)


def worlds(count: int, sessions: int, seed: int, warm: bool) -> Iterator[World]:
    """Analytic and idiosyncratic worlds in turn."""
    for at in range(count):
        tensor = tensor_of("spread", seed + at, tuple(ANALYTIC)[at % len(ANALYTIC)])
        start = warm_of(tensor, "spread", seed + at) if warm else None
        yield world(tensor, sessions, seed + at, warm=start)


def made(here: World, name: str) -> TablePolicy:
    """A column's policy in a world."""
    if name != PLAIN:
        return here.policy(name)
    return here.policy(PREFERRED, bounded=False)


def fared(here: World, name: str) -> tuple[float, float]:
    """(excess over the best, ms; mean over Default's less one), means over clients' sessions."""
    how = {"noise": here.spread, "reports": here.reports, "interval_s": EVERY_S, "delay_s": 0.0, "at_once": True}
    replay = Replay(here.sessions, here.tensor, [made(here, name)], here.noise(), **how)  # type: ignore[arg-type]
    replay.run()
    client = clients(replay)
    ms, best, default = (column[client] for column in (replay.median_ms_, best_ms(replay), default_ms(replay)))
    return float((ms - best).mean()), float(ms.mean() / default.mean() - 1.0)


def row(name: str, count: int, sessions: int, seed: int) -> str:
    """Two lines of the table."""
    warm = name in WARM or name.endswith(", warm")
    names = [] if name.startswith(CLEAN) else [name.removesuffix(", warm")]
    found = [
        [fared(distorted(here, names), column) for column in POLICY_COLUMNS]
        for here in worlds(count, sessions, seed, warm)
    ]
    excess = np.array(found)[:, :, 0].mean(axis=0)
    shares = [[100.0 * world[at][1] for world in found] for at in range(len(POLICY_COLUMNS))]
    return "".join((f"{name:20s}", *(f"{ms:20.0f}" for ms in excess), f"\n{'':20s}", *map(_interval, shares)))


def _interval(shares: list[float]) -> str:
    if len(shares) < 2:
        return f"{shares[0]:20.1f}"
    found = over(shares)
    text = f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"
    return f"{text:>20s}"


def main(*words: str) -> None:
    """Print the table."""
    count, sessions, seed = (int(word) for word in (*words[:3], *("4", "20000", "80000")[len(words[:3]) :]))
    print(f"{count} worlds, {sessions} sessions, seeds from {seed}; excess ms, and mean over Default's less one, %")
    print(f"{'':20s}" + "".join(f"{name:>20s}" for name in POLICY_COLUMNS))
    for name in words[3:] or ROWS:
        print(row(name, count, sessions, seed), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
