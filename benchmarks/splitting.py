# SPDX-License-Identifier: MIT
"""Whether network classes that split help, where members truly diverge, and what it costs where they do not.

    OMP_NUM_THREADS=1 python -m benchmarks.splitting [POLICY [SEEDS [WORLD ...]]]

POLICY is configtron (the claims are its), or another with classes; SEEDS as 1,2,3. 24 000 sessions of 480 clients on 5
sites, an update every 50 s (500 sessions); figures are of the last half, true page load times beside the best.

    appearing   120 networks; classes are made of the faster half, the slower half comes after a quarter of the sessions
    twins       8 kinds of networks, two populations in each: round trips 0.35 e-folds apart, queues of a tenth of
                the pipe and of three pipes, hence other configurations; one class for each kind
    moved       the same, but the second population is clients who leave the first after a quarter of the sessions
    alike       8 kinds, one population: there is nothing to split
    slower      the same, half of each kind 0.35 e-folds farther and 2.5 times as slow under every configuration:
                loads differ, what is best does not

The same sessions with classes that stay (fixed), that split but search what they split off from a hypercube (no seed),
that split and begin with the tree's word (splitting), and that were made with knowledge of all populations: one class
for each (known), and as many as splitting came to (as many).
Bounds are as `learn run --evolve` makes them. Each seed's line: excess with its interval by prefix, splits. Claims,
stated before seeds 1 to 5 were run (validation seeds since): where members diverge, the median falls by more than
chance over the seeds (Student's interval of the difference) and by at least half of what knowing all would; `alike`
is never split and decides the same bits; `slower` costs at most 0.01 at the median; the tree's word leaves no more
excess than the hypercube, in the mean. A claim that is missed ends with exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.claims import Claims
from configtron.learner.class_cells import classed as cells_of
from configtron.learner.class_cells import has_classes
from configtron.learner.classes import Classes, fit
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.evolve import Divergence
from configtron.learner.initial_classes import divergence_of
from configtron.learner.policies.ensemble import Ensemble
from configtron.learner.table_policy import TablePolicy
from configtron.model.tensor import Tensor
from configtron.studies.classes import measured_noise
from configtron.studies.sim.analytic import analytic
from configtron.studies.sim.conditions import Conditions, spread
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import fared, over
from configtron.studies.sim.pages import pages
from configtron.studies.sim.sessions import USUAL, Sessions, drawn, networks_of
from configtron.studies.sim.world import World
from configtron.studies.simulated.points import last_half, lived

SESSIONS, CLIENTS, SITES, KINDS, EACH = 24_000, 480, 5, 8, 6
VALIDATION = (1, 2, 3, 4, 5)
# Networks that `appearing` has; classes of either half.
NETWORKS, OF_HALF = 120, 4
# e-folds of round trip between two populations of a kind; queues of each, in pipes; packets no queue is below or above.
APART_LN, QUEUES, QUEUE_PACKETS = 0.35, (0.1, 3.0), (5.0, 2000.0)
# How many times as long the farther half of `slower` loads; members of a population, e-folds from one another.
SLOWER, WITHIN_LN = 2.5, 0.04
# From then on the second population is there.
COMES = SESSIONS // 4
CLAIM_SHARE, CLAIM_COST = 0.5, 0.01
DIVERGING = ("appearing", "twins", "moved")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A world, with classes made of what was there at first, and those made of all there will be."""

    world: World
    known: Classes


def kinds(rng: np.random.Generator, queues: tuple[float, float], apart_ln: float) -> Conditions:
    """KINDS networks far from one another, EACH members of two populations in each."""
    some = spread(400, rng)
    points = np.log(np.stack((some.bandwidth_kbps, some.rtt_ms, some.loss + 0.002), axis=1))
    chosen = [0]
    while len(chosen) < KINDS:
        away = np.min([((points - points[at]) ** 2).sum(axis=1) for at in chosen], axis=0)
        chosen.append(int(away.argmax()))
    kind, side = np.repeat(chosen, 2 * EACH), np.tile(np.repeat((0, 1), EACH), KINDS)
    wrong = np.exp(WITHIN_LN * rng.standard_normal((2, len(kind))))
    pipe = some.bandwidth_kbps[kind] * some.rtt_ms[kind] / 12_000.0
    rtt_ms = some.rtt_ms[kind] * np.exp(apart_ln * (side - 0.5)) * wrong[1]
    queue = np.clip(np.array(queues)[side] * pipe, *QUEUE_PACKETS)
    return Conditions(some.bandwidth_kbps[kind] * wrong[0], rtt_ms, some.loss[kind], queue)


