"""The study's course in a world of formulas: who is told what, what a budget is, and what becomes of failures.

The formulas are test_search's. The last test runs the smoke study in guests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as Folder

import pytest

from configtron.evaluated import HOLDS, Evaluated, Table
from configtron.lab.bed.evaluate.calibrated import Plan
from configtron.lab.bed.evaluate.calibration import SMOKE_MBIT, calibrate, run
from configtron.lab.bed.evaluate.emulators import Emulator
from configtron.lab.bed.evaluate.paths import HIDDEN, Path, hidden
from configtron.lab.bed.evaluate.study import Given, Step
from configtron.lab.bed.flows import Flowed, Ran, Told, Trial
from tests.lab.bed.test_search import flows as formula

PLAN = Plan(("bbr", "cubic", "vegas"), runs=3, seconds=4.0, budget=14, batch=4, hidden=1)
TRUTHS = (Emulator(2.0, 30.0, 60, 0.0, "constant"), Emulator(0.9, 12.0, 40, 0.004, "poisson"))


class World:
    """Runs flows by the formula and remembers what was asked. fails: part of a name -> its boot, or its flows, fail."""

    def __init__(self, boots: str = "", flows: str = "") -> None:
        self.asked: dict[str, list[Trial]] = {}
        self._boots, self._flows = boots, flows

    def perform(self, given: Given, trials: Mapping[str, Sequence[Trial]]) -> Ran:
        told: dict[str, list[Told]] = {}
        for at, (name, asked) in enumerate(trials.items(), 1):
            assert name not in self.asked
            self.asked[name] = list(asked)
            if not (self._boots and self._boots in name):
                told[name] = [self._told(name, trial) for trial in asked]
            given.tell(Step(at, len(trials), name))
        return Ran(told, {name: "no guest" for name in trials if name not in told})

    def _told(self, name: str, trial: Trial) -> Told:
        scheme = trial.flows[0].scheme
        if self._flows and self._flows in name:
            return Told((Flowed(scheme, 0.0, math.nan, 1.0, 0, 9, "no-packet-arrived"),))
        figures = formula(emulator_of(trial.condition.name), trial.seed)[scheme]
        return Told((Flowed(scheme, figures.mbit, figures.delay_ms, 0.0, 1, 1),))


def emulator_of(name: str) -> Emulator:
    rate, delay, loss, queue, *kind = name.partition(":")[2].split("/")
    return Emulator(float(rate), float(delay), int(queue), float(loss) / 100, kind[0] if kind else "constant")


def studied(world: World, tell: list[Step] | None = None) -> Evaluated:
    paths = [
        Path(f"hidden-{number}", HIDDEN, "", lambda run, one=truth: one.condition(), truth=truth)  # type: ignore[misc]
        for number, truth in enumerate(TRUTHS, 1)
    ]
    steps = tell if tell is not None else []
    return calibrate(Given(Folder("/nowhere"), seed=3, tell=steps.append), PLAN, paths, world.perform)


def errors(told: Evaluated) -> Table:
    return told.tables[0]


def test_hidden_emulators_are_found_and_every_part_is_counted() -> None:
    world, steps = World(), list[Step]()
    told = studied(world, steps)
    assert told.whole and told.facts[0].verdict == HOLDS
    assert all(isinstance(row[2], float) and row[2] < 12 for row in errors(told).rows)
    assert {step.parts for step in steps} == {len(world.asked)}
    assert [step.done for step in steps] == list(range(1, len(world.asked) + 1))


def test_both_searches_spend_the_same_budget() -> None:
    world = World()
    studied(world)
    schemes = len(PLAN.schemes)
    by_search = [name for name in world.asked if name.startswith("hidden-1-round")]
    assert sum(len(world.asked[name]) for name in by_search) == PLAN.budget * schemes
    assert [len(world.asked[name]) // schemes for name in by_search] == [4, 4, 4, 2]
    assert len(world.asked["hidden-1-chance"]) == PLAN.budget * schemes
    # a path as often as what was taken, told and held; search, chance and suggestion
    assert len(world.asked["path-hidden-1"]) == 2 * PLAN.runs * schemes
    assert len(world.asked["hidden-1-taken"]) == 3 * PLAN.runs * schemes


def test_no_two_runs_share_their_chance() -> None:
    world = World()
    studied(world)
    seeds = [
        (trial.seed, trial.condition.name, trial.flows[0].scheme) for asked in world.asked.values() for trial in asked
    ]
    assert len(set(seeds)) == len(seeds)
    # but the schemes of one run meet the same network
    first = world.asked["path-hidden-1"][: len(PLAN.schemes)]
    assert len({trial.seed for trial in first}) == 1 and len({trial.flows[0].scheme for trial in first}) == 3


def test_the_same_seed_asks_the_same() -> None:
    worlds = World(), World()
    told = [studied(world) for world in worlds]
    assert worlds[0].asked == worlds[1].asked and told[0] == told[1]


def test_a_boot_that_fails_costs_its_round_only() -> None:
    told = studied(World(boots="hidden-1-round-1"))
    assert "hidden-1-round-1: no guest" in told.missing
    assert [row[0] for row in errors(told).rows] == ["hidden-1", "hidden-2", "mean of 2"]


def test_flows_that_fail_are_told_to_nobody() -> None:
    told = studied(World(flows="hidden-2-round-2"))
    assert [row[0] for row in errors(told).rows] == ["hidden-1", "hidden-2", "mean of 2"]


def test_a_path_that_fails_is_missing_and_the_others_are_not() -> None:
    for world in (World(boots="path-hidden-2"), World(flows="path-hidden-2"), World(flows="hidden-2-taken")):
        told = studied(world)
        assert [row[0] for row in errors(told).rows] == ["hidden-1", "mean of 1"]
        assert "hidden-2" in told.missing and not told.whole


@pytest.mark.root
@pytest.mark.lab
def test_kernels_over_a_hidden_path_and_over_what_stands_for_it(tmp_path: Folder) -> None:
    steps = list[Step]()
    given = Given(tmp_path, seed=1, jobs=2, smoke=True, worker="configtron.cli.tune.part", tell=steps.append)
    told = run(given)
    truth = hidden(1, 1, SMOKE_MBIT)[0].truth
    assert told.whole and truth
    figures = {str(row[1]): row[2:] for row in told.tables[2].rows}
    # the path is what was drawn: one flow of BBR fills it, and nobody is earlier than light
    assert figures["bbr"][0] == pytest.approx(truth.rate_mbit, rel=0.1)
    assert all(isinstance(row[2], float) and row[2] > truth.delay_ms for row in figures.values())
    # and so is what stands for it: named as a condition, and not far off after a few tries
    assert str(told.tables[0].rows[0][6]).startswith("emulated:")
    assert isinstance(error := told.tables[0].rows[0][2], float) and error < 30
    # what is whole is not run again
    again = list[Step]()
    # as text: one path's mean has no interval, and NaN is not itself
    assert repr(run(replace(given, tell=again.append))) == repr(told)
    assert len([step for step in again if step.now]) == 0 < len([step for step in steps if step.now])
