# SPDX-License-Identifier: MIT
"""How long the learner takes: a suggestion beside GPyOpt's own, an update by 500 and 10 000 sessions, decisions.

    OMP_NUM_THREADS=1 python -m benchmarks.learner [suggestions|updates|decisions|peers [POLICY ...]]

Claims: a suggestion in at most 2 ms and at least 100 times as fast as GPyOpt's; an update over 10 000
sessions, with classes, tree and processes, in at most 1 s. Each figure of a line must keep them; one that does not ends
with exit code 1. Times are of this process's CPU (the machine may be busy): medians of several suggestions, means of
small updates, large ones once or twice.
GPyOpt is an extra (`pip install 'configtron[gpyopt]'`); without it its lines say so, and no ratio is judged.

peers: ours beside MABWiser's linear bandits and Vowpal Wabbit over the same 32 templates, 10 000 sessions learned
before: decisions a second one by one and in columns (claimed of each of ours: 50 000 in columns), and ms of an update
by 500 and by 10 000 outcomes (of ours without the screening, which takes outcomes as they come). The rivals are an
extra, as in `benchmarks.rivals`.

An update asks the Gaussian processes only while cells are searched; after 20 000 sessions they no longer are. A policy
that searches is therefore timed at three stages: when every cell has just tried its first samples ("searching"; there
is no tree yet), in the update that ends most searches ("searches end"; processes and tree), and after them. How many
suggestions an update asked for, on average, stands beside its time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.claims import Claims
from benchmarks.rivals import RIVALS, TEMPLATES, Chooser
from configtron.learner import Setting, policy
from configtron.learner.classes import Classes, fit
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.engines.gpyopt import GpyClassic, GpyGrid
from configtron.learner.engines.grid import GridEngine, coordinates
from configtron.learner.engines.lhc import latin
from configtron.learner.engines.suggestion import Engine, Suggestion
from configtron.learner.policies.ensemble import Ensemble
from configtron.learner.table_policy import TablePolicy
from configtron.learner.templates import templates
from configtron.model.errors import Missing
from configtron.model.grid import live_grid, paper_grid
from configtron.model.tensor import Tensor
from configtron.studies.policies.bayesian import BayesianSearch
from configtron.studies.sim.noise import Noise
from tests.support.worlds import clients, lived, small_tensor

CLAIM_SUGGESTION_MS, CLAIM_RATIO, CLAIM_UPDATE_S = 2.0, 100.0, 1.0
SESSIONS = 10_000
# Most small updates leave the shared effects as they are, some do not: over so many both are there.
SMALL_UPDATES = 20
# Updates before those that are timed, and how many are. By four every cell has tried its first samples. The seventh
# asks about all cells once more and ends most searches, so the tree is grown in it too: the most an update can do.
STAGES = {"searching": (4, 2), "searches end": (6, 1)}
SEARCHERS = (Ensemble, BayesianSearch)
PEERS = ("thompson", "linucb", "mab_nc", "mabwiser LinUCB", "mabwiser LinTS", "vw squarecb")
# Decisions a second of ours in columns; decisions that are timed one by one, and in one column.
CLAIM_DECISIONS, ALONE, COLUMN = 50_000.0, 200, 2000
POLICIES = ("configtron", "thompson", "squarecb", "linucb", "mab_nc", "bo_nc")
# Mean CPU time of an update, s, and how many suggestions it asked for; None where it never asks.
Update = tuple[float, float | None]
NONE: Codes = np.zeros(0, dtype=np.int64)


def cpu_ms(act: Callable[[], object], runs: int) -> float:
    """Median CPU time of one call, ms."""
    took = []
    for _ in range(runs):
        start = time.process_time()
        act()
        took.append(1000.0 * (time.process_time() - start))
    return float(np.median(took))


class Counted:
    """An engine, and how often it was asked."""

    def __init__(self, engine: Engine):
        self.engine, self.asked = engine, 0

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        self.asked += 1
        return self.engine.suggest(tried, ms, pending)


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


def updates(claims: Claims, *names: str) -> None:
    """Classes made anew, and updates of each learner by 10 000 and by 500 sessions of 24 classes and 12 sites."""
    tensor = small_tensor(conditions=300, sites=12)
    contexts, _ = clients(tensor, SESSIONS)
    fit(contexts.points(), 2, np.random.default_rng(1))
    start = time.process_time()
    classes = fit(contexts.points(), 24, np.random.default_rng(1))
    fit_s = time.process_time() - start
    print(f"\n{'update: CPU s, suggestions':28s}{'500':>10s}{'10 000':>17s}{'':7s}  claim: 10 000 with classes, s")
    print(f"{'classes':28s}{'':17s}{fit_s:10.3f}{'':7s}  {len(classes)} of them")
    for name in names or POLICIES:
        made = begun(name, tensor, classes)
        if isinstance(made, SEARCHERS):
            for stage, when in STAGES.items():
                small, large = (searching(name, tensor, classes, sessions, *when) for sessions in (500, SESSIONS))
                report(f"{name}, {stage}", small, large, fit_s, claims)
        lived(made, tensor, 2 * SESSIONS)
        made.update_every = 0
        large, small = updated(made, tensor, SESSIONS, 1), updated(made, tensor, 500, SMALL_UPDATES)
        report(name, small, large, fit_s, claims)


def report(row: str, small: Update, large: Update, fit_s: float, claims: Claims) -> None:
    """One line; the large update is judged together with the classes made anew."""
    both = [(seconds, "-" if asked is None else f"{asked:.0f}") for seconds, asked in (small, large)]
    figures = "".join(f"{seconds:10.3f}{asked:>7s}" for seconds, asked in both)
    print(f"{row:28s}{figures}  {claims.at_most(fit_s + large[0], CLAIM_UPDATE_S)}", flush=True)


def begun(name: str, tensor: Tensor, classes: Classes) -> TablePolicy:
    """A policy that has seen nothing; what it asks its engine, if it has one, is counted."""
    made = policy(name, Setting(tensor.grid, tensor.sites, classes, np.random.default_rng(1), 500, tensor))
    if isinstance(made, SEARCHERS):
        made.search.engine = Counted(made.search.engine)
    return made


def searching(name: str, tensor: Tensor, classes: Classes, sessions: int, after: int, times: int) -> Update:
    """Updates by that many sessions each, after so many others by which every cell went a step on."""
    made = begun(name, tensor, classes)
    made.update_every = SESSIONS
    lived(made, tensor, after * SESSIONS)
    made.update_every = 0
    return updated(made, tensor, sessions, times)


def updated(made: TablePolicy, tensor: Tensor, sessions: int, times: int) -> Update:
    """Updates after that many sessions each."""
    engine, took = made.search.engine if isinstance(made, SEARCHERS) else None, 0.0
    before = engine.asked if isinstance(engine, Counted) else 0
    for at in range(times):
        lived(made, tensor, sessions, seed=2 + at)
        start = time.process_time()
        made.update()
        took += time.process_time() - start
    return took / times, (engine.asked - before) / times if isinstance(engine, Counted) else None


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


def peers(claims: Claims, *names: str) -> None:
    """Decisions a second, and ms of an update, of ours and of other libraries' bandits."""
    tensor = small_tensor(conditions=300, sites=12)
    contexts, condition = clients(tensor, SESSIONS)
    classes, some = fit(contexts.points(), 24, np.random.default_rng(1)), templates(tensor, TEMPLATES)
    print(f"\n{'decisions/s, updates':28s}{'one by one':>12s}{'in columns':>12s}{'500, ms':>10s}{'10 000, ms':>12s}")
    for name in names or PEERS:
        try:
            made = RIVALS[name](tensor, some, 1) if name in RIVALS else begun(name, tensor, classes)
        except ImportError as missing:
            print(f"{name:28s}{missing.name} is not installed; pip install 'configtron[rivals]'")
            continue
        peer = Peer(made, tensor, contexts, condition)
        peer.update(500, SMALL_UPDATES)
        alone, many = peer.decisions(ALONE, 1), peer.decisions(COLUMN, COLUMN)
        small, large = peer.update(500, SMALL_UPDATES), peer.update(SESSIONS)
        claim = claims.at_least(many, CLAIM_DECISIONS) if isinstance(made, TablePolicy) else "-"
        print(f"{name:28s}{alone:12,.0f}{many:12,.0f}{small:10.1f}{large:12.1f}  {claim}", flush=True)


