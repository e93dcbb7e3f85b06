# SPDX-License-Identifier: MIT
"""Off-policy value: how often each estimator's 95 % interval holds the truth, over replays of logged sessions.

    OMP_NUM_THREADS=1 python -m benchmarks.offpolicy [REPLAYS [SESSIONS [SEED ...]]]

The log: sessions of an analytic world, half of them decided uniformly over 32 templates and half by the templates'
best static one, as an operator who wants to learn something would log. The candidates: the offline model (served as it
is) and a Thompson sampler that has lived through other sessions, both kept to those templates. The truth is the mean
over all networks, sites and the candidate's own probabilities, exactly, by the sessions' own frequencies; the noise's
mean is taken from a long sample. Claim: at least 90 % of 200 replays, for IPS, SNIPS and DR, each candidate and seed by
itself; a miss ends with exit code 1. It is judged over intervals: where a log carried none in any replay, nothing
speaks for it, and it is missed. Beside it on which side the truth lay, how often the log could not carry an interval
(few sessions: try 1000), and widths as shares of the truth. Intervals were made on seeds 11 to 13, after seed 1 had
been seen; others are a check.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks.claims import Claims
from benchmarks.simulator import classes_of, lived
from configtron.learner import PREFERRED, Setting, policy
from configtron.learner.baselines.default import Static
from configtron.learner.columns import ARM, Codes, Contexts
from configtron.learner.policy import TablePolicy
from configtron.learner.served import Served
from configtron.learner.sim.analytic import analytic, mis_specified
from configtron.learner.sim.noise import Noise
from configtron.learner.sim.sessions import Arrivals, Sessions, drawn
from configtron.learner.templates import templates
from configtron.learner.value import Estimate, value
from configtron.tensor import Tensor

CLAIM_HELD = 0.90
# Sessions that the truth is taken over, and that its candidate has learned from.
TRUTH_SESSIONS, LEARNED_SESSIONS, NOISE_SAMPLE = 200_000, 20_000, 4_000_000
# Networks do not change within a session here: a change is no part of what a log can tell of a choice.
STILL = Arrivals(change_share=0.0)


class Logger(Static):
    """Half of the sessions uniformly over some configurations, half to the first of them."""

    name = "logger"

    def __init__(self, world: Tensor, rng: np.random.Generator, some: Codes):
        super().__init__(world.grid, rng, int(some[0]))
        one, half = np.array([[some[0]]]), np.full((1, 1), np.nan)
        arm = np.full((1, 1), ARM["static"], dtype=np.int8)
        self.served_ = Served(one, arm, np.ones((1, 1)), half, np.full(1, 0.5), some, world.grid.default)


def only(made: TablePolicy, some: Codes) -> TablePolicy:
    """The candidate kept to what was logged: other configurations go to the first of them."""
    served = made.served_
    kept = np.where(np.isin(served.configuration, some), served.configuration, some[0])
    explore = np.zeros(len(served.explore))
    made.served_ = replace(served, configuration=kept, explore=explore, default=int(some[0]))
    return made


def true_ms(made: TablePolicy, world: Tensor, sessions: Sessions, factor: float) -> float:
    """The candidate's mean page load time, every choice weighed by its probability."""
    row, _ = made.where(sessions.seen)
    table = made.served_.probabilities(len(world.grid))
    total = 0.0
    for at in range(0, len(sessions), 10_000):
        part = slice(at, at + 10_000)
        ms = world.median_ms[sessions.condition[part], :, sessions.seen.site[part]].astype(np.float64)
        total += float((table[row[part]] * ms).sum())
    return factor * total / len(sessions)


def main(replays: int = 200, n: int = 10_000, *seeds: int) -> int:
    """Print a table for each seed; 1 if a claim is missed."""
    claims = Claims()
    for seed in seeds or (1,):
        judged(replays, n, seed, claims)
    return claims.exit_code


def judged(replays: int, n: int, seed: int, claims: Claims) -> None:
    """One world's table."""
    world, warm = analytic(np.random.default_rng(seed)), mis_specified(np.random.default_rng(seed + 100))
    some = templates(warm, 32)
    factor = float(Noise().factors(NOISE_SAMPLE, np.random.default_rng(seed + 400)).mean())
    every = drawn(world, TRUTH_SESSIONS, np.random.default_rng(seed + 500), STILL)
    setting = Setting(world.grid, world.sites, classes_of(world, seed), np.random.default_rng(seed), 0, warm, world)
    learned = drawn(world, LEARNED_SESSIONS, np.random.default_rng(seed + 200), STILL)
    candidates = {
        "offline": only(policy("offline", setting), some),
        PREFERRED: only(lived(PREFERRED, world, learned, warm, seed).managers[0], some),
    }
    print(f"{replays} replays of {n} sessions, seed {seed}; claim: intervals hold the truth in at least {CLAIM_HELD}")
    print("of the intervals: held the truth; ended below it, began above it; no interval; mean, median width / truth")
    for name, made in candidates.items():
        true, start, effective = true_ms(made, world, every, factor), time.process_time(), 0.0
        found: dict[str, list[Estimate]] = {"ips": [], "snips": [], "dr": []}
        for at in range(replays):
            rng = np.random.default_rng((seed, 600, at))
            sessions = picked(every, rng.integers(len(every), size=n))
            logger = Logger(world, rng, some)
            chosen = logger.choose_many(sessions.seen)
            ms = world.lookup(sessions.condition, chosen.configuration, sessions.seen.site) * Noise().factors(n, rng)
            one = value(made, sessions.seen, chosen, ms)
            effective += one.effective / replays
            for key, estimates in found.items():
                estimates.append(getattr(one, key))
        print(f"{name}: truth {true:.0f} ms, {effective:.0f} effective, {time.process_time() - start:.0f} CPU s")
        for key, estimates in found.items():
            print(f"  {key:8s}{told(estimates, true, claims)}", flush=True)


def told(estimates: list[Estimate], true: float, claims: Claims) -> str:
    """How one estimator's intervals stand to the truth, and the claim. Those that were withheld hold nothing;
    without a lower end they begin at 0 ms."""
    given = [one for one in estimates if np.isfinite(one.high_ms)]
    if not given:
        return f"no interval in any replay   {claims.at_least(np.nan, CLAIM_HELD, '.2f')}"
    width = np.array([one.high_ms - max(one.low_ms, 0.0) for one in given]) / true
    held = float(np.mean([one.holds(true) for one in given]))
    below, above = (np.mean([one.high_ms < true for one in given]), np.mean([one.low_ms > true for one in given]))
    none = 1.0 - len(given) / len(estimates)
    shares = f"{held:.3f}   {below:.3f} {above:.3f}   {none:.3f}   {width.mean():.2f} {np.median(width):.2f}"
    return f"{shares}   {claims.at_least(held, CLAIM_HELD, '.2f')}"


def picked(sessions: Sessions, rows: Codes) -> Sessions:
    """Those sessions, in order of arrival."""
    rows = np.sort(rows)
    seen: Contexts = sessions.seen[rows]
    return Sessions(sessions.at_s[rows], sessions.condition[rows], sessions.change_s[rows], sessions.after[rows], seen)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
