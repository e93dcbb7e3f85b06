# SPDX-License-Identifier: MIT
"""What `learn export --to-tune` hands over from logs without any effect: nothing, as silence would.

    OMP_NUM_THREADS=1 python -m benchmarks.aa [LOGS [KIND ...]]

Each log is kept in a database of its own, a policy learns from it and is exported by the code behind `learn export`:
one run. No effect: 10 000 outcomes, 8 configurations, 1 200 prefixes, true propensities. Kinds:

even      every configuration as likely as any other
tails     a load's noise has Student's t with two degrees of freedom: no variance
alike     loads of a prefix differ together, by half an e-fold
looking   the logger prefers configurations by round trip, up to ten times
sticky    a prefix keeps its configuration for the whole log
looks     even, exported at 1 000 outcomes and whenever there are 1 000 more, ten times in all

Exit code 1: more than 5 % of the runs of a kind change anything, beyond chance.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import bdtrc, betaincinv

from configtron.db.outcomes import Learner, Outcomes
from configtron.learner.class_cells import has_classes
from configtron.learner.classes import fit
from configtron.learner.columns import Contexts, Decisions
from configtron.learner.driver_support import Mask, reachable_mask
from configtron.learner.logged import Logged, taught
from configtron.learner.rule_cost import halves, known_outcomes
from configtron.learner.rulebook import Rulebook
from configtron.learner.rules_export import tune_rules
from configtron.learner.saved import Recipe
from configtron.model.grid import Grid
from configtron.model.knobs import KNOBS
from configtron.service.learning.gains import tested

LOGS, OUTCOMES, PREFIXES = 200, 10_000, 1_200
KINDS = ("even", "tails", "alike", "looking", "sticky", "looks")
CLASSES, POLICY = 12, "mab_nc"
# Contexts that classes are fitted to.
OFFLINE = 300
# The share of runs that may change anything, and how sure a share above it must be to count.
MOST, SURE = 0.05, 0.01
# What a driver reaches by prefix.
BY_PREFIX = ("tcp_congestion_control", "initcwnd", "pacing")


def small() -> Grid:
    """Eight configurations: four windows, two congestion controls."""
    knobs = (
        replace(KNOBS["initcwnd"], values=(4, 10, 20, 30)),
        replace(KNOBS["tcp_congestion_control"], values=("cubic", "reno")),
    )
    return Grid(knobs, tuple((one, two) for one in range(4) for two in range(2)))


def log(seed: int, grid: Grid, n: int, kind: str) -> Logged:
    """Return n outcomes of which none depends on its configuration."""
    rng = np.random.default_rng((seed, n, len(grid)))
    network = np.exp(rng.normal((8.5, 4.4), (1.3, 0.8), (PREFIXES, 2)))
    loss = rng.choice([0.0, 0.005, 0.02], PREFIXES)
    prefix, site = rng.integers(PREFIXES, size=n), rng.integers(3, size=n)
    (kbps, rtt), names = network[prefix].T, tuple(f"10.{at // 256}.{at % 256}.0/24" for at in range(PREFIXES))
    contexts = Contexts(kbps, rtt, loss[prefix], site, ("news", "shop", "video"), prefix, names)
    chance = np.ones((n, len(grid)))
    if kind == "looking":
        chance[np.arange(n), np.where(rtt > 80.0, len(grid) - 1, 0)] = 10.0
    chance /= chance.sum(axis=1, keepdims=True)
    drawn = rng.random(PREFIXES)[prefix] if kind == "sticky" else rng.random(n)
    configuration = (drawn[:, None] > np.cumsum(chance, axis=1)).sum(axis=1).clip(max=len(grid) - 1)
    ln = np.log(12.0 * rtt + 8e3 * np.array([300.0, 1200.0, 4000.0])[site] / kbps)
    ln += 0.3 * (rng.standard_t(2.0, n) if kind == "tails" else rng.standard_normal(n))
    ln += (0.5 if kind == "alike" else 0.1) * rng.standard_normal(PREFIXES)[prefix]
    nothing, row = np.zeros(n, dtype=np.int64), np.full(n, -1)
    propensity = chance[np.arange(n), configuration]
    made = Decisions(row, row, configuration, nothing, propensity, np.full(n, np.nan))
    # What no clock of a browser shows: below a microsecond, above a day.
    ms = np.exp(ln).clip(1e-3, 86_400_000.0)
    return Logged(nothing, contexts, made, ms, np.arange(n), grid.profiles, ())


class Run:
    """A log in a database, a policy that learns from it as it grows, exports."""

    def __init__(self, folder: Path, seed: int, grid: Grid, first: Logged):
        self.store, self.seed = Outcomes(folder / f"{seed}.db"), seed
        self.log = self.store.begin_log("sim", "{}")
        classes = fit(first.contexts[:OFFLINE].points(), CLASSES, np.random.default_rng(seed))
        made = Recipe(POLICY, grid, first.contexts.sites, classes, seed).make()
        assert has_classes(made)
        self.policy = made
        self.among: Mask = reachable_mask(grid, lambda knob, value: knob in BY_PREFIX and value != "bbr")
        self.learner = Learner(1, POLICY, POLICY, self.log, "", None, "", "", 0, 0, "")

    def grow(self, part: Logged) -> None:
        """More outcomes, which the policy learns from."""
        self.store.add(self.log, part)
        taught(self.policy, part)

    def export(self) -> Rulebook:
        """What `learn export --to-tune` hands over; what it prints of the loss against the policy is left out."""
        kept = self.store.last(100_000, self.log)
        assert kept is not None
        verdict = tested(self.store, self.learner, self.policy, self.log, kept, self.among)
        configuration = kept.on(self.policy.grid).configuration
        outcomes = known_outcomes(self.policy, kept.contexts, configuration, kept.plt_ms)
        return tune_rules(self.policy, halves(outcomes)[0], self.among, kept.contexts, verdict.given)


def changed(folder: Path, seed: int, kind: str) -> tuple[int, int]:
    """Profiles and prefixes that a log without any effect has changed, at any of its exports."""
    made = log(seed, small(), OUTCOMES, kind)
    run, parts = Run(folder, seed, small(), made), 10 if kind == "looks" else 1
    most = (0, 0)
    for part in range(parts):
        run.grow(made[part * OUTCOMES // parts : (part + 1) * OUTCOMES // parts])
        found = run.export()
        most = max(most, (len(found.profiles), len(found.prefixes)))
    run.store.close()
    return most


def interval(hits: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (Clopper and Pearson 1934)."""
    low = 0.0 if hits == 0 else float(betaincinv(hits, of - hits + 1, 0.025))
    high = 1.0 if hits == of else float(betaincinv(hits + 1, of - hits, 0.975))
    return low, high


