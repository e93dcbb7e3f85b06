# SPDX-License-Identifier: MIT
"""The study's course in a world of formulas: who learns which outcome, what a budget is, and what becomes of failures.

The formulas are test_search's. The last test runs the smoke study in guests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as Folder

import pytest

from configtron.studies import calibration
from configtron.studies.calibration import SMOKE_MBIT, calibrate, run
from configtron.studies.emulation.calibration_result import CalibrationPlan
from configtron.studies.emulation.emulators import Emulator
from configtron.studies.emulation.paths import HIDDEN, EmulatedPath, hidden
from configtron.studies.flows.flows import FlowOutcome, Ran, Trial, TrialOutcome
from configtron.studies.output.results import HOLDS, UNKNOWN, Curves, Evaluated, Table
from configtron.studies.registry.kinds import Arguments, PartsProgress
from tests.studies.test_search import flows as formula

PLAN = CalibrationPlan(("bbr", "cubic", "vegas"), runs=3, seconds=4.0, budget=14, batch=4, hidden=1)
TRUTHS = (Emulator(2.0, 30.0, 60, 0.0, "constant"), Emulator(0.9, 12.0, 40, 0.004, "poisson"))


class World:
    """Runs flows by the formula and remembers what was asked. boots, flows: whose name has this, fails."""

    def __init__(self, boots: str = "", flows: tuple[str, int] = ("", 0)) -> None:
        self.asked: dict[str, list[Trial]] = {}
        self._boots, self._flows = boots, flows

    def perform(self, given: Arguments, trials: Mapping[str, Sequence[Trial]]) -> Ran:
        outcomes: dict[str, list[TrialOutcome]] = {}
        for at, (name, asked) in enumerate(trials.items(), 1):
            assert name not in self.asked
            self.asked[name] = list(asked)
            if not (self._boots and self._boots in name):
                outcomes[name] = [self._outcome(name, number, trial) for number, trial in enumerate(asked)]
            given.progress(PartsProgress(at, len(trials), name))
        return Ran(outcomes, {name: "no guest" for name in trials if name not in outcomes})

    def _outcome(self, name: str, number: int, trial: Trial) -> TrialOutcome:
        scheme = trial.flows[0].scheme
        if self._flows == (name, number):
            return TrialOutcome((FlowOutcome(0.0, math.nan, 1.0, 0, 9, "no-packet-arrived", scheme=scheme),))
        figures = formula(emulator_of(trial.condition.name), trial.seed)[scheme]
        return TrialOutcome((FlowOutcome(figures.mbit, figures.delay_ms, 0.0, 1, 1, scheme=scheme),))


def emulator_of(name: str) -> Emulator:
    rate, delay, loss, queue, *kind = name.partition(":")[2].split("/")
    return Emulator(float(rate), float(delay), int(queue), float(loss) / 100, kind[0] if kind else "constant")


def studied(world: World, heard: list[PartsProgress] | None = None, together: int = calibration.TOGETHER) -> Evaluated:
    paths = [
        EmulatedPath(f"hidden-{number}", HIDDEN, "", lambda run, one=truth: one.condition(), truth=truth)  # type: ignore[misc]
        for number, truth in enumerate(TRUTHS, 1)
    ]
    steps = heard if heard is not None else []
    return calibrate(Arguments(Folder("/nowhere"), seed=3, progress=steps.append), PLAN, paths, world.perform, together)


def errors(outcomes: Evaluated) -> Table:
    return outcomes.tables[0]


def test_hidden_emulators_are_found_and_every_part_is_counted() -> None:
    world, steps = World(), list[PartsProgress]()
    outcomes = studied(world, steps)
    assert outcomes.whole and outcomes.facts[0].verdict == HOLDS
    assert all(isinstance(row[2], float) and row[2] < 12 for row in errors(outcomes).rows)
    assert {step.parts for step in steps} == {len(world.asked)}
    assert [step.done for step in steps] == list(range(1, len(world.asked) + 1))


def test_both_searches_spend_the_same_budget() -> None:
    world = World()
    studied(world)
    schemes, paths = len(PLAN.schemes), len(TRUTHS)
    rounds = [len(asked) for name, asked in world.asked.items() if name.startswith("round")]
    assert rounds == [count * schemes * paths for count in (4, 4, 4, 2)]
    assert len(world.asked["chance-1"]) == PLAN.budget * schemes * paths
    # a path as often as what was taken, reported and held; search, chance and suggestion
    assert len(world.asked["paths-1"]) == 2 * PLAN.runs * schemes * paths
    assert len(world.asked["taken-1"]) == 3 * PLAN.runs * schemes * paths


@pytest.mark.slow
def test_paths_share_boots_a_few_at_a_time() -> None:
    together = World()
    reported = studied(together)
    apart = World()
    assert studied(apart, together=1) == reported
    assert len(apart.asked) == 2 * len(together.asked)
    assert apart.asked["paths-1"] + apart.asked["paths-2"] == together.asked["paths-1"]


def test_no_two_runs_share_their_chance() -> None:
    world = World()
    studied(world)
    seeds = [
        (trial.seed, trial.condition.name, trial.flows[0].scheme) for asked in world.asked.values() for trial in asked
    ]
    assert len(set(seeds)) == len(seeds)
    # but the schemes of one run meet the same network
    first = world.asked["paths-1"][: len(PLAN.schemes)]
    assert len({trial.seed for trial in first}) == 1 and len({trial.flows[0].scheme for trial in first}) == 3


@pytest.mark.slow
def test_the_same_seed_asks_the_same() -> None:
    worlds = World(), World()
    outcomes = [studied(world) for world in worlds]
    assert worlds[0].asked == worlds[1].asked and outcomes[0] == outcomes[1]


def test_a_boot_that_fails_costs_its_round_only() -> None:
    outcomes = studied(World(boots="round-2"))
    assert "round-2-1 (hidden-1, hidden-2): no guest" in outcomes.missing
    assert [row[0] for row in errors(outcomes).rows] == ["hidden-1", "hidden-2", "mean of 2"]


def test_a_failed_flow_is_used_by_no_search() -> None:
    outcomes = studied(World(flows=("round-3-1", 1)))
    assert outcomes.whole and [row[0] for row in errors(outcomes).rows] == ["hidden-1", "hidden-2", "mean of 2"]
    # the emulator it ran over is spent
    courses = outcomes.plots[0]
    assert isinstance(courses, Curves) and [len(line.points) for line in courses.series] == [13, 14]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["paths-1", "taken-1"])
def test_a_path_that_fails_is_missing_and_the_others_are_not(stage: str) -> None:
    counts = {"paths-1": 2 * PLAN.runs, "taken-1": 3 * PLAN.runs}
    # a flow of the second path
    number = (counts[stage] + 1) * len(PLAN.schemes)
    outcomes = studied(World(flows=(stage, number)))
    assert [row[0] for row in errors(outcomes).rows] == ["hidden-1", "mean of 1"]
    assert "hidden-2" in outcomes.missing and not outcomes.whole


def test_without_paths_nothing_is_claimed() -> None:
    outcomes = studied(World(boots="paths"))
    assert not outcomes.whole and {fact.verdict for fact in outcomes.facts} == {UNKNOWN}


@pytest.mark.root
@pytest.mark.lab
def test_kernels_over_a_hidden_path_and_over_what_stands_for_it(tmp_path: Folder) -> None:
    steps = list[PartsProgress]()
    given = Arguments(
        tmp_path, seed=1, jobs=2, smoke=True, worker="configtron.studies.guests.worker", progress=steps.append
    )
    outcomes = run(given)
    truth = hidden(1, 1, SMOKE_MBIT)[0].truth
    assert outcomes.whole and truth
    figures = {str(row[1]): row[2:] for row in outcomes.tables[2].rows}
    # the path is what was drawn: one flow of BBR fills it, and no packet is earlier than light
    assert figures["bbr"][0] == pytest.approx(truth.rate_mbit, rel=0.1)
    assert all(isinstance(row[2], float) and row[2] > truth.delay_ms for row in figures.values())
    # and so is what stands for it: named as a condition, and not far off after a few tries
    assert str(outcomes.tables[0].rows[0][6]).startswith("emulated:")
    assert isinstance(error := outcomes.tables[0].rows[0][2], float) and error < 30
    # what is whole is not run again
    again = list[PartsProgress]()
    # as text: one path's mean has no interval, and NaN is not itself
    assert repr(run(replace(given, progress=again.append))) == repr(outcomes)
    assert len([step for step in again if step.now]) == 0 < len([step for step in steps if step.now])
