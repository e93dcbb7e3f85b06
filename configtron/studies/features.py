# SPDX-License-Identifier: MIT
"""The study `features`: the loss of network classes without a feature. CT Figure 8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.importance import feature_importance
from configtron.learner.table_policy import TablePolicy
from configtron.studies.sim.loop import Replay, loads
from configtron.studies.sim.metrics import distance
from configtron.studies.sim.world import CLASSES, World, chance, classes_of, world
from configtron.studies.simulated.points import RESAMPLING, Point, SessionsStudy, last_half, lived, quantiles
from configtron.studies.simulated.tensor_source import TensorSource

# Share of sites, from the heaviest on, that count as complex.
COMPLEX = 0.25
# What is hidden -> columns.
HIDDEN = {
    "all features": (),
    "without site": ("site",),
    "without loss": ("loss",),
    "without bandwidth": ("bandwidth_kbps",),
    "without latency": ("rtt_ms",),
    "latency and site": ("bandwidth_kbps", "loss"),
    "latency alone": ("bandwidth_kbps", "loss", "site"),
}
LEARNERS = ("configtron", "thompson")
NUMBERS = ("bandwidth_kbps", "rtt_ms", "loss")
# More sessions than the importance's intervals need.
MOST_EXCHANGED = 5000


class Blind:
    """A policy that is not shown some features: a number is the same for all, a site is any other."""

    LEARNS, SCREENS, SEES_TRUTH = True, False, False

    def __init__(self, policy: TablePolicy, hidden: tuple[str, ...], usual: dict[str, float]):
        self.policy, self.hidden, self.usual = policy, hidden, usual

    def choose_many(self, contexts: Contexts) -> Decisions:
        """As the policy does, of what it is shown."""
        return self.policy.choose_many(self.shown(contexts))

    def observe_many(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats, *, screened: bool = False) -> None:
        """As the policy does, of what it is shown."""
        self.policy.observe_many(self.shown(contexts), decisions, plt_ms)

    def update(self) -> None:
        """The policy's."""
        self.policy.update()

    def shown(self, contexts: Contexts) -> Contexts:
        """The contexts without what is hidden."""
        n = len(contexts)
        kbps, rtt, loss = (
            np.full(n, self.usual[name]) if name in self.hidden else getattr(contexts, name) for name in NUMBERS
        )
        site = np.full(n, -1) if "site" in self.hidden else contexts.site
        return replace(contexts, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss, site=site)


def blind(here: World, name: str, hidden: tuple[str, ...]) -> TablePolicy:
    """A policy without those features; its classes were made without them too."""
    usual = {key: float(np.median(getattr(here.tensor, key))) for key in NUMBERS}
    n = len(here.tensor.names)
    kbps, rtt, loss = (np.full(n, usual[key]) if key in hidden else getattr(here.tensor, key) for key in NUMBERS)
    flat = replace(here.tensor, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss)
    made = here.policy(name, classes=classes_of(flat, CLASSES, here.seed))
    return Blind(made, hidden, usual)  # type: ignore[return-value]


def features(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Each learner with all features, and without some."""
    here, found = world(source.tensor("spread", seed), sessions, seed), []
    slowest = np.argsort(here.tensor.median_ms[:, here.tensor.grid.default].mean(axis=0))
    heavy = slowest[-max(1, round(COMPLEX * len(here.tensor.sites))) :]
    for name in LEARNERS:
        for words, hidden in HIDDEN.items():
            replay = lived(here, [blind(here, name, hidden)])
            rows = last_half(replay)
            far = distance(replay, rows)
            complex_ = far[np.isin(here.sessions.seen.site[rows], heavy)]
            (median, p95), p95_complex = quantiles(far), quantiles(complex_)[1]
            row = f"{name}, {words}"
            found += [Point(row, "median", median), Point(row, "p95", p95)]
            found += [Point(row, "p95, complex sites", p95_complex)]
            if not hidden:
                found += _exchanged(name, replay, rows, seed)
    return found


def _exchanged(name: str, replay: Replay, rows: slice, seed: int) -> list[Point]:
    """What the learned policy itself loses where one feature is another client's: permutation importance."""
    whole, found = replay.managers[0], []
    assert isinstance(whole, Blind)
    here = slice(rows.start, min(rows.stop, rows.start + MOST_EXCHANGED))

    def ms(configuration: Codes) -> Floats:
        return loads(replay.sessions, replay.tensor, configuration, here)

    for one in feature_importance(whole.policy, replay.sessions.seen[here], ms, chance(seed, RESAMPLING)):
        row = f"{name}, another client's {one.name}"
        found += [
            Point(row, "median excess", one.median, own=(one.median_low, one.median_high)),
            Point(row, "p95 excess", one.p95, own=(one.p95_low, one.p95_high)),
        ]
    return found


STUDY = SessionsStudy(
    "features",
    "What classes lose without a feature",
    "CT Fig. 8",
    "Latency is the base feature; without the website the median stays and complex sites lose",
    features,
    "Distance from the best in the last half, complex sites being the slowest quarter. A feature that is hidden is "
    "missing from the classes too. `another client's`: excess of the learned policy where that feature is exchanged "
    "among clients (permutation importance, which the paper does not have); the others were learned without.",
    duration="half an hour",
)