def nothing(folder: Path, logs: int, kinds: tuple[str, ...]) -> int:
    """The table of logs without an effect; whether a kind is above 5 %."""
    print(f"{logs} logs of {OUTCOMES} outcomes without any effect, 8 configurations, {PREFIXES} prefixes; {POLICY}")
    print("kind       runs that change anything   [95 % interval]   profiles, prefixes at worst   s a run")
    missed = 0
    for kind in kinds:
        began = time.monotonic()
        seen = [changed(folder, 1000 * KINDS.index(kind) + seed, kind) for seed in range(logs)]
        hits = sum(profiles > 0 for profiles, _ in seen)
        low, high = interval(hits, logs)
        missed += float(bdtrc(hits - 1, logs, MOST)) < SURE if hits else 0
        spent = (time.monotonic() - began) / logs
        share = f"{hits:4d} = {hits / logs:6.1%}        [{low:6.1%}, {high:6.1%}]"
        print(f"{kind:10s} {share}   {max(seen)}   {spent:.2f}", flush=True)
    print(f"claim: at most {MOST:.0%} of runs change anything: {'MISSED' if missed else 'holds'}")
    return int(missed > 0)


def main(*words: str) -> int:
    """The tables and the verdict."""
    logs = int(words[0]) if words and words[0].isdecimal() else LOGS
    kinds = words[1:] if words and words[0].isdecimal() else words
    with TemporaryDirectory() as folder:
        return nothing(Path(folder), logs, kinds or KINDS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
