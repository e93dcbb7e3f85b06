# SPDX-License-Identifier: MIT
"""How often a roll-out's tests are wrong without any effect, and how soon they find one.

    OMP_NUM_THREADS=1 python -m benchmarks.canary [RUNS [aa | power | rollouts]]

Loads have heavy tails (Student's t with three degrees of freedom about a deviation of ln(ms) of 0.8), clients have 3
loads in the mean, which differ together, 2 % of loads fail; each test is read every 50 loads of an arm.

aa         no effect: runs in which a test is ever wrong; beside it a test at 1.96 at every look
power      2, 5 and 10 % slower: runs that find it, and loads of an arm at the median run's find; the same loads with
           and without an expectation that knows half of their variance, clients' own share being a tenth; beside it
           silence, which never is wrong and finds nothing
rollouts   a fifth as many whole roll-outs: without effect, and with harm to all loads, to one load in ten, or to
           connections

Exit code 1: a gate, an alarm, or whole roll-outs are wrong without an effect in more than 5 % of runs, beyond chance.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtrc, betaincinv

from configtron.learner.rollout import (
    SHARES,
    Rollout,
    RolloutBegun,
    RolloutPlan,
    ShadowUnseen,
    StageLook,
    advance,
)
from configtron.learner.sequential.always_valid import width
from configtron.learner.sequential.differences import GEOMETRIC, GOALS, MEDIAN, P95, ArmLoads, Goal, difference
from configtron.learner.sequential.group_sequential import bounds
from configtron.learner.sequential.sample_ratio import at_all_times
from tests.support.arm_loads import arm_loads

RUNS, LOADS, STEP = 1000, 10_000, 100
# Shares of clients that get the version, of those compared: as in a canary, and as beside a holdback of 5 %.
ALLOCATIONS = (0.5, 0.95)
# Of both arms together; looks of the gate among them.
LOOKS = range(2 * STEP, LOADS + 1, STEP)
GATE_LOOKS = 10
ERROR, SURE = 0.05, 0.01
TESTS = ("1.96 at each look", "alarm: always valid", "gate: 10 looks")
# Shares of clients that are held back, and a small roll-out's plan: margins that so few loads can pass.
HELD = 0.05
SMALL = RolloutPlan(margins=(("median", 0.2), ("p95", 0.4), ("failures", 0.03)), clients=1000)
# Loads that a stage may have before it is given up: `all` has no end of its own.
MOST_LOADS = {"canary": 8000, "quarter": 20_000, "all": 40_000}


@dataclass(frozen=True, slots=True)
class Harm:
    """What a version does: slower, as a share, for all loads or one in ten; failed loads besides 2 %."""

    name: str
    slower: float = 0.0
    tail: float = 0.0
    failing: float = 0.02


HARMS = (
    Harm("none"), Harm("5 % slower", 0.05), Harm("20 % slower", 0.2), Harm("50 % slower", 0.5),
    Harm("one load in ten takes 4 times", tail=3.0), Harm("8 % of loads fail", failing=0.08), Harm("20 % faster", -0.2),
)  # fmt: skip


def finds(loads: ArmLoads, goal: Goal, gate: tuple[float, ...]) -> tuple[int, int, int]:
    """Return the loads of both arms at which each test first calls the arms different; 0: never."""
    found, gates = [0, 0, 0], [LOADS * look // GATE_LOOKS for look in range(1, GATE_LOOKS + 1)]
    for n in LOOKS:
        seen = difference(loads[:n], goal)
        if seen.reason:
            continue
        off = abs(seen.estimate) / seen.error
        ends = (
            1.96,
            width(seen.error**2, seen.effective_units, ERROR, seen.effective_units * LOADS / n / 4) / seen.error,
            np.inf,
        )
        ends = (*ends[:2], gate[gates.index(n)]) if n in gates else ends
        found = [first or (n if off > end else 0) for first, end in zip(found, ends, strict=True)]
        if all(found):
            break
    return found[0], found[1], found[2]


def interval(hits: int, of: int) -> str:
    """Return a share and its 95 % interval (Clopper and Pearson 1934), as printed."""
    low = 0.0 if hits == 0 else float(betaincinv(hits, of - hits + 1, 0.025))
    high = 1.0 if hits == of else float(betaincinv(hits + 1, of - hits, 0.975))
    return f"{hits / of:6.1%} [{low:5.1%}, {high:5.1%}]"


def too_many(hits: int, of: int) -> bool:
    """Return whether so many runs are wrong that 5 % is not the share, beyond chance."""
    return hits > 0 and float(bdtrc(hits - 1, of, ERROR)) < SURE


def aa(runs: int) -> int:
    """Print how often tests are wrong; the number of tests, but for that at 1.96, that are wrong too often."""
    print(
        f"{runs} runs without an effect, {LOADS // 2} loads an arm, read every {STEP // 2} loads: runs that are wrong"
    )
    print("goal      " + "   ".join(f"{name:>22s}" for name in TESTS))
    gate, missed = bounds([look / GATE_LOOKS for look in range(1, GATE_LOOKS + 1)], ERROR, two_sided=True), 0
    for share in ALLOCATIONS:
        print(f"{share:.0%} of clients treated")
        for goal in (*GOALS, GEOMETRIC):
            found = np.array([finds(arm_loads((1, seed), LOADS, share=share), goal, gate) for seed in range(runs)])
            hits = [int(count) for count in (found > 0).sum(axis=0)]
            missed += sum(too_many(count, runs) for count in hits[1:])
            print(f"{goal.name:10s}" + "   ".join(f"{interval(count, runs):>22s}" for count in hits), flush=True)
    print(f"claim: gate and alarm are wrong in at most {ERROR:.0%} of runs: {'MISSED' if missed else 'holds'}")
    return missed


def power(runs: int) -> int:
    """Print how often, and when, effects are found."""
    print(f"{runs} runs; found in so many, at so many loads of an arm in the median of those that find it")
    print("effect  expectation  goal     " + "   ".join(f"{name:>20s}" for name in (*TESTS, "silence")))
    gate = bounds([look / GATE_LOOKS for look in range(1, GATE_LOOKS + 1)], ERROR, two_sided=True)
    for effect in (0.02, 0.05, 0.10):
        for goal in (GEOMETRIC, MEDIAN, P95):
            keys = [(2, round(100 * effect), seed) for seed in range(runs)]
            made = [arm_loads(key, LOADS, effect, explained=0.5, of_units=0.1) for key in keys]
            for how in ("none", "half known"):
                given = made if how != "none" else [replace(one, expected_ln=np.zeros(0)) for one in made]
                found = np.array([finds(loads, goal, gate) for loads in given])
                row = (_found(found[:, test]) for test in range(3))
                print(f"{effect:+6.0%}  {how:11s}  {goal.name:7s}  {'   '.join(row)}   {'0.0 %':>20s}", flush=True)
    return 0


def _found(loads: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    hits = loads[loads > 0]
    at = f"{int(np.median(hits)) // 2:5d}" if len(hits) else "    -"
    return f"{len(hits) / len(loads):8.1%} at {at} loads"


def rolled_out(seed: int, harm: Harm) -> tuple[Rollout, int]:
    """Return where a small roll-out came to, and loads that got the version before it ended."""
    rollout = advance(advance(Rollout((1, 2), (1, 1), SMALL), RolloutBegun(1)), ShadowUnseen(2))
    at, exposed = 2, 0
    while rollout.share and rollout.stage in MOST_LOADS:
        stage, share = rollout.stage, rollout.share * (1.0 - HELD)
        treated = share / (share + HELD)
        loads = arm_loads((3, seed, list(SHARES).index(stage)), MOST_LOADS[stage], harm.slower, explained=0.3,
                          failing_treated=harm.failing, slow_tail=harm.tail, share=treated)  # fmt: skip
        ratio, step = 1.0, round(STEP / 2 / min(treated, 1.0 - treated))
        for n in range(step, len(loads) + 1, step):
            part, at = loads[:n], at + 1
            seen = tuple(("", difference(part, goal)) for goal in GOALS)
            ratio = min(ratio, at_all_times(seen[0][1].units, (1.0 - treated, treated)))
            rollout = advance(rollout, StageLook(at, stage, seen, ratio))
            if rollout.stage != stage:
                break
        exposed += int(part.treated.sum())
        if rollout.stage == stage:
            break
    return rollout, exposed


def rollouts(runs: int) -> int:
    """Print where roll-outs of harmless and harmful versions end; whether harmless ones are called harmful, or better,
    too often."""
    print(f"{runs} small roll-outs each: {SMALL.clients} clients an arm and stage, margins {dict(SMALL.margins)}")
    print("version                            alarm     not passed     reached all     called better    loads with it")
    missed = 0
    for harm in HARMS:
        ends = [rolled_out(seed, harm) for seed in range(runs)]
        why = Counter(rollout.evidence[-1].why if rollout.stage == "returned" else "all" for rollout, _ in ends)
        better, exposed = sum(bool(rollout.claimed) for rollout, _ in ends), int(np.median([n for _, n in ends]))
        wrong = sum(bool(r.claimed) or r.evidence[-1].why == "alarm" for r, _ in ends)
        parts = (f"{count / runs:9.1%}" for count in (why["alarm"], why["not-passed"], runs - why["alarm"]
                                                      - why["not-passed"], better))  # fmt: skip
        print(f"{harm.name:31s}{'       '.join(parts)}    {exposed:8d}", flush=True)
        if harm.name == "none":
            missed += too_many(wrong, runs)
            print(f"  wrong without an effect: {interval(wrong, runs)}")
    print(f"claim: at most {ERROR:.0%} of roll-outs without an effect are wrong: {'MISSED' if missed else 'holds'}")
    return missed


KINDS: dict[str, Callable[[int], int]] = {
    "aa": aa, "power": power, "rollouts": lambda runs: rollouts(max(runs // 5, 1)),
}  # fmt: skip


def main(*words: str) -> int:
    """The tables and the verdict."""
    runs = int(words[0]) if words else RUNS
    kinds = words[1:] or ("aa", "power", "rollouts")
    began, missed = time.monotonic(), 0
    for kind in kinds:
        missed += KINDS[kind](runs)
    print(f"{time.monotonic() - began:.0f} s")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
