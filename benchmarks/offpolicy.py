# SPDX-License-Identifier: MIT
"""Off-policy value: how often 95 % intervals hold the truth, in six kinds of logs, for wide and narrow candidates.

    OMP_NUM_THREADS=1 python -m benchmarks.offpolicy [REPLAYS [SESSIONS [SEED ...]]] [--kind KIND] [--estimator NAME]

A log: sessions of an analytic world over 168 configurations. Each replay draws its own prefixes, networks, decisions
and noise, so that the truth is the mean over all networks and sites, noise included (its mean is known exactly), and
an interval has to carry the chance of which prefixes were met.

    uniform    half of the sessions uniformly over 32 templates, half the templates' best static one
    own        a Thompson sampler that has lived through other sessions, with a tenth uniformly over the templates
    averaged   the logger looks at round trip and bandwidth; the log has each configuration's share of all sessions
    heavy      as `uniform`; loads have a Pareto tail: heavy-1.5, heavy-2.0, heavy-2.5 by its exponent
    narrow     uniformly over all 168 configurations: a static candidate is one session in 168
    drifting   300 prefixes, each with a level of its own; loads rise and fall by the hour, and what the logger tries
               with them (its propensities are right)

Candidates: `wide`, a Thompson sampler's table, and `narrow`, one configuration for everybody. Printed for each:
share of the given intervals that held the truth; share where the truth lay above, below; share withheld, and for which
reason; mean and median width over the truth; relative bias and spread of the value; interval score (Gneiting and
Raftery 2007: width + 40 times what a miss is off by, over the truth; a withheld interval counts as the constant one).
Beside them two judges that look at nothing: `constant`, half to twice the logged mean, and `infinite`, every number:
it always holds, has no finite score, and is withheld in all but name. Claims, for each kind, candidate and seed: DR
holds in at least 90 % of what it gives, gives at least half, and its score is below the constant interval's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.claims import Claims
from benchmarks.simulator import lived
from configtron.learner import PREFERRED
from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.policies.default import Static
from configtron.learner.table_policy import TablePolicy
from configtron.learner.value import Estimate, clusters_of, models_of, value
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic, mis_specified
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn
from configtron.studies.starts import templates

CLAIM_HELD, CLAIM_GIVEN = 0.90, 0.50
TRUTH_SESSIONS, LEARNED_SESSIONS, TEMPLATES = 72_000, 6_000, 32
# Networks do not change within a session here: a change is no part of what a log can show of a choice.
STILL = Arrivals(change_share=0.0)
# Share of the interval score's penalty: 2 / (1 - 0.95).
PENALTY = 40.0
# The constant interval, times the logged mean.
CONSTANT = (0.5, 2.0)
BLIND = ("constant", "infinite")
ESTIMATORS = ("ips", "snips", "dr", "dr_ln")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of log. tail_alpha, tail_share: of the noise; prefix_ln: spread of what every prefix has of its own;
    daily: how far loads rise and fall in a day, as a share."""

    logger: str
    noise: Noise = field(default_factory=Noise)
    prefixes: int = 1200
    prefix_ln: float = 0.0
    daily: float = 0.0


KINDS = {
    "uniform": Kind("half"),
    "own": Kind("own"),
    "averaged": Kind("averaged"),
    "heavy-1.5": Kind("half", Noise(0.12, 1.0, 1.5)),
    "heavy-2.0": Kind("half", Noise(0.12, 1.0, 2.0)),
    "heavy-2.5": Kind("half", Noise(0.12, 1.0, 2.5)),
    "narrow": Kind("all"),
    "drifting": Kind("drifting", prefixes=300, prefix_ln=0.3, daily=0.5),
}


@dataclass(frozen=True, slots=True)
class World:
    """What all replays of a seed share: a tensor, 32 configurations that loggers try, and a policy's own table."""

    tensor: Tensor
    some: Codes
    own: TablePolicy
    whole: TablePolicy
    static: int
    seed: int


def world_of(seed: int) -> World:
    """A seed's world."""
    tensor, warm = analytic(np.random.default_rng(seed)), mis_specified(np.random.default_rng(seed + 100))
    some = templates(warm, TEMPLATES)
    learned = drawn(tensor, LEARNED_SESSIONS, np.random.default_rng(seed + 200), STILL)
    whole = lived(PREFERRED, tensor, learned, warm, seed).managers[0]
    assert isinstance(whole, TablePolicy)
    own = deepcopy(whole)
    level = warm.median_ms.astype(np.float64).mean(axis=(0, 2))[some[1:]]
    return World(tensor, some, only(own, some), whole, int(some[1:][level.argmin()]), seed)


def only(made: TablePolicy, some: Codes) -> TablePolicy:
    """The candidate kept to some configurations: others go to the first of them."""
    served = made.served_
    kept = np.where(np.isin(served.configuration, some), served.configuration, some[0])
    made.served_ = replace(served, configuration=kept, explore=np.zeros(len(served.explore)), default=int(some[0]))
    return made


