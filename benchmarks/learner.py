"""How long the learner takes: a suggestion beside GPyOpt's own, an update by 500 and 10 000 sessions, decisions.

    OMP_NUM_THREADS=1 python -m benchmarks.learner [suggestions|updates|decisions [POLICY ...]]

Claims: a suggestion in at most 2 ms and at least 100 times GPyOpt's ask and tell; an update over 10 000 sessions, with
classes, tree and processes, in at most 1 s. Times are of this process's CPU (the machine may be busy), medians of
several.
GPyOpt is an extra (`pip install 'configtron[gpyopt]'`); without it its lines say so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from configtron.errors import Missing
from configtron.grid import live_grid, paper_grid
from configtron.learner import Setting, policy
from configtron.learner.classes import fit
from configtron.learner.columns import Codes, Contexts
from configtron.learner.engines.gpyopt import GpyClassic, GpyGrid
from configtron.learner.engines.grid import Engine, GridEngine, coordinates
from configtron.learner.engines.lhc import latin
from configtron.learner.policy import TablePolicy
from configtron.tensor import Tensor
from tests.learner.worlds import clients, lived, small_tensor

CLAIM_SUGGESTION_MS, CLAIM_RATIO, CLAIM_UPDATE_S = 2.0, 100.0, 1.0
SESSIONS = 10_000
# Most small updates leave the shared effects as they are, some do not: over so many both are there.
SMALL_UPDATES = 20
NONE: Codes = np.zeros(0, dtype=np.int64)


def cpu_ms(act: Callable[[], object], runs: int) -> float:
    """Median CPU time of one call, ms."""
    took = []
    for _ in range(runs):
        start = time.process_time()
        act()
        took.append(1000.0 * (time.process_time() - start))
    return float(np.median(took))


def suggestions() -> None:
    """Every engine on the paper's 768 and on the 168, after 7 and 14 samples."""
    print(f"{'suggestion, CPU ms':28s}{'768, n=7':>10s}{'768, n=14':>10s}{'168, n=7':>10s}{'168, n=14':>10s}  claim")
    rows: dict[str, list[float]] = {}
    makers: dict[str, Callable[..., Engine]] = {"grid": GridEngine, "gpyopt": GpyGrid, "gpyopt-classic": GpyClassic}
    for name, make in makers.items():
        try:
            rows[name] = [one(make(grid), grid, n) for grid in (paper_grid(), live_grid()) for n in (7, 14)]
        except Missing as missing:
            print(f"{name:28s}{missing}")
            continue
        claim = f"<= {CLAIM_SUGGESTION_MS:g}" if name == "grid" else "-"
        print(f"{name:28s}" + "".join(f"{ms:10.2f}" for ms in rows[name]) + f"  {claim}")
    if "gpyopt-classic" in rows:
        ratios = [theirs / ours for theirs, ours in zip(rows["gpyopt-classic"], rows["grid"], strict=True)]
        print(f"{'gpyopt-classic / grid':28s}" + "".join(f"{x:10.0f}" for x in ratios) + f"  >= {CLAIM_RATIO:g}")


def one(engine: Engine, grid, n: int) -> float:  # type: ignore[no-untyped-def]
    """CPU ms of one suggestion after n samples of a smooth objective."""
    rng = np.random.default_rng(n)
    points = coordinates(grid)
    truth = np.exp(7.0 + 0.3 * points @ rng.standard_normal(points.shape[1]))
    tried = np.unique(np.concatenate((latin(grid, 4, rng), rng.choice(len(grid), n, replace=False))))[:n]
    return cpu_ms(lambda: engine.suggest(tried, truth[tried], NONE), 15 if isinstance(engine, GridEngine) else 3)


def updates(*names: str) -> None:
    """Classes made anew, and updates of each learner by 10 000 and by 500 sessions of 24 classes and 12 sites."""
    tensor = small_tensor(conditions=300, sites=12)
    contexts, _ = clients(tensor, SESSIONS)
    fit(contexts.points(), 2, np.random.default_rng(1))
    start = time.process_time()
    classes = fit(contexts.points(), 24, np.random.default_rng(1))
    took = time.process_time() - start
    print(f"\n{'update, CPU s':28s}{'500':>10s}{'10 000':>10s}  sessions; claim: 10 000 <= {CLAIM_UPDATE_S:g} s")
    print(f"{'classes':28s}{'':10s}{took:10.2f}  {len(classes)} of them")
    for name in names or ("configtron", "thompson", "squarecb", "linucb", "mab_nc", "bo_nc"):
        made = policy(name, Setting(tensor.grid, tensor.sites, classes, np.random.default_rng(1), 500, tensor))
        lived(made, tensor, 2 * SESSIONS)
        made.update_every = 0
        large, small = updated_s(made, tensor, SESSIONS, 1), updated_s(made, tensor, 500, SMALL_UPDATES)
        print(f"{name:28s}{small:10.3f}{large:10.3f}", flush=True)


def updated_s(made: TablePolicy, tensor: Tensor, sessions: int, times: int) -> float:
    """Mean CPU time of an update after that many sessions, s."""
    took = 0.0
    for at in range(times):
        lived(made, tensor, sessions, seed=2 + at)
        before = time.process_time()
        made.update()
        took += time.process_time() - before
    return took / times


def decisions(*names: str) -> None:
    """Decisions a second, one by one and by the column, tables as they stand."""
    tensor = small_tensor(conditions=300)
    classes = fit(Contexts(tensor.bandwidth_kbps, tensor.rtt_ms, tensor.loss, np.zeros(300, np.int64), ()).points(), 24,
                  np.random.default_rng(1))  # fmt: skip
    contexts, _ = clients(tensor, 200_000)
    single = contexts.row(0)
    print(f"\n{'decisions':28s}{'one, us':>10s}{'column, M/s':>12s}")
    for name in names or ("default", "mab_nc", "thompson", "configtron"):
        made = policy(name, Setting(tensor.grid, tensor.sites, classes, np.random.default_rng(1), 0, tensor))
        many = cpu_ms(lambda made=made: made.choose_many(contexts), 3)  # type: ignore[misc]
        alone = cpu_ms(lambda made=made: [made.choose(single) for _ in range(50)], 3)  # type: ignore[misc]
        print(f"{name:28s}{1000.0 * alone / 50:10.0f}{len(contexts) / many / 1000.0:12.2f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["suggestions"]:
            suggestions()
        case ["updates", *names]:
            updates(*names)
        case ["decisions", *names]:
            decisions(*names)
        case _:
            suggestions()
            updates()
            decisions()
