# SPDX-License-Identifier: MIT
"""How long the learner takes: a suggestion beside GPyOpt's own, decisions and updates beside other libraries' bandits.

    OMP_NUM_THREADS=1 python -m benchmarks.learner [suggestions|peers [POLICY ...]]

suggestions  Claims: a suggestion in at most 2 ms and at least 100 times as fast as GPyOpt's. GPyOpt is an extra
             (`pip install 'configtron[gpyopt]'`); without it its lines say so, and no ratio is judged.
peers        Ours beside MABWiser, Vowpal Wabbit and contextualbandits over the same configurations: decisions a second
             one by one and in columns, CPU s of an update by 500 and by 10 000 outcomes (of ours without the screening,
             which takes outcomes as they come). Claims, of each of ours: 50 000 decisions a second in columns; the
             update by 10 000, with the classes made anew, in at most 1 s. The others are an extra
             (`pip install 'configtron[rivals]'`). What each gains, beside Default, is in `benchmarks.sealed`.

Each figure of a line must keep its claim; one that does not ends with exit code 1. Times are of this process's CPU (the
machine may be busy): medians of several suggestions, means of small updates.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.claims import Claims
from benchmarks.sealed.choosers import THEIRS
from benchmarks.sealed.play import Chooser, DrawnWorld
from configtron.learner import Setting, policy
from configtron.learner.classes import fit
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.engines.gpyopt import GpyClassic, GpyGrid
from configtron.learner.engines.grid import GridEngine, coordinates
from configtron.learner.searches import Engine, latin
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import Missing
from configtron.model.grid import live_grid, paper_grid
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.sessions import Sessions
from tests.support.worlds import clients, small_tensor

CLAIM_SUGGESTION_MS, CLAIM_RATIO, CLAIM_UPDATE_S = 2.0, 100.0, 1.0
SESSIONS = 10_000
# Most small updates leave the shared effects as they are, some do not: over so many both are there.
SMALL_UPDATES = 20
PEERS = ("configtron", "thompson", "squarecb", "linucb", "mab_nc", "bo_nc", *THEIRS)
# Decisions a second of ours in columns; decisions that are timed one by one, and in one column.
CLAIM_DECISIONS, ALONE, COLUMN = 50_000.0, 200, 2000
NONE: Codes = np.zeros(0, dtype=np.int64)


def cpu_ms(act: Callable[[], object], runs: int) -> float:
    """Median CPU time of one call, ms."""
    took = []
    for _ in range(runs):
        start = time.process_time()
        act()
        took.append(1000.0 * (time.process_time() - start))
    return float(np.median(took))


def suggestions(claims: Claims) -> None:
    """Every engine on the paper's 768 and on the 168, after 7 and 14 samples."""
    print(f"{'suggestion, CPU ms':28s}{'768, n=7':>10s}{'768, n=14':>10s}{'168, n=7':>10s}{'168, n=14':>10s}")
    rows: dict[str, list[float]] = {}
    makers: dict[str, Callable[..., Engine]] = {"grid": GridEngine, "gpyopt": GpyGrid, "gpyopt-classic": GpyClassic}
    for name, make in makers.items():
        try:
            rows[name] = [one(make(grid), grid, n) for grid in (paper_grid(), live_grid()) for n in (7, 14)]
        except Missing as missing:
            print(f"{name:28s}{missing}")
            continue
        claim = claims.at_most(max(rows[name]), CLAIM_SUGGESTION_MS) if name == "grid" else "-"
        print(f"{name:28s}" + "".join(f"{ms:10.2f}" for ms in rows[name]) + f"  {claim}")
    if "gpyopt-classic" in rows:
        ratios = [theirs / ours for theirs, ours in zip(rows["gpyopt-classic"], rows["grid"], strict=True)]
        claim = claims.at_least(min(ratios), CLAIM_RATIO)
        print(f"{'gpyopt-classic / grid':28s}" + "".join(f"{x:10.0f}" for x in ratios) + f"  {claim}")


