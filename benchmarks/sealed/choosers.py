# SPDX-License-Identifier: MIT
"""Policies of ours and of other libraries behind one interface.

Other libraries choose among all of a world's configurations, and see of a client what ours may see of it: bandwidth,
round trip and loss as standardised logarithms up to second order, and the site; Vowpal Wabbit the knobs' values too.
Their reward is ln(ms) less the mean of the client's network class and site so far, with the sign changed, which helps
them: load times differ more between cells than between configurations. contextualbandits' bootstrapped policies want a
reward of 0 or 1: faster than that mean or not. Settings are the libraries' own defaults; none was tuned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sealed.play import Array, Chooser, DrawnWorld
from configtron.learner import POLICIES, PREFERRED, Setting, policy
from configtron.learner.columns import Codes, Contexts, Decisions, Floats

WARM = ", warm"
# Sessions between two batches of outcomes for our policies: one second, at ten sessions a second.
STEP = 10
ORACLES = ("static", "cell_optimum")


class Ours:
    """A policy of the product; it counts outcomes itself and updates each `interval` of them."""

    step = STEP

    def __init__(self, name: str, world: DrawnWorld, *, warm: bool):
        rng = np.random.default_rng((world.seed, 11))
        tensor, start = world.tensor, world.warm if warm else None
        weight = np.bincount(world.sessions.condition, minlength=len(tensor.names)).astype(np.float64)
        setting = Setting(tensor.grid, tensor.sites, world.classes, rng, world.interval, start, tensor, weight)
        self.made = policy(name, setting)
        self.chosen: Decisions

    def choose(self, seen: Contexts) -> Codes:
        self.chosen = self.made.choose_many(seen)
        return self.chosen.configuration

    def observe(self, seen: Contexts, picks: Codes, ms: Floats) -> None:
        self.made.observe_many(seen, self.chosen, ms)


class Theirs:
    """Common to the other libraries: features, the reward, uniform choices until the first batch of outcomes."""

    step = 1_000_000

    def __init__(self, world: DrawnWorld):
        self.world, self.arms = world, len(world.tensor.grid)
        self.rng = np.random.default_rng((world.seed, 12))
        cells = len(world.classes) * len(world.tensor.sites)
        self.total, self.count = np.zeros(cells), np.zeros(cells)
        points = _logarithms(world.tensor.bandwidth_kbps, world.tensor.rtt_ms, world.tensor.loss)
        self.middle, self.spread = points.mean(axis=0), np.maximum(points.std(axis=0), 0.1)
        self.fitted = False

    def features(self, seen: Contexts) -> Array:
        """(n, 10 + sites): one, three logarithms, their squares and products, the site."""
        x = (_logarithms(seen.bandwidth_kbps, seen.rtt_ms, seen.loss) - self.middle) / self.spread
        x = x.clip(-4.0, 4.0)
        second = np.stack([x[:, i] * x[:, j] for i in range(3) for j in range(i, 3)], axis=1)
        return np.concatenate((np.ones((len(x), 1)), x, second, np.eye(len(seen.sites))[seen.site]), axis=1)

    def choose(self, seen: Contexts) -> Codes:
        if not self.fitted:
            return self.rng.integers(self.arms, size=len(seen))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.atleast_1d(np.asarray(self.picks(seen), dtype=np.int64))

    def observe(self, seen: Contexts, picks: Codes, ms: Floats) -> None:
        cell = self.world.classes.of(seen) * len(seen.sites) + seen.site
        np.add.at(self.total, cell, np.log(ms))
        np.add.at(self.count, cell, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.learn(seen, picks, np.log(ms) - self.total[cell] / self.count[cell])
        self.fitted = True

    def picks(self, seen: Contexts) -> Any:
        raise NotImplementedError

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None:
        raise NotImplementedError


def _logarithms(kbps: Array, rtt_ms: Array, loss: Array) -> Array:
    return np.stack((np.log(kbps + 1.0), np.log(rtt_ms + 0.1), np.log(loss + 1e-4)), axis=1)


class MabWiser(Theirs):
    """MABWiser's LinUCB."""

    def __init__(self, world: DrawnWorld):
        super().__init__(world)
        from mabwiser.mab import MAB, LearningPolicy

        self.bandit = MAB(list(range(self.arms)), LearningPolicy.LinUCB(alpha=1.0), seed=world.seed % 2**31)

    def picks(self, seen: Contexts) -> Any:
        return self.bandit.predict(self.features(seen))

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None:
        teach = self.bandit.partial_fit if self.fitted else self.bandit.fit
        teach(decisions=picks, rewards=-relative_ln, contexts=self.features(seen))