def chosen(kind: Kind, world: World, sessions: Sessions, rng: np.random.Generator) -> Decisions:
    """What a kind's logger decides for n sessions, with the propensities that it logs."""
    n, seen, width = len(sessions), sessions.seen, len(world.tensor.grid)
    uniform = np.zeros(width)
    uniform[world.some] = 1.0 / len(world.some)
    favourite = np.zeros(width)
    favourite[world.some[0]] = 1.0
    if kind.logger == "all":
        table = np.full((n, width), 1.0 / width)
    elif kind.logger == "half":
        table = np.tile(0.5 * uniform + 0.5 * favourite, (n, 1))
    elif kind.logger == "own":
        served = world.own.served_.probabilities(width)
        table = 0.9 * served[world.own.where(seen)[0]] + 0.1 * uniform
    elif kind.logger == "averaged":
        far = seen.rtt_ms > np.median(world.tensor.rtt_ms)
        slow = seen.bandwidth_kbps < np.median(world.tensor.bandwidth_kbps)
        table = np.tile(0.3 * uniform, (n, 1))
        table[np.arange(n), np.where(far, world.some[0], world.static)] += 0.35
        table[np.arange(n), np.where(slow, world.some[0], world.static)] += 0.35
    else:
        share = 0.5 + 0.4 * np.sin(_hour(n))[:, None]
        table = share * uniform[None, :] + (1.0 - share) * favourite[None, :]
    edges = np.cumsum(table, axis=1)
    configuration = (rng.random(n)[:, None] * edges[:, -1:] >= edges).sum(axis=1).clip(0, width - 1)
    propensity = table[np.arange(n), configuration]
    if kind.logger == "averaged":
        propensity = np.bincount(configuration, minlength=width)[configuration] / n
    none = np.full(n, -1)
    return Decisions(none, none, configuration, np.zeros(n, dtype=np.int64), propensity, np.full(n, np.nan))


def _hour(n: int) -> Floats:
    """(n,) angle of the day for sessions that come evenly over two days."""
    found: Floats = 4.0 * np.pi * (np.arange(n) + 0.5) / n
    return found


def replayed(kind: Kind, world: World, n: int, rng: np.random.Generator) -> tuple[Contexts, Decisions, Floats]:
    """A log of n sessions: contexts, decisions, page load times in ms."""
    home = rng.integers(len(world.tensor.names), size=kind.prefixes)
    sessions = drawn(world.tensor, n, rng, replace(STILL, prefixes=kind.prefixes), home)
    decisions = chosen(kind, world, sessions, rng)
    level = np.exp(kind.prefix_ln * rng.standard_normal(kind.prefixes) - kind.prefix_ln**2 / 2)
    ms = world.tensor.lookup(sessions.condition, decisions.configuration, sessions.seen.site).astype(np.float64)
    ms = ms * level[sessions.seen.prefix] * (1.0 + kind.daily * np.sin(_hour(n))) * kind.noise.factors(n, rng)
    return sessions.seen, decisions, ms


def mean_factor(noise: Noise) -> float:
    """The noise's mean, exactly: a lognormal body times, for a share of loads, a Pareto factor from 1 on."""
    tail = noise.tail_alpha / (noise.tail_alpha - 1.0)
    return float(np.exp(noise.sigma_ln**2 / 2.0) * (1.0 + noise.tail_share * (tail - 1.0)))


def typical_factor(kind: Kind) -> float:
    """exp of the mean of ln of all that a load is multiplied by: Pareto's is 1 / alpha, a prefix's level's half its
    variance less, the day's the mean over it."""
    day = np.log1p(kind.daily * np.sin(_hour(10_000))).mean()
    return float(np.exp(kind.noise.tail_share / kind.noise.tail_alpha - kind.prefix_ln**2 / 2 + day))


def true_ms(made: TablePolicy, world: World) -> tuple[float, float]:
    """The candidate's mean page load time over all networks and sites alike, every choice by its probability, and exp
    of the mean of its logarithm; noise excepted."""
    tensor, at = world.tensor, np.arange(TRUTH_SESSIONS)
    condition, site = at % len(tensor.names), at // len(tensor.names) % len(tensor.sites)
    wrong = np.exp(STILL.off_ln * np.random.default_rng(world.seed + 500).standard_normal((2, len(at))))
    numbers = tensor.bandwidth_kbps[condition] * wrong[0], tensor.rtt_ms[condition] * wrong[1], tensor.loss[condition]
    row, _ = made.where(Contexts(*numbers, site, tensor.sites))
    table = made.served_.probabilities(len(tensor.grid))
    total = total_ln = 0.0
    for start in range(0, len(at), 8_000):
        part = slice(start, start + 8_000)
        ms = tensor.median_ms[condition[part], :, site[part]].astype(np.float64)
        total += float((table[row[part]] * ms).sum())
        total_ln += float((table[row[part]] * np.log(ms)).sum())
    return total / len(at), float(np.exp(total_ln / len(at)))