def one(engine: Engine, grid, n: int) -> float:  # type: ignore[no-untyped-def]
    """CPU ms of one suggestion after n samples of a smooth objective."""
    rng = np.random.default_rng(n)
    points = coordinates(grid)
    truth = np.exp(7.0 + 0.3 * points @ rng.standard_normal(points.shape[1]))
    tried = np.unique(np.concatenate((latin(grid, 4, rng), rng.choice(len(grid), n, replace=False))))[:n]
    return cpu_ms(lambda: engine.suggest(tried, truth[tried], NONE), 15 if isinstance(engine, GridEngine) else 3)


def peers(claims: Claims, *names: str) -> None:
    """Print decisions a second, and s of an update, of ours and of other libraries' bandits."""
    tensor = small_tensor(conditions=300, sites=12)
    contexts, condition = clients(tensor, SESSIONS)
    fit(contexts.points(), 2, np.random.default_rng(1))  # libraries are loaded then
    start = time.process_time()
    classes = fit(contexts.points(), 24, np.random.default_rng(1))
    fit_s = time.process_time() - start
    sessions = Sessions(np.zeros(SESSIONS), condition, np.full(SESSIONS, np.inf), condition, contexts)
    level = np.ones(SESSIONS)
    world = DrawnWorld("peers", tensor, sessions, classes, level, np.nan * level, None, 0, 1)
    print(f"{len(classes)} classes made in {fit_s:.3f} s")
    print(f"{'decisions/s, updates':34s}{'one by one':>12s}{'in columns':>12s}{'500, s':>10s}{'10 000, s':>12s}")
    for name in names or PEERS:
        setting = Setting(tensor.grid, tensor.sites, classes, np.random.default_rng(1), 0, tensor)
        try:
            made = THEIRS[name](world) if name in THEIRS else policy(name, setting)
        except ImportError as missing:
            print(f"{name:34s}{missing.name} is not installed; pip install 'configtron[rivals]'")
            continue
        peer = Peer(made, tensor, contexts, condition)
        peer.update(SESSIONS)
        alone, many = peer.decisions(ALONE, 1), peer.decisions(COLUMN, COLUMN)
        small, large = peer.update(500, SMALL_UPDATES), peer.update(SESSIONS)
        claim = "-"
        if isinstance(made, TablePolicy):
            claim = f"{claims.at_least(many, CLAIM_DECISIONS)}; {claims.at_most(fit_s + large, CLAIM_UPDATE_S)}"
        print(f"{name:34s}{alone:12,.0f}{many:12,.0f}{small:10.3f}{large:12.3f}  {claim}", flush=True)


class Peer:
    """One of ours or a rival, and the sessions that it decides for and learns from."""

    def __init__(self, made: TablePolicy | Chooser, tensor: Tensor, contexts: Contexts, condition: Codes):
        self.made, self.tensor, self.contexts, self.condition = made, tensor, contexts, condition

    def decisions(self, n: int, at_once: int) -> float:
        """Decisions a second of CPU time, so many at once."""
        parts = [self.contexts[at : at + at_once] for at in range(0, n, at_once)]
        choose = self.made.choose_many if isinstance(self.made, TablePolicy) else self.made.choose
        return 1000.0 * n / cpu_ms(lambda: [choose(part) for part in parts], 3)

    def update(self, sessions: int, times: int = 1) -> float:
        """Mean CPU s of an update by that many sessions, which it decides for first."""
        took = 0.0
        for at in range(times):
            rows = np.random.default_rng(at).integers(len(self.contexts), size=sessions)
            took += self._update(self.contexts[rows], rows, Noise().factors(sessions, np.random.default_rng(at)))
        return took / times

    def _update(self, here: Contexts, rows: Codes, noise: Floats) -> float:
        if isinstance(self.made, TablePolicy):
            chosen = self.made.choose_many(here)
            ms = self.tensor.lookup(self.condition[rows], chosen.configuration, here.site) * noise
            self.made.observe_many(here, chosen, ms)
            start = time.process_time()
            self.made.update()
            return time.process_time() - start
        picks = self.made.choose(here)
        start = time.process_time()
        self.made.observe(here, picks, noise)
        return time.process_time() - start


def main(*words: str) -> int:
    """What was asked for; 1 if a claim is missed."""
    claims = Claims()
    if words[:1] != ("peers",):
        suggestions(claims)
    if words[:1] != ("suggestions",):
        peers(claims, *words[1:])
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
