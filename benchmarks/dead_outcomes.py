# SPDX-License-Identifier: MIT
"""Claim: a knob that does nothing is proven dead by some ten thousand outcomes, and one that does something is not.

    OMP_NUM_THREADS=1 python -m benchmarks.dead_outcomes [LOGS [LARGEST [SEED]]]

Logs of an analytic world (168 configurations, 12 sites, 20 classes, features 8 % off), each with a draw of sessions and
noise of its own; pacing does nothing in it, or moves page load times by `interim.SMALL`, root mean square of sessions:
everywhere; up or down by class and site; for one site alone; under one congestion control alone; both ways by round
trip; and, which is more than is promised to be seen, up or down by class, site and HTTP version together. Two loggers:
one that tries everything alike; one that prefers some configurations a hundredfold and tries pacing from 10 to 90 % of
the time by the client's round trip, which no class knows exactly. Looked at as `learn run` looks, at 10 000 outcomes
and doubled numbers. Printed is the share of logs in which pacing is dead by then; beside it, where it does nothing, the
same by cells and configurations alone (`importance.dead_knobs`, which asks for 5 %). The claims: of all logs in which
it acts as two things decide, and of those of each way and logger, it is dead in at most `interim.FALSE_ALARM`, and what
chance adds to that in one such run of a hundred. Exit code 1 if one is missed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from benchmarks.claims import Claims
from benchmarks.simulator import classes_of
from configtron.learner import interim
from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Decisions, Floats
from configtron.learner.contrasts import Contrasts
from configtron.learner.importance import dead_knobs, proven
from configtron.learner.initial_classes import tally_of
from configtron.learner.logged import Logged
from configtron.learner.warmstart import FIRST_NOISE_LN
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn

KNOB = "pacing"
# Of the classes, and of which of them are sped up at which site.
SEED = 1
# Outcomes that are summed at a time, as the database hands them out.
BATCH = 20_000
# Networks do not change within a session here: a change is no part of what a log can show of a knob.
STILL = Arrivals(change_share=0.0)
# How unlike the uneven logger's configurations are, ln: a hundredfold between the tenth and the last of them.
PREFERENCE_LN = 1.8
# Runs in which chance alone passes the claimed share by what is allowed.
LUCK = 0.01

# (sessions, configurations, world) -> (n,) ln of what pacing does to each load, of whatever size.
Effect = Callable[[Sessions, Codes, Tensor], Floats]


def _cells(sessions: Sessions, chosen: Codes, world: Tensor) -> Floats:
    network = classes_of(world, SEED).of(sessions.truth(world, slice(None)))
    sign = np.random.default_rng(SEED).choice([-1.0, 1.0], size=(network.max() + 1, len(world.sites)))
    found: Floats = sign[network, sessions.seen.site]
    return found


def _three(sessions: Sessions, chosen: Codes, world: Tensor) -> Floats:
    version = world.grid.column("http_version")[chosen] == 1
    found: Floats = _cells(sessions, chosen, world) * np.where(version, 1.0, -1.0)
    return found


def _control(sessions: Sessions, chosen: Codes, world: Tensor) -> Floats:
    found: Floats = (world.grid.column("tcp_congestion_control")[chosen] == 1).astype(np.float64)
    return found


def _round_trip(sessions: Sessions, chosen: Codes, world: Tensor) -> Floats:
    rtt = np.log(world.rtt_ms)
    found: Floats = (rtt - np.median(rtt))[sessions.condition]
    return found


EFFECTS: dict[str, Effect | None] = {
    "nothing": None,
    "everywhere": lambda sessions, chosen, world: np.ones(len(sessions)),
    "by class and site": _cells,
    "for one site": lambda sessions, chosen, world: (sessions.seen.site == 3).astype(np.float64),
    "under one control": _control,
    "by round trip": _round_trip,
    "by class, site and version": _three,
}
# Decided by three things together: for these only the outcome is reported.
UNPROMISED = ("by class, site and version",)


def log_of(world: Tensor, n: int, effect: Effect | None, rms: float, rng: np.random.Generator, *, even: bool) -> Logged:
    """n outcomes in which pacing does what `effect` says, `rms` as a share of page load time, and nothing else."""
    sessions = drawn(world, n, rng, STILL)
    chosen, propensity = _even(world, n, rng) if even else _uneven(world, sessions, rng)
    paced, plain = _paced(world)
    acts = (paced >= 0)[chosen]
    ms = world.lookup(sessions.condition, plain[chosen], sessions.seen.site) * Noise().factors(n, rng)
    if effect is not None:
        size = effect(sessions, chosen, world)
        size *= np.log1p(rms) / np.sqrt((size[acts] ** 2).mean())
        ms = ms * np.exp(size * (plain[chosen] != chosen))
    none, nothing = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    decisions = Decisions(none - 1, none - 1, chosen, none, propensity, nothing)
    return Logged(none, sessions.seen, decisions, ms, none, world.grid.profiles, ())


def _paced(world: Tensor) -> tuple[Codes, Codes]:
    """(configurations,): the one with the knob at its other value, -1 where there is none; and at its default."""
    at = [knob.name for knob in world.grid.knobs].index(KNOB)
    place = {row: number for number, row in enumerate(world.grid.rows)}
    usual = world.grid.rows[world.grid.default][at]
    paced, plain = (
        np.array([place.get((*row[:at], value, *row[at + 1 :]), -1) for row in world.grid.rows])
        for value in (1 - usual, usual)
    )
    return paced, plain


def _even(world: Tensor, n: int, rng: np.random.Generator) -> tuple[Codes, Floats]:
    return rng.integers(len(world.grid), size=n), np.full(n, 1.0 / len(world.grid))


def _uneven(world: Tensor, sessions: Sessions, rng: np.random.Generator) -> tuple[Codes, Floats]:
    _, plain = _paced(world)
    liked = np.exp(PREFERENCE_LN * rng.standard_normal(len(world.grid)))[plain]
    # by what is seen of a client; the slow half is paced most
    odds = np.clip(0.5 + 0.4 * (np.log(sessions.seen.rtt_ms) - 4.4) / 0.8, 0.1, 0.9)
    paced, chance = plain != np.arange(len(plain)), rng.random(len(sessions))
    chosen, propensity = np.empty(len(sessions), dtype=np.int64), np.empty(len(sessions))
    for start in range(0, len(sessions), BATCH):
        at = slice(start, start + BATCH)
        share = np.where(paced, odds[at, None], 1.0 - odds[at, None]) * liked
        share /= share.sum(axis=1, keepdims=True)
        here = (chance[at, None] > share.cumsum(axis=1)).sum(axis=1).clip(0, len(plain) - 1)
        chosen[at], propensity[at] = here, share[np.arange(len(share)), here]
    return chosen, propensity


def dead_at(log: Logged, world: Tensor, classes: Classes, largest: int) -> list[bool]:
    """At every look up to `largest` outcomes: whether pacing is dead by then."""
    found, n, dead = [], interim.FIRST, False
    while n <= largest:
        seen = Contrasts(world.grid, classes, world.sites, n)
        parts = [log[at : min(at + BATCH, n)] for at in range(0, n, BATCH)]
        for part in parts:
            seen.count(part)
        seen.fit()
        for part in parts:
            seen.add(part)
        dead = dead or any(one.dead.knob == KNOB for one in interim.small(seen, n))
        found.append(dead)
        n *= 2
    return found


def dead_before(log: Logged, world: Tensor, classes: Classes, largest: int) -> list[bool]:
    """The same by cells and configurations alone, each look as if it were the only one."""
    found, n = [], interim.FIRST
    while n <= largest:
        tally = tally_of(log[:n], classes, world.grid)
        found.append(any(one.knob == KNOB and not one.where
                         for one in proven(dead_knobs(world.grid, tally, tally.noise_ln(FIRST_NOISE_LN)))))  # fmt: skip
        n *= 2
    return found


def _line(title: str, dead: list[list[bool]]) -> None:
    print(f"{title:44s}" + "".join(f"{share:9.3f}" for share in np.mean(dead, axis=0)), flush=True)


def main(logs: int = 40, largest: int = 80_000, seed: int = 51) -> int:
    """Print the table; 1 if the claim is missed."""
    claims, world = Claims(), analytic(np.random.default_rng(seed))
    classes = classes_of(world, SEED)
    at = [interim.FIRST * 2**i for i in range((largest // interim.FIRST).bit_length())]
    print(f"{logs} logs each, seed {seed}; {KNOB} acts by {interim.SMALL:.0%} RMS; share of logs in which it is dead")
    print(f"{'':44s}" + "".join(f"{n:>9}" for n in at))
    wrong: list[list[bool]] = []
    for even in (True, False):
        for number, (title, effect) in enumerate(EFFECTS.items()):
            per_log, before = [], []
            for one in range(logs):
                rng = np.random.default_rng((seed, 700, number, one))
                log = log_of(world, largest, effect, interim.SMALL, rng, even=even)
                per_log.append(dead_at(log, world, classes, largest))
                before += [dead_before(log, world, classes, largest)] if effect is None else []
            if effect is not None and title not in UNPROMISED:
                wrong.append([dead[-1] for dead in per_log])
            _line(f"{'even' if even else 'uneven'} logger, acts: {title}", per_log)
            if before:
                _line("  by cells and configurations alone", before)
    every = np.array(wrong)
    claims.hold(f"dead though it acts, {every.size} logs", float(every.mean()), _most(every.size, LUCK))
    claims.hold(f"the worst way, {logs} logs", float(every.mean(axis=1).max()), _most(logs, LUCK / len(every)))
    return claims.exit_code


def _most(logs: int, luck: float) -> float:
    """The largest share of logs that a rate of `interim.FALSE_ALARM` passes by chance in a share `luck` of runs."""
    rate: float = interim.FALSE_ALARM
    return rate + NormalDist().inv_cdf(1.0 - luck) * math.sqrt(rate * (1.0 - rate) / logs)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