def judged(kind: str, world: World, replays: int, n: int, wanted: tuple[str, ...], claims: Claims) -> None:
    """One kind's rows."""
    how, tensor = KINDS[kind], world.tensor
    wide = world.whole if kind == "narrow" else world.own
    candidates = {"wide": wide, "narrow": Static(tensor.grid, np.random.default_rng(0), world.static)}
    found: dict[str, dict[str, list[Estimate]]] = {name: {key: [] for key in (*wanted, *BLIND)} for name in candidates}
    effective: dict[str, list[float]] = {name: [] for name in candidates}
    start = time.process_time()
    for at in range(replays):
        contexts, decisions, ms = replayed(how, world, n, np.random.default_rng((world.seed, 600, at)))
        models = models_of(tensor.grid, contexts, decisions.configuration, ms, clusters_of(contexts)[1])
        for name, made in candidates.items():
            one = value(made, contexts, decisions, ms, models=models)
            effective[name].append(one.effective)
            for key in wanted:
                found[name][key].append(getattr(one, key))
            level = one.logged.ms
            found[name]["constant"].append(Estimate(level, CONSTANT[0] * level, CONSTANT[1] * level))
            found[name]["infinite"].append(Estimate(level, -np.inf, np.inf, "infinite"))
    spent = (time.process_time() - start) / replays
    for name, made in candidates.items():
        true, typical = true_ms(made, world)
        true *= mean_factor(how.noise)
        of = np.median(effective[name])
        print(f"{kind}, {name}: truth {true:.0f} ms, typical {typical:.0f} ms, {of:.0f} effective, {spent:.2f} CPU s")
        constant = found[name]["constant"]
        for key, estimates in found[name].items():
            what = typical * typical_factor(how) if key == "dr_ln" else true
            print(f"  {key:9s}{row_of(estimates, constant, what)}", flush=True)
            if key == "dr":
                judge(claims, estimates, score(estimates, constant, true), score(constant, constant, true), true)


def judge(claims: Claims, estimates: list[Estimate], own: float, constant: float, true: float) -> None:
    """The three claims."""
    given = [one for one in estimates if np.isfinite(one.high_ms)]
    held = float(np.mean([one.holds(true) for one in given])) if given else np.nan
    print(f"    held {claims.at_least(held, CLAIM_HELD, '.2f')}; given "
          f"{claims.at_least(len(given) / len(estimates), CLAIM_GIVEN, '.2f')}; score "
          f"{claims.at_most(own, constant, '.2f')}")  # fmt: skip


def score(estimates: list[Estimate], constant: list[Estimate], true: float) -> float:
    """Mean interval score over the truth."""
    total = 0.0
    for one, other in zip(estimates, constant, strict=True):
        if not np.isfinite(one.high_ms):
            one = other if not one.reason == "infinite" else one
        low = max(one.low_ms, 0.0) if np.isfinite(one.high_ms) else one.low_ms
        total += one.high_ms - low + PENALTY * max(one.low_ms - true, true - one.high_ms, 0.0)
    return total / len(estimates) / true


def row_of(estimates: list[Estimate], constant: list[Estimate], true: float) -> str:
    """One estimator's figures."""
    given = [one for one in estimates if np.isfinite(one.high_ms)]
    reasons = Counter(one.reason for one in estimates if one.reason)
    withheld_for = " ".join(f"{reason}={count}" for reason, count in reasons.most_common())
    none = 1.0 - len(given) / len(estimates)
    if not given:
        return f"withheld {none:.3f}   {withheld_for}"
    width = np.array([one.high_ms - max(one.low_ms, 0.0) for one in given]) / true
    held = float(np.mean([one.holds(true) for one in given]))
    above, below = (np.mean([one.high_ms < true for one in given]), np.mean([one.low_ms > true for one in given]))
    off = np.array([one.ms for one in given]) / true - 1.0
    return (
        f"held {held:.3f}  above {above:.3f} below {below:.3f}  withheld {none:.3f}  width {width.mean():.2f} "
        f"{np.median(width):.2f}  bias {off.mean():+.3f} sd {off.std():.3f}  score "
        f"{score(estimates, constant, true):.2f}   {withheld_for}"
    )


def main() -> int:
    """Print the tables; 1 if a claim is missed."""
    parser = argparse.ArgumentParser(description="Coverage of off-policy intervals in six kinds of logs.")
    parser.add_argument("replays", type=int, nargs="?", default=200)
    parser.add_argument("sessions", type=int, nargs="?", default=10_000)
    parser.add_argument("seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--estimator", action="append", choices=ESTIMATORS)
    given = parser.parse_args()
    claims = Claims()
    for seed in given.seeds:
        world = world_of(seed)
        print(f"{given.replays} replays of {given.sessions} sessions, seed {seed}")
        for kind in given.kind or KINDS:
            judged(kind, world, given.replays, given.sessions, tuple(given.estimator or ESTIMATORS), claims)
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main())