class Bandits(Theirs):
    """contextualbandits: LinUCB on the reward itself, BootstrappedUCB on whether it is above 0."""

    def __init__(self, world: DrawnWorld, kind: str):
        super().__init__(world)
        from contextualbandits.online import BootstrappedUCB, LinUCB
        from sklearn.linear_model import SGDClassifier

        seed = world.seed % 2**31
        self.binary = kind != "LinUCB"
        if self.binary:
            base = SGDClassifier(loss="log_loss", random_state=seed)
            self.bandit = BootstrappedUCB(base, self.arms, batch_train=True, random_state=seed, njobs_arms=1)
        else:
            self.bandit = LinUCB(self.arms, random_state=seed, njobs=1)

    def picks(self, seen: Contexts) -> Any:
        return self.bandit.predict(self.features(seen)[:, 1:])

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None:
        reward = (relative_ln < 0).astype(np.float64) if self.binary else -relative_ln
        teach = self.bandit.partial_fit if self.fitted else self.bandit.fit
        teach(self.features(seen)[:, 1:], picks, reward)


class Vowpal(Theirs):
    """Vowpal Wabbit with action-dependent features. Choices are drawn by its probabilities, which it learns with."""

    def __init__(self, world: DrawnWorld, arguments: str):
        super().__init__(world)
        from vowpalwabbit import Workspace

        seed = world.seed % 2**31
        asked = f"--cb_explore_adf {arguments} -q NA -q SA -q AA --quiet --random_seed {seed}"
        self.workspace = Workspace(asked)
        settings = [profile.settings for profile in world.tensor.grid.profiles]
        self.actions = ["|A " + " ".join(f"{knob}={value}" for knob, value in one) for one in settings]
        self.likely: list[float] = []

    def choose(self, seen: Contexts) -> Codes:
        picks, self.likely = [], []
        for shared in self._shared(seen):
            chance = np.array(self.workspace.predict([shared, *self.actions]))
            pick = int(self.rng.choice(self.arms, p=chance / chance.sum()))
            picks.append(pick)
            self.likely.append(float(chance[pick]))
        return np.array(picks, dtype=np.int64)

    def learn(self, seen: Contexts, picks: Codes, relative_ln: Floats) -> None:
        for shared, pick, cost, chance in zip(self._shared(seen), picks, relative_ln, self.likely, strict=True):
            lines = [shared, *self.actions]
            lines[1 + pick] = f"0:{cost:.5f}:{chance:.6f} {self.actions[pick]}"
            self.workspace.learn(lines)

    def _shared(self, seen: Contexts) -> list[str]:
        rows = self.features(seen)[:, 1:10]
        names = [" ".join(f"n{at}:{value:.4f}" for at, value in enumerate(row)) for row in rows]
        return [f"shared |N {name} |S site=s{site}" for name, site in zip(names, seen.site.tolist(), strict=True)]


THEIRS: dict[str, Callable[[DrawnWorld], Chooser]] = {
    "mabwiser LinUCB": MabWiser,
    "vw squarecb": lambda world: Vowpal(world, "--squarecb"),
    "contextualbandits LinUCB": lambda world: Bandits(world, "LinUCB"),
    "contextualbandits BootstrappedUCB": lambda world: Bandits(world, "BootstrappedUCB"),
}


def readings() -> tuple[str, ...]:
    """Readings of the paper's policy: every registered policy whose name begins with `configtron`."""
    return tuple(name for name in POLICIES if name.startswith("configtron"))


# The reading that bounds all testing by the paper's degree of randomness; `configtron_unbounded` is the other.
FAIR = "configtron"


def roster() -> tuple[str, ...]:
    """Every row: constants, then learners; with a warm start too for policies that take one."""
    ours = ("mab_nc", *readings(), "linucb", "squarecb", PREFERRED)
    warm = tuple(f"{name}{WARM}" for name in ours if "warm" in POLICIES[name].takes)
    return ("default", *ORACLES, *ours, *warm, *THEIRS)


def chooser(row: str, world: DrawnWorld) -> Chooser:
    """A row's chooser. Errors: `ImportError` where its library is absent."""
    if row in THEIRS:
        return THEIRS[row](world)
    name = row.removesuffix(WARM)
    return Ours(name, world, warm=name != row)


def learns(row: str) -> bool:
    """Whether a row learns: constants and oracles do not."""
    return row != "default" and row not in ORACLES