class Peer:
    """One of ours or a rival, and the sessions that it decides for and learns from."""

    def __init__(self, made: TablePolicy | Chooser, tensor: Tensor, contexts: Contexts, condition: Codes):
        self.made, self.tensor, self.contexts, self.condition = made, tensor, contexts, condition
        if isinstance(made, TablePolicy):
            made.update_every = 0

    def decisions(self, n: int, at_once: int) -> float:
        """Decisions a second of CPU time, so many at once."""
        parts = [self.contexts[at : at + at_once] for at in range(0, n, at_once)]
        choose = self.made.choose_many if isinstance(self.made, TablePolicy) else self.made.choose
        return 1000.0 * n / cpu_ms(lambda: [choose(part) for part in parts], 3)

    def update(self, sessions: int, times: int = 1) -> float:
        """Mean CPU ms of an update by that many sessions, which it decides for first."""
        took = 0.0
        for at in range(times):
            rows = np.random.default_rng(at).integers(len(self.contexts), size=sessions)
            took += self._update(self.contexts[rows], rows, Noise().factors(sessions, np.random.default_rng(at)))
        return 1000.0 * took / times

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
        self.made.learn(here, picks, np.log(noise))
        return time.process_time() - start


def main(*words: str) -> int:
    """What was asked for; 1 if a claim is missed."""
    claims = Claims()
    match words:
        case ["suggestions"]:
            suggestions(claims)
        case ["updates", *names]:
            updates(claims, *names)
        case ["decisions", *names]:
            decisions(*names)
        case ["peers", *names]:
            peers(claims, *names)
        case _:
            suggestions(claims)
            updates(claims)
            decisions()
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