def appearing(rng: np.random.Generator) -> tuple[Tensor, Codes, int]:
    """(tensor, (conditions,) the one that clients are on before the second population is there, classes of all)."""
    tensor = analytic(rng, conditions=spread(NETWORKS, rng), sites=pages(SITES))
    fast = np.flatnonzero(tensor.bandwidth_kbps > np.median(tensor.bandwidth_kbps))
    before = rng.choice(fast, NETWORKS)
    before[fast] = fast
    return tensor, before, 2 * OF_HALF


def twins(rng: np.random.Generator) -> tuple[Tensor, Codes, int]:
    tensor = analytic(rng, conditions=kinds(rng, QUEUES, APART_LN), sites=pages(SITES))
    return tensor, np.arange(len(tensor.names)), 2 * KINDS


def moved(rng: np.random.Generator) -> tuple[Tensor, Codes, int]:
    tensor, same, classes = twins(rng)
    return tensor, np.where(same // EACH % 2 == 1, same - EACH, same), classes


def alike(rng: np.random.Generator) -> tuple[Tensor, Codes, int]:
    tensor = analytic(rng, conditions=kinds(rng, (1.0, 1.0), 0.0), sites=pages(SITES))
    return tensor, np.arange(len(tensor.names)), KINDS


def slower(rng: np.random.Generator) -> tuple[Tensor, Codes, int]:
    tensor, same, _ = alike(rng)
    far = same // EACH % 2 == 1
    ms = tensor.median_ms * np.where(far, SLOWER, 1.0).astype(np.float32)[:, None, None]
    rtt_ms = tensor.rtt_ms * np.exp(APART_LN * (far - 0.5))
    return replace(tensor, rtt_ms=rtt_ms, median_ms=ms), same, 2 * KINDS


WORLDS: dict[str, Callable[[np.random.Generator], tuple[Tensor, Codes, int]]] = {
    make.__name__: make for make in (appearing, twins, moved, alike, slower)
}


def case(name: str, seed: int) -> Case:
    """One world of that name."""
    tensor, before, classes = WORLDS[name](np.random.default_rng((seed, 1)))
    rng, how = np.random.default_rng((seed, 2)), replace(USUAL, prefixes=CLIENTS, change_share=0.0)
    sessions = at_first(drawn(tensor, SESSIONS, rng, how), tensor, before, rng)
    points, there = networks_of(tensor).points(), np.unique(before)
    made = fit(points[there], OF_HALF if name == "appearing" else KINDS, np.random.default_rng((seed, 3)))
    return Case(World(tensor, sessions, made, None, seed), fit(points, classes, np.random.default_rng((seed, 3))))


def at_first(sessions: Sessions, tensor: Tensor, before: Codes, rng: np.random.Generator) -> Sessions:
    """The sessions, but before COMES every client is on the network of the first population that `before` says; the
    history knows."""
    code = np.where(np.arange(len(sessions)) < COMES, before[sessions.condition], sessions.condition)
    wrong: Floats = np.exp(USUAL.off_ln * rng.standard_normal((2, len(sessions))))
    seen = sessions.seen
    numbers = (tensor.bandwidth_kbps[code] * wrong[0], tensor.rtt_ms[code] * wrong[1], tensor.loss[code])
    shown = Contexts(*numbers, seen.site, seen.sites, seen.prefix, seen.prefixes)
    return replace(sessions, condition=code, after=code, seen=shown)


def ways(policy: str, here: Case) -> dict[str, TablePolicy]:
    """The policies that are compared, by what becomes of their classes."""
    bound, found = divergence_of(measured_noise(here.world)), {}
    for way in ("fixed", "no seed", "splitting", "known"):
        classes = here.known if way == "known" else here.world.classes
        made = classed(policy, here, classes, bound if way in ("no seed", "splitting") else None)
        if isinstance(made, Ensemble):
            made.options = replace(made.options, seed_by_tree=way != "no seed")
        elif way == "no seed":
            continue
        found[way] = made
    return found


def classed(policy: str, here: Case, classes: Classes, bound: Divergence | None = None) -> TablePolicy:
    """A policy of these classes."""
    made = here.world.policy(policy, classes=classes, divergence=bound)
    if not has_classes(made):
        sys.exit(f"{policy} has no network classes; there is configtron, for instance")
    return made


def as_many(policy: str, here: Case, seed: int, classes: int) -> TablePolicy:
    """Of that many classes, made with knowledge of all networks; fewer where there are fewer networks."""
    points = networks_of(here.world.tensor).points()
    return classed(policy, here, fit(points, classes, np.random.default_rng((seed, 3))))


def replays(name: str, seed: int, policy: str) -> dict[str, tuple[Replay, Floats]]:
    """Every way's replay, and (median, p95, excess ms, splits); a line is printed for each."""
    found, here = {}, case(name, seed)
    made_ways = ways(policy, here)
    for way in (*made_ways, "as many"):
        made = (
            made_ways[way] if way in made_ways else as_many(policy, here, seed, len(made_ways["splitting"].class_ids_))
        )
        replay = lived(here.world, [made])
        last = fared(replay, last_half(replay))
        excess = f"{last.excess_ms.value:8.0f} [{last.excess_ms.low:.0f}, {last.excess_ms.high:.0f}]"
        row = f"{name:12s}{seed:4d}  {way:12s}{last.median.value:8.3f}{last.p95.value:8.3f}{excess:>22s}"
        print(f"{row}{cells_of(made).splits_:8d}", flush=True)
        numbers = (last.median.value, last.p95.value, last.excess_ms.value, float(cells_of(made).splits_))
        found[way] = replay, np.array(numbers)
    return found


def summed(name: str, worlds: list[dict[str, tuple[Replay, Floats]]], claims: Claims, judged: bool) -> None:
    """The means over seeds, and the claims about a world."""
    of = {way: np.stack([world[way][1] for world in worlds]) for way in worlds[0]}
    for way, numbers in of.items():
        median, p95, excess, splits = (over(list(column)) for column in numbers.T)
        shares = f"{median.value:.3f} [{median.low:.3f}, {median.high:.3f}]  p95 {p95.value:.3f}"
        print(f"{name:12s}mean  {way:12s}{shares}, excess {excess.value:.0f} ms, {splits.value:.1f} splits")
    if not judged:
        return
    less = over(list(of["splitting"][:, 0] - of["fixed"][:, 0]))
    if name in DIVERGING:
        claims.hold(f"{name}: median less fixed's, upper", less.high, 0.0)
        known = float((of["fixed"] - of["known"])[:, 0].mean())
        share = -less.value / known
        print(f"  {f'{name}: share of what known gains':34s}{share:>10.2f}  {claims.at_least(share, CLAIM_SHARE)}")
        seeded = over(list(of["splitting"][:, 2] - of["no seed"][:, 2]))
        claims.hold(f"{name}: tree's excess less hypercube's, ms", seeded.value, 0.0, ".0f")
        print(f"  {'':34s}[{seeded.low:.0f}, {seeded.high:.0f}] over the seeds")
    elif name == "slower":
        claims.hold("slower: median less fixed's", less.value, CLAIM_COST)
    else:
        same = [(w["splitting"][0].plt_ms_ == w["fixed"][0].plt_ms_).all() for w in worlds]
        claims.hold("alike: splits", float(of["splitting"][:, 3].sum()), 0.0, ".0f")
        claims.hold("alike: seeds whose bits differ", float(len(same) - sum(same)), 0.0, ".0f")


def main(policy: str = "configtron", seeds: str = ",".join(map(str, VALIDATION)), *names: str) -> int:
    """The table and the claims; 1 if one is missed."""
    claims, which = Claims(), tuple(map(int, seeds.split(",")))
    print(f"{policy}: {SESSIONS} sessions, last half; distance from the best, shares; excess by prefix")
    print(f"{'world':12s}seed  {'classes':12s}{'median':>8s}{'p95':>8s}{'excess, ms':>22s}{'splits':>8s}")
    for name in names or WORLDS:
        summed(name, [replays(name, seed, policy) for seed in which], claims, policy == "configtron" and len(which) > 1)
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
