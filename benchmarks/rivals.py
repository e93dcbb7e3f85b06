# SPDX-License-Identifier: MIT
"""MABWiser and Vowpal Wabbit beside ours: the same tensor, sessions, noise, batches of feedback and configurations.

    OMP_NUM_THREADS=1 python -m benchmarks.rivals [SESSIONS [SEED [RIVAL ...]]]

Both are extras (`pip install 'configtron[rivals]'`); a line says so where they are absent. All choose among the same
templates, 32 of the same mis-specified tensor's, and learn from as many outcomes at a time: 500 in the first table,
10 000 in the second, speed and quality both at the same interval. The rivals see what our model
sees of a client (scaled logarithms of the network up to second order, the site) and, for Vowpal Wabbit, the knobs'
values. Their reward is ln(ms) less the mean of the client's class and site so far, which helps them: page load times
differ more between cells than between configurations. Settings are the libraries' own, or as their papers suggest; none
was tuned, on any seed. No rival can take an emulated tensor as a start, so ours stands here without one, too.
Quality is as in `benchmarks.simulator goals`, and once more over the first thousand: a median close to the best can be
bought with far more sessions much worse than Default. Decisions per second count choosing and learning, CPU time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from benchmarks.simulator import classes_of
from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.features import network_features
from configtron.learner.policies.thompson import Thompson, ThompsonOptions
from configtron.learner.setting import Setting
from configtron.learner.shared_model import ModelOptions
from configtron.learner.table_policy import TablePolicy
from configtron.learner.templates import templates
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic, mis_specified
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.sessions import Sessions, drawn

TEMPLATES, FIRST = 32, 1000
# Outcomes an update: what `benchmarks.simulator goals` has, and what a manager of a busy site has.
INTERVALS = (500, 10_000)
WORSE = 1.2


class Chooser(Protocol):
    """A rival: picks positions among the templates, and learns from ln(ms) relative to the cell."""

    def choose(self, seen: Contexts) -> Codes: ...

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None: ...


def columns(seen: Contexts) -> Floats:
    """(n, features): network up to second order, site."""
    found: Floats = np.concatenate((network_features(seen.points()), np.eye(len(seen.sites))[seen.site]), axis=1)
    return found


class MabWiser:
    """A MABWiser bandit. Until it has seen a batch it chooses uniformly, as its fit demands."""

    def __init__(self, make: Callable[[list[int]], Any], seed: int):
        self.bandit, self.rng, self.fitted = make(list(range(TEMPLATES))), np.random.default_rng(seed), False

    def choose(self, seen: Contexts) -> Codes:
        if not self.fitted:
            return self.rng.integers(TEMPLATES, size=len(seen))
        return np.atleast_1d(np.array(self.bandit.predict(columns(seen)), dtype=np.int64))

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None:
        teach = self.bandit.partial_fit if self.fitted else self.bandit.fit
        teach(decisions=picks, rewards=-relative_ln, contexts=columns(seen))
        self.fitted = True


class Vowpal:
    """Vowpal Wabbit with action-dependent features; its probabilities are drawn from, and learned with."""

    def __init__(self, arguments: str, world: Tensor, some: Codes, seed: int):
        from vowpalwabbit import Workspace

        asked = f"--cb_explore_adf {arguments} -q NA -q SA -q AA --quiet --random_seed {seed}"
        self.workspace, self.rng = Workspace(asked), np.random.default_rng(seed)
        settings = [world.grid.profiles[int(at)].settings for at in some]
        self.actions = ["|A " + " ".join(f"{knob}={value}" for knob, value in one) for one in settings]
        self.likely: list[float] = []

    def choose(self, seen: Contexts) -> Codes:
        picks, self.likely = [], []
        for shared in self._shared(seen):
            chance = np.array(self.workspace.predict([shared, *self.actions]))
            pick = int(self.rng.choice(TEMPLATES, p=chance / chance.sum()))
            picks.append(pick)
            self.likely.append(float(chance[pick]))
        return np.array(picks, dtype=np.int64)

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None:
        for shared, pick, cost, chance in zip(self._shared(seen), picks, relative_ln, self.likely, strict=True):
            lines = [shared, *self.actions]
            lines[1 + pick] = f"0:{cost:.5f}:{chance:.6f} {self.actions[pick]}"
            self.workspace.learn(lines)

    def _shared(self, seen: Contexts) -> list[str]:
        names = [
            " ".join(f"n{at}:{value:.4f}" for at, value in enumerate(row)) for row in network_features(seen.points())
        ]
        return [
            f"shared |N {name} |S site={seen.sites[site]}" for name, site in zip(names, seen.site.tolist(), strict=True)
        ]


def mabwiser(kind: str) -> Callable[[Tensor, Codes, int], Chooser]:
    """A maker of one of MABWiser's bandits."""

    def make(world: Tensor, some: Codes, seed: int) -> Chooser:
        from mabwiser.mab import MAB, LearningPolicy, NeighborhoodPolicy

        kinds = {
            "LinUCB": (LearningPolicy.LinUCB(alpha=1.0), None),
            "LinTS": (LearningPolicy.LinTS(alpha=1.0), None),
            "LinGreedy": (LearningPolicy.LinGreedy(epsilon=0.1), None),
            "Clusters+UCB1": (LearningPolicy.UCB1(alpha=1.0), NeighborhoodPolicy.Clusters(n_clusters=20)),
        }
        learning, near = kinds[kind]
        more = {} if near is None else {"neighborhood_policy": near}
        return MabWiser(lambda arms: MAB(arms, learning, seed=seed, **more), seed)

    return make


