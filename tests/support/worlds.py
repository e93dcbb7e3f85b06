# SPDX-License-Identifier: MIT
"""Small worlds for tests: a tensor by a formula of a few lines, and clients drawn from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from configtron.learner.classes import Classes, fit
from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.table_policy import TablePolicy
from configtron.model.grid import live_grid
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise

SITES = ("news", "shop", "video")
KILOBYTES = (300.0, 1200.0, 4000.0)


def small_tensor(seed: int = 7, conditions: int = 24, sites: int = 3, bent: float = 0.0) -> Tensor:
    """24 conditions x 168 configurations x 3 sites (more are copies under other names).

    Rounds of slow start, bytes over bandwidth, loss that hurts h2. bent: how far every cell is off the formula, in
    ln(ms), and each of the formula's strengths, five times as far.
    """
    rng, grid = np.random.default_rng(seed), live_grid()
    kbps, rtt = np.exp(rng.uniform(6, 11, conditions)), np.exp(rng.uniform(2.5, 6, conditions))
    loss = rng.choice([0.0, 0.005, 0.02], conditions)
    windows = np.array([1, 4, 10, 16, 20, 30])[grid.column("initcwnd")]
    h2, cc = grid.column("http_version"), grid.column("tcp_congestion_control")
    kilobytes = np.resize(KILOBYTES, sites)
    strength = np.exp(5.0 * bent * rng.standard_normal(3)) if bent else np.ones(3)
    rounds = np.log2(1 + kilobytes[None, :] / (1.46 * windows[:, None]))
    ms = (rounds * (2.0 - 0.6 * strength[0] * h2[:, None]))[None] * rtt[:, None, None]
    ms = ms + (kilobytes * 8000.0)[None, None, :] / kbps[:, None, None]
    hurt = loss[:, None, None] * (10.0 + 25.0 * strength[1] * h2 - 8.0 * strength[2] * (cc == 3))[None, :, None]
    ms = ms * np.maximum(1.0 + hurt, 0.5)
    if bent:
        ms = ms * np.exp(bent * rng.standard_normal(ms.shape))
    ms = ms.astype(np.float32)
    names = tuple(f"n{at}" for at in range(conditions))
    called = tuple(SITES[at % 3] + str(at // 3 or "") for at in range(sites))
    return Tensor(grid, called, names, kbps, rtt, loss, ms, "analytic", (("seed", str(seed)),))


def clients(tensor: Tensor, n: int, seed: int = 1, noise: float = 0.05) -> tuple[Contexts, Codes]:
    """n clients as they are seen (features off by `noise`), and the condition each is in."""
    rng = np.random.default_rng(seed)
    condition, site = rng.integers(len(tensor.names), size=n), rng.integers(len(tensor.sites), size=n)
    wrong = np.exp(noise * rng.standard_normal((2, n)))
    seen = (tensor.bandwidth_kbps[condition] * wrong[0], tensor.rtt_ms[condition] * wrong[1], tensor.loss[condition])
    prefixes = tuple(f"192.0.{at}.0/24" for at in range(40))
    return Contexts(*seen, site, tensor.sites, rng.integers(len(prefixes), size=n), prefixes), condition


def small_classes(tensor: Tensor, k: int = 6, seed: int = 3) -> Classes:
    """Classes over the tensor's own conditions."""
    columns = (tensor.bandwidth_kbps, tensor.rtt_ms, tensor.loss)
    points = Contexts(*columns, np.zeros(len(tensor.names), dtype=np.int64), tensor.sites).points()
    return fit(points, k, np.random.default_rng(seed))


def lived(
    policy: TablePolicy, tensor: Tensor, n: int, seed: int = 1, batch: int = 500
) -> tuple[Contexts, Codes, Decisions, Floats]:
    """n sessions under a policy that learns meanwhile: contexts, conditions, decisions, page load times in ms."""
    contexts, condition = clients(tensor, n, seed)
    factors = Noise().factors(n, np.random.default_rng(seed + 50))
    parts, ms, at = [], np.empty(n), 0
    while at < n:
        rows = slice(at, min(n, at + min(batch, policy.due())))
        here = contexts[rows]
        chosen = policy.choose_many(here)
        ms[rows] = tensor.lookup(condition[rows], chosen.configuration, here.site) * factors[rows]
        policy.observe_many(here, chosen, ms[rows])
        parts.append(chosen)
        at = rows.stop
    names = Decisions.__dataclass_fields__
    together = Decisions(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    return contexts, condition, together, ms


def played(policy: TablePolicy, contexts: Contexts, load: Callable[[slice, Codes], Floats]) -> tuple[Decisions, Floats]:
    """Decide for contexts and learn from their loads, each as soon as it is decided; the same bits however contexts are
    cut into calls. load(rows, configurations): ms of those contexts under these configurations.

    No more contexts than `policy.due()`. Returns decisions and ms.
    """
    chance, at = policy.chances(len(contexts)), 0
    parts, took = [], np.empty(len(contexts))
    while at < len(contexts):
        rows = slice(at, len(contexts))
        chosen = policy.decide(contexts[rows], chance[rows])
        took[rows] = load(rows, chosen.configuration)
        taken = policy.screen_many(contexts[rows], chosen, took[rows])[0]
        policy.commit(chosen[:taken])
        parts.append(chosen[:taken])
        at += taken
    names = Decisions.__dataclass_fields__
    decisions = Decisions(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    policy.observe_many(contexts, decisions, took, screened=True)
    return decisions, took


# A policy of one's own, as docs/learn.md has it.
FASTEST = """
from configtron.learner.class_cells import ClassCells
from configtron.learner.searches import observed_best
from configtron.learner.serving_table import always
from configtron.learner.table_policy import TablePolicy

class Fastest(TablePolicy):
    def __init__(self, s):
        super().__init__(s.grid, s.sites, s.rng, ClassCells.of(s), update_every=s.update_every)

    def parts(self):
        return (self.cells,)

    def learn(self, seen):
        self.cells.take(seen, self.updates_)
        self.served_ = always(observed_best(self.cells.tally_, self.grid.default), "greedy", self.grid.default)
"""
