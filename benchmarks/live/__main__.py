# SPDX-License-Identifier: MIT
"""The closed loop alive, in virtual time: what clients of six continents gain, and what it takes to recover.

    OMP_NUM_THREADS=1 python -m benchmarks.live [SEED [EPOCHS]]      make demo-live
    OMP_NUM_THREADS=1 python -m benchmarks.live aa [RUNS]

Four servers, a manager whose maps the product's learner makes, clients who draw from them as the kernel does, rows of
outcomes; page loads are repeats that the lab measured. Half of the clients are held back. Planted: a continent's
network changes, the most used profile becomes three times as slow, a server is lost, the manager is killed. Beside it,
on the same clients and chance: ConfigTron's ensemble, MAB+NC, the best static configuration in hindsight, and the best
of each condition. Exit code 1: p95 of all continents together is not better than Default's by an interval that
excludes 0, a continent's median is worse by one, or something planted is not recovered from. `aa`: no configuration
matters; exit code 1 where more than 5 % of the runs claim a gain or a harm, beyond chance.
The same seed prints the same bytes; seconds go to stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import bdtrc

from benchmarks.live import rivals
from benchmarks.live.fleet import Run, run, weights_of
from benchmarks.live.judge import claimed, compared, judged_of, mean_interval
from benchmarks.live.scenario import (
    CHANGED,
    Scenario,
    guarded,
    indifferent,
    measured,
    settings_at,
    world_of,
)
from configtron.learner.columns import Codes, Floats
from tests.support.live_world import LiveWorld

POLICIES = {"thompson": "configtron (thompson)", "configtron": "ConfigTron's ensemble", "mab_nc": "MAB+NC"}
# Epochs of ten minutes.
EPOCH_S = 600
# A profile that harms is gone once so few tuned clients have it.
GONE = 0.01
# Epochs that learning takes to begin with.
LEARNING = 6
# Epochs that recovery may take: stated beforehand, an hour.
RECOVERED = 6
# Runs without an effect, how large they are, and the share of them that may claim anything; how sure a larger one is.
RUNS, SMALL, MOST, SURE = 200, Scenario(epochs=8, prefixes=5, clients=30, loads=300), 0.05, 0.01


def main(*words: str) -> int:
    """The experiment, or the runs without an effect."""
    if words and words[0] == "aa":
        return without_effect(int(words[1]) if len(words) > 1 else RUNS)
    scenario = Scenario(seed=int(words[0]) if words else 1)
    return experiment(replace(scenario, epochs=int(words[1])) if len(words) > 1 else scenario)


def experiment(scenario: Scenario) -> int:
    """Print the tables; whether a claim is missed."""
    tensor = measured()
    grid = guarded(tensor)
    print(f"seed {scenario.seed}: {scenario.epochs} epochs of {EPOCH_S} s, {scenario.loads} loads each; 6 continents of"
          f" {scenario.prefixes} prefixes with {scenario.clients} clients, {scenario.holdback:.0%} held back;"
          f" {len(tensor.names)} measured conditions, {len(grid)} configurations")  # fmt: skip
    worlds, runs = {}, {}
    for policy in POLICIES:
        began = time.monotonic()
        worlds[policy] = world_of(tensor, scenario)
        runs[policy] = run(policy, worlds[policy], grid, scenario)
        print(f"{policy}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        found = runs[policy]
        last = found.maps[-1]
        print(f"{POLICIES[policy]}: {found.outcomes} outcomes learned, {sum(found.left_out.values())} left out,"
              f" {len(last.prefixes)} prefixes in {len(last.mixes)} classes")  # fmt: skip
    first = next(at for at, one in enumerate(runs["thompson"].maps) if one.mixes)
    world, mine = worlds["thompson"], runs["thompson"]
    missed = gains(worlds, runs, rivals.configurations(world, grid), first, scenario)
    missed += recovery(world, mine, scenario)
    print("claims: " + ("MISSED: " + "; ".join(missed) if missed else "hold"))
    return int(bool(missed))


def gains(
    worlds: dict[str, LiveWorld], runs: dict[str, Run], among: Codes, first: int, scenario: Scenario
) -> list[str]:
    """Print p50 and p95 of both arms, from the first map with mixes on; return what is missed."""
    world, mine, epochs = worlds["thompson"], runs["thompson"], range(first, scenario.epochs)
    of_client = world.clients.continent[world.clients.prefix]
    static = rivals.static_of(world, mine, epochs, among)
    times: dict[str, Sequence[Floats] | None] = {
        f"best static, {settings_at(world.tensor.grid, static)}": rivals.static_times(world, mine, epochs, static),
        "best of each condition": rivals.optimum_times(world, mine, epochs, among),
    }
    tables = {POLICIES[name]: judged_of(found.loads[first:], of_client) for name, found in runs.items()}
    tables |= {name: judged_of(mine.loads[first:], of_client, ms) for name, ms in times.items()}
    print(f"\nepochs {first} to {scenario.epochs - 1}, exploration and all that was planted included; 95 % intervals of"
          " a bootstrap by client")  # fmt: skip
    print(f"{'':32s} {'held ms':>8s}{'tuned':>8s}  p50 gain, %              held ms   tuned  p95 gain, %")
    missed = []
    for name, loads in tables.items():
        for at, continent in enumerate(("all", *world.clients.continents)):
            if at and name != POLICIES["thompson"]:
                break
            here = loads if not at else loads[np.flatnonzero(loads.continent == at - 1)]
            half, tail = compared(here, 0.5), compared(here, 0.95)
            print(f"{name if not at else '  ' + continent:32s} {half.words}   {tail.words}")
            if name == POLICIES["thompson"] and not at and tail.low <= 0.0:
                missed.append("p95 of all is not better")
            if name == POLICIES["thompson"] and at and half.high < 0.0:
                missed.append(f"the median of {continent} is worse")
    stretches(worlds, runs, among, static, windows_of(scenario, first))
    return missed


def windows_of(scenario: Scenario, first: int) -> dict[str, range]:
    """Return the stretches of a run that are judged apart."""
    learned, harmful = first + LEARNING, scenario.harmful or scenario.epochs
    change = min(scenario.change or harmful, harmful)
    found = {
        "first hour of learning": range(first, learned),
        "until the change": range(learned, change),
        "after the change": range(change, harmful),
        "harmful profile, three epochs": range(harmful, min(harmful + 3, scenario.epochs)),
        "after that": range(harmful + 3, scenario.epochs),
        "all": range(first, scenario.epochs),
    }
    return {name: epochs for name, epochs in found.items() if len(epochs)}


def stretches(worlds: dict[str, LiveWorld], runs: dict[str, Run], among: Codes, static: int, windows: dict[str, range]
              ) -> None:  # fmt: skip
    """Print what each gains over Default on the same loads by the same chance, and the learner against the static."""
    world, mine = worlds["thompson"], runs["thompson"]
    print("\ngain of the geometric mean of tuned clients' loads over Default, the same loads and the same chance, %;"
          " 95 % interval of the difference")  # fmt: skip
    print(f"{'':30s} {'thompson':>9s} {'ensemble':>9s} {'MAB+NC':>9s} {'static':>9s} {'optimum':>9s}"
          "   thompson against static")  # fmt: skip
    for name, epochs in windows.items():
        shown = []
        for policy, found in runs.items():
            times = [found.loads[epoch].plt_ms for epoch in epochs]
            shown.append(rivals.ln_gain(worlds[policy], found, epochs, times)[0].mean())
        own, client = rivals.ln_gain(world, mine, epochs, [mine.loads[epoch].plt_ms for epoch in epochs])
        fixed, _ = rivals.ln_gain(world, mine, epochs, rivals.static_times(world, mine, epochs, static))
        best, _ = rivals.ln_gain(world, mine, epochs, rivals.optimum_times(world, mine, epochs, among))
        shown += [fixed.mean(), best.mean()]
        words = " ".join(f"{100 * (1 - np.exp(-one)):+9.1f}" for one in shown)
        more = [100 * (1 - np.exp(-one)) for one in mean_interval(own - fixed, client)]
        print(f"{name:30s} {words}   {more[0]:+6.1f} [{more[1]:+5.1f}, {more[2]:+5.1f}]")


def recovery(world: LiveWorld, found: Run, scenario: Scenario) -> list[str]:
    """Print how long each thing planted was felt; return what was not recovered from."""
    print("\nplanted faults, and how long they made tuned clients slower")
    missed = _changed(world, found, scenario.change) if len(found.changed) else []
    missed += _harmful(world, found, scenario) if found.harmful >= 0 else []
    if scenario.lost and scenario.lost < len(found.loads):
        missed += _lost(found, scenario)
    if scenario.restart and scenario.restart < len(found.loads):
        print(f"  epoch {scenario.restart}: the manager is killed in mid-epoch: started anew from what it saved with"
              " its last map, and the rows since, it knows the same, bit for bit")  # fmt: skip
    return missed


def _changed(world: LiveWorld, found: Run, change: int) -> list[str]:
    mine = {world.clients.prefix_name(int(at)) for at in found.changed}
    events = [(epoch, one) for epoch, one in found.moved if epoch > change and one.prefix in mine and one.outcomes]
    listed = {one for one in found.maps[change].prefixes if one in mine}
    came = {one.prefix for _, one in events}
    outcomes = np.array([one.outcomes for _, one in events] or [0])
    seconds = np.array([one.seconds for _, one in events] or [0.0])
    print(f"  epoch {change}: the network of {CHANGED} changes; of its {len(listed)} listed prefixes"
          f" {len(came & listed)} came to another class, shown by {np.median(outcomes):.0f} of their outcomes at the"
          f" median, {outcomes.max()} at most; in force {np.median(seconds):.0f} s after the first of them at the"
          f" median, {seconds.max():.0f} s at most")  # fmt: skip
    if len(came & listed) < 0.9 * len(listed):
        return [f"{len(listed - came)} prefixes kept the class of their former network"]
    return []


def _harmful(world: LiveWorld, found: Run, scenario: Scenario) -> list[str]:
    shares = [weights_of(one, world.tensor.grid).get(found.harmful, 0.0) for one in found.loads]
    gone = next((at for at, share in enumerate(shares) if at > scenario.harmful and share <= GONE), None)
    words = "not within the run" if gone is None else f"after {gone - scenario.harmful} epochs"
    print(
        f"  epoch {scenario.harmful}: {settings_at(world.tensor.grid, found.harmful)}, which"
        f" {shares[scenario.harmful]:.0%} of tuned clients had, takes {scenario.slower:g} times as long: at most"
        f" {GONE:.0%} have it {words}; by epoch {', '.join(f'{one:.0%}' for one in shares[scenario.harmful :][:8])}"
    )
    return ["the harmful profile is still drawn"] if gone is None or gone > scenario.harmful + RECOVERED else []


def _lost(found: Run, scenario: Scenario) -> list[str]:
    arms: dict[tuple[int, int], set[int]] = {}
    for one in found.loads:
        for client, arm in zip(one.client.tolist(), one.arm.tolist(), strict=True):
            arms.setdefault((one.epoch, client), set()).add(arm)
    mixed = sum(len(some) > 1 for some in arms.values())
    print(f"  epoch {scenario.lost}: a server is lost for {scenario.lost_for} epochs: its clients are served by the"
          f" next with the same map; {mixed} of {len(arms)} clients had two arms within an epoch")  # fmt: skip
    return ["clients had two arms within an epoch"] if mixed else []


def without_effect(runs: int) -> int:
    """Run small worlds in which no configuration matters; return whether too many claim anything."""
    tensor = indifferent(measured())
    grid, alarms, began = guarded(tensor), 0, time.monotonic()
    for seed in range(runs):
        scenario = replace(SMALL, seed=10_000 + seed).quiet()
        world = world_of(tensor, scenario)
        found = run("thompson", world, grid, scenario, begin_with=600, classes=6, features="few")
        first = next(at for at, one in enumerate(found.maps) if one.mixes)
        loads = judged_of(found.loads[first:], world.clients.continent[world.clients.prefix])
        alarms += claimed(loads, world.clients.prefix)
        if seed % 20 == 19:
            print(
                f"{seed + 1} runs, {alarms} false alarms, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
            )
    chance = float(bdtrc(alarms - 1, runs, MOST)) if alarms else 1.0
    print(f"{alarms} of {runs} runs without an effect ever claim a difference of median or p95: {alarms / runs:.1%};"
          f" at most {MOST:.0%}: {'MISSED' if chance < SURE else 'holds'}")  # fmt: skip
    return int(chance < SURE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