def vowpal(arguments: str) -> Callable[[Tensor, Codes, int], Chooser]:
    """A maker of Vowpal Wabbit with these arguments."""
    return lambda world, some, seed: Vowpal(arguments, world, some, seed)


RIVALS = {
    "mabwiser LinGreedy": mabwiser("LinGreedy"),
    "mabwiser LinUCB": mabwiser("LinUCB"),
    "mabwiser LinTS": mabwiser("LinTS"),
    "mabwiser Clusters+UCB1": mabwiser("Clusters+UCB1"),
    "vw squarecb": vowpal("--squarecb"),
    "vw regcb": vowpal("--regcbopt"),
    "vw epsilon 0.05": vowpal("--epsilon 0.05"),
}


class Ours:
    """A policy of ours in the same harness; it observes page load times, and knows how many an update has."""

    def __init__(self, made: TablePolicy):
        self.made = made
        self.chosen: Decisions

    def choose(self, seen: Contexts) -> Codes:
        self.chosen = self.made.choose_many(seen)
        return self.chosen.configuration

    def observe(self, seen: Contexts, ms: Floats) -> None:
        """Outcomes of what was chosen last."""
        self.made.observe_many(seen, self.chosen, ms)


OURS = ("thompson", "thompson, cold")


def ours(name: str, world: Tensor, some: Codes, warm: Tensor, seed: int, interval: int) -> Ours:
    """The preferred policy over the same templates, with the warm start or without; it updates itself."""
    start = warm if name == OURS[0] else None
    rng, classes = np.random.default_rng(seed), classes_of(world, seed)
    setting = Setting(world.grid, world.sites, classes, rng, update_every=interval, warm=start)
    return Ours(Thompson(setting, ThompsonOptions(model=ModelOptions(candidates=some))))


def begun(name: str, world: Tensor, some: Codes, warm: Tensor, seed: int, interval: int) -> Chooser | Ours:
    """A row's chooser. Errors: `ImportError` where its library is absent."""
    if name in OURS:
        return ours(name, world, some, warm, seed, interval)
    return RIVALS[name](world, some, seed)


def tried(chooser: Chooser | Ours, some: Codes, world: Tensor, sessions: Sessions, seed: int, interval: int) -> str:
    """A table row: quality, and decisions per CPU second."""
    n, took, classes = len(sessions), 0.0, classes_of(world, seed)
    factors, ms = Noise().factors(n, np.random.default_rng(seed + 1)), np.empty(n)
    cell = classes.of(sessions.seen) * len(world.sites) + sessions.seen.site
    total, count = np.zeros(len(classes) * len(world.sites)), np.zeros(len(classes) * len(world.sites))
    for at in range(0, n, interval):
        rows = slice(at, min(n, at + interval))
        here = sessions.seen[rows]
        before = time.process_time()
        picks = chooser.choose(here)
        took += time.process_time() - before
        configuration = picks if isinstance(chooser, Ours) else some[picks]
        ms[rows] = world.lookup(sessions.condition[rows], configuration, here.site)
        noisy = np.log(ms[rows] * factors[rows])
        np.add.at(total, cell[rows], noisy)
        np.add.at(count, cell[rows], 1.0)
        before = time.process_time()
        if isinstance(chooser, Ours):
            chooser.observe(here, np.exp(noisy))
        else:
            chooser.learn(here, picks, noisy - total[cell[rows]] / count[cell[rows]])
        took += time.process_time() - before
    site = sessions.seen.site
    best = world.best_ms[sessions.condition, site]
    away, default = ms / best - 1.0, world.lookup(sessions.condition, np.full(n, world.grid.default), site)
    shares = np.median(away[:FIRST]), np.median(away[n // 2 :]), np.percentile(away[n // 2 :], 95)
    numbers, excess, worse = "".join(f"{share:12.3f}" for share in shares), ms - best, ms > WORSE * default
    both = "".join(f"{excess[:upto].mean():12.0f}{100 * worse[:upto].mean():11.2f}%" for upto in (n, FIRST))
    return f"{numbers}{both}{n / took:14.0f}"


def main(n: int = 20_000, seed: int = 1, *names: str) -> None:
    """Print both tables."""
    world, warm = analytic(np.random.default_rng(seed)), mis_specified(np.random.default_rng(seed + 100))
    some = templates(warm, TEMPLATES)
    sessions = drawn(world, n, np.random.default_rng(seed + 200))
    for interval in INTERVALS:
        heading = f"{n} sessions, {TEMPLATES} templates, {interval} outcomes at a time, seed {seed}"
        print(f"{heading}; distance from the best, shares")
        titles = ("first 1000", "last half", "p95", "excess ms", ">20% worse", "first 1000:", ">20% worse")
        print(f"{'':24s}" + "".join(f"{title:>12s}" for title in titles) + f"{'decisions/s':>14s}")
        for name in names or (*OURS, *RIVALS):
            try:
                chooser = begun(name, world, some, warm, seed, interval)
            except ImportError as missing:
                print(f"{name:24s}{missing.name} is not installed; pip install 'configtron[rivals]'")
                continue
            print(f"{name:24s}{tried(chooser, some, world, sessions, seed, interval)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])  # type: ignore[arg-type]  # two numbers first, then names
