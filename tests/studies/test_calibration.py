# SPDX-License-Identifier: MIT
"""Calibrated emulators: errors that are known, the process and the search behind them, verdicts, and the study's course
in a world of formulas (`flows`: full queues, Mathis, a little noise). The last test runs its quick form in guests."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path as Folder

import numpy as np
import pytest

from configtron.lab.testbed.conditions import LinkDirection
from configtron.lab.testbed.families import named
from configtron.learner.columns import Floats
from configtron.studies import calibration
from configtron.studies.calibration import SMOKE_MBIT, calibrate
from configtron.studies.emulation.calibration_result import (
    Calibrated,
    CalibrationPlan,
    evaluated,
    mean_interval,
    progress,
)
from configtron.studies.emulation.emulators import KINDS, QUEUES, Emulator, Space, space_of, starts_of
from configtron.studies.emulation.gaussian import Process, likelihood
from configtron.studies.emulation.paths import FOREIGN, HIDDEN, TRACES, EmulatedPath, foreign, hidden
from configtron.studies.emulation.replication import Figures, Seen, differences, mean_of, replication_error
from configtron.studies.emulation.search import Chance, Search, Tried
from configtron.studies.flows.flows import FlowOutcome, Ran, Trial, TrialOutcome
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Curves, Evaluated, Scatter, Table
from configtron.studies.registry.kinds import Arguments, PartsProgress
from tests.support.studies.quick import quick_in_guests

SCHEMES = ("bbr", "cubic", "vegas")
EMULATORS = (
    Emulator(4.076, 48.4, 47, 0.00275, "poisson"),
    Emulator(0.903, 25.5, 39, 0.0, "constant"),
    Emulator(0.7, 63.3, 167, 0.003, "poisson"),
)

NOISE = 0.03
BUDGET, BATCH = 28, 4


def flows(emulator: Emulator, seed: int) -> dict[str, Figures]:
    """What the schemes would get, about."""
    chance, found = random.Random(f"{emulator} {seed}"), {}
    full, burst = emulator.full_ms - emulator.delay_ms, 40 if emulator.kind == "poisson" else 0
    for scheme in SCHEMES:
        most = emulator.rate_mbit * (0.97 if burst else 0.99)
        lossy = emulator.mathis_mbit * 1.4 if emulator.loss and scheme != "bbr" else math.inf
        mbit = (most**-4 + lossy**-4) ** -0.25
        own = {"bbr": 2 * emulator.delay_ms, "cubic": full * (mbit / most) ** 2, "vegas": 50 / emulator.rate_mbit}
        waits = min(full, own[scheme] + burst / emulator.rate_mbit)
        delay = (emulator.delay_ms + waits) * math.exp(chance.gauss(0, NOISE / 2))
        found[scheme] = Figures(mbit * math.exp(chance.gauss(0, NOISE)), delay)
    return found


def path_of(hidden: Emulator, first: int = 0) -> dict[str, Figures]:
    return mean_of(flows(hidden, 1000 + first + run) for run in range(5))


def searched(search: Search | Chance, budget: int = BUDGET) -> Search | Chance:
    while len(search.tried) < budget:
        search.observe(Tried(one, flows(one, 7)) for one in search.ask(BATCH))
    return search


def test_known_differences() -> None:
    path = {"cubic": Figures(10, 100), "bbr": Figures(8, 50)}
    found = {"cubic": Figures(9, 120), "bbr": Figures(12, 50)}
    assert differences(path, found) == pytest.approx([0.5, 0, 0.1, 0.2])
    assert replication_error(path, found) == pytest.approx(0.2) and replication_error(path, path) == 0
    # as parts of the path's, not of the emulator's
    assert replication_error(found, path) != pytest.approx(0.2)
    for one, other in ((path, {}), (path, {"cubic": Figures(1, 1)}), (path, found | {"reno": Figures(1, 1)}), ({}, {})):
        with pytest.raises(ValueError):
            replication_error(one, other)
    runs = [{"bbr": Figures(1, 10), "cubic": Figures(2, 20)}, {"cubic": Figures(4, 60), "bbr": Figures(3, 30)}]
    assert mean_of(runs) == {"bbr": (2, 20), "cubic": (3, 40)}, "means are by scheme"
    with pytest.raises(ValueError):
        mean_of([])


def test_a_name_makes_pantheons_own_link() -> None:
    """Emulators 1 and 4 of Pantheon, by their five numbers."""
    for number, one in ((1, Emulator(0.57, 28, 14, 0.0477, "poisson")), (4, Emulator(100.42, 27, 173, 0, "constant"))):
        theirs = named(f"pantheon:{number}")
        assert (one.condition().down, one.condition().up) == (theirs.down, theirs.up)
    assert Emulator(5, 20, 100, 0.01, "constant").condition().down == LinkDirection(5000, 20, 0.01, 0, 100)


def test_every_corner_and_what_it_says_it_is() -> None:
    space = Space((0.5, 20.0), (3.0, 90.0))
    for corner in np.array(np.meshgrid(*[[0.0, 0.37, 1.0]] * 4, [0.0, 1.0])).reshape(5, -1).T:
        one = space.emulator(corner)
        assert space.rates[0] <= one.rate_mbit <= space.rates[1] and QUEUES[0] <= one.queue <= QUEUES[1]
        assert one.condition().is_played == (one.kind == "poisson")
        # a queue is whole: between two packets and three there is nothing
        assert space.unit(one) == pytest.approx(corner, abs=0.07 if one.queue < 10 else 0.01)
        assert space.emulator(space.unit(one)) == one
        assert np.all(np.isfinite(space.coordinates(one)))
    assert {space.emulator(np.array([0, 0, 0, 0, kind])).loss for kind in (0, 1)} == {0}


def test_measurements_say_where_to_begin() -> None:
    for true in EMULATORS:
        path, starts = path_of(true), starts_of(path_of(true))
        space = space_of(path)
        assert space.rates[0] < true.rate_mbit < space.rates[1]
        assert space.delays[0] < true.delay_ms < space.delays[1]
        assert {one.kind for one in starts} == set(KINDS) and min(one.loss for one in starts) == 0
        assert any(abs(one.rate_mbit / true.rate_mbit - 1) < 0.2 for one in starts)
        # a path with loss is suspected of it, of about so much
        if true.loss:
            assert any(0.2 < one.loss / true.loss < 8 for one in starts)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "starts"), [(0, None), (1, ()), (2, None)])
def test_it_finds_hidden_emulators_better_than_chance(seed: int, starts: tuple[()] | None) -> None:
    """Also without a starting point."""
    path, others = path_of(EMULATORS[seed]), path_of(EMULATORS[seed], 500)
    search = Search(path, seed=seed) if starts is None else Search(path, seed=seed, starts=starts)
    ours, theirs = searched(search), searched(Chance(path, seed=seed))
    error, by_chance = (replication_error(others, path_of(one.best(), 900)) for one in (ours, theirs))
    assert error < (0.08 if starts is None else 0.1) and error < 0.6 * by_chance


@pytest.mark.slow
def test_a_batch_is_not_one_emulator_four_times_and_one_lucky_look_is_not_taken() -> None:
    """An emulator far off, of which one look says that it is the path itself."""
    path = path_of(EMULATORS[1])
    search = searched(Search(path, seed=5), 20)
    asked = search.ask(4)
    assert len(set(asked)) == 4 and not set(asked) & {one.emulator for one in search.tried}
    liar = Emulator(search.space.rates[1], search.space.delays[0], 900, 0.08, "poisson")
    search.observe([Tried(liar, flows(liar, run)) for run in range(3)] + [Tried(liar, path)])
    assert min(search.tried, key=lambda one: replication_error(path, one.seen)).emulator == liar
    assert search.best() != liar


def test_figures_of_other_schemes_are_refused() -> None:
    search = Search(path_of(EMULATORS[0]), seed=1)
    with pytest.raises(ValueError, match="nothing was tried"):
        search.best()
    with pytest.raises(ValueError, match="held against"):
        search.observe([Tried(EMULATORS[0], {"cubic": Figures(1, 1)})])


CHANCE = np.random.default_rng(5)
POINTS = CHANCE.random((25, 3))


def wave(points: Floats) -> Floats:
    """The third coordinate does nothing."""
    return np.asarray(np.sin(3 * points[:, 0]) + 2 * points[:, 1] ** 2 + 10)


def test_the_gradient_is_the_likelihoods() -> None:
    values = wave(POINTS) - 10
    logs = np.array([-0.3, 0.2, 0.5, 0.4, -0.2, -3.0])
    _, slope = likelihood(POINTS, values, logs)
    for at in range(len(logs)):
        step = np.zeros(len(logs))
        step[at] = 1e-5
        above, below = (likelihood(POINTS, values, logs + sign * step)[0] for sign in (1, -1))
        assert slope[at] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-5)


def test_it_foretells_a_smooth_function() -> None:
    process, fresh = Process(POINTS, wave(POINTS)), CHANCE.random((200, 3))
    mean, deviation = process.at(fresh)
    off = mean - wave(fresh)
    assert np.abs(off).mean() < 0.1 * wave(fresh).std()
    assert np.mean(np.abs(off) <= 3 * deviation) > 0.9
    # the idle coordinate is seen to be idle
    assert process.logs[2] > max(process.logs[:2])


def test_it_distinguishes_noise_from_shape() -> None:
    points = CHANCE.random((60, 3))
    noisy = wave(points) + CHANCE.normal(0, 0.3, len(points))
    assert Process(points, noisy).noise == pytest.approx(0.3, rel=0.4)
    assert Process(points, wave(points)).noise < 0.05


def test_doubt_grows_with_distance_and_the_slope_goes_on() -> None:
    points = np.linspace(0.3, 0.7, 12)[:, None]
    process = Process(points, 5 * points[:, 0])
    mean, deviation = process.at(np.array([[0.5], [0.9]]))
    assert deviation[1] > 2 * deviation[0]
    # a process without slopes would be on its way back to the middle, 2.5
    assert mean[1] > 3.8


def test_what_it_believes_it_no_longer_doubts() -> None:
    process, there = Process(POINTS, wave(POINTS)), np.array([[0.05, 0.95, 0.5]])
    more = process.believing(there[0])
    assert more.at(there)[0][0] == pytest.approx(process.at(there)[0][0], abs=1e-2)
    assert more.at(there)[1][0] < 0.8 * process.at(there)[1][0]


def test_equal_points_and_equal_values_do_no_harm() -> None:
    process = Process(np.full((4, 2), 0.5), np.full(4, 3.0))
    mean, deviation = process.at(np.array([[0.5, 0.5], [0.0, 1.0]]))
    assert mean == pytest.approx([3, 3]) and all(map(math.isfinite, deviation))
    with pytest.raises(ValueError, match="without points"):
        Process(np.empty((0, 2)), np.empty(0))


JUDGED = CalibrationPlan(("bbr", "cubic"), runs=2, seconds=4.0, budget=3, batch=3, hidden=1)
FOUND = Emulator(2.0, 30.0, 50, 0.01, "poisson")
HELD: Seen = {"bbr": Figures(2.0, 50.0), "cubic": Figures(1.0, 100.0)}


def off(part: float) -> Seen:
    """Every figure too large by this part."""
    return {scheme: Figures(*(value * (1 + part) for value in figures)) for scheme, figures in HELD.items()}


def calibrated(kind: str, error: float, chance: float = 0.5) -> Calibrated:
    path = hidden(1, 1)[0] if kind == HIDDEN else foreign()[0]
    tried = [Tried(FOUND, off(part)) for part in (0.4, 0.6, 0.2)]
    found = (off(error), off(chance), off(0.3))
    return Calibrated(path, off(0.05), HELD, (FOUND, FOUND, FOUND), found, (tried, tried[:2]))


def test_the_error_is_over_held_out_runs_and_progress_never_worsens() -> None:
    one = calibrated(HIDDEN, 0.1, 0.4)
    assert [one.error(role) for role in ("search", "chance", "suggested")] == pytest.approx([0.1, 0.4, 0.3])
    assert one.floor == pytest.approx(0.05)
    assert one._replace(shown=off(9)).error() == one.error(), "outcomes that the search saw decide nothing"
    assert progress(HELD, one.tried[0]) == pytest.approx([0.4, 0.4, 0.2])


def test_intervals_are_students() -> None:
    assert mean_interval([1, 2, 3]) == pytest.approx((2, 0, 2 + 4.30 / math.sqrt(3)), abs=0.01)
    assert mean_interval([5])[0] == 5 and math.isnan(mean_interval([5])[1]) and math.isnan(mean_interval([])[0])
    many = [float(n % 2) for n in range(100)]
    assert mean_interval(many)[2] - 0.5 == pytest.approx(1.984 * 0.5025 / 10, rel=0.003)


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [((0.1, 0.1), HOLDS), ((0.1, 0.3), PARTLY), ((0.3, 0.1), PARTLY), ((0.2, 0.3), ABSENT)],
)
def test_seventeen_per_cent_is_judged_by_kind(errors: tuple[float, float], verdict: str) -> None:
    found = [calibrated(kind, error) for kind, error in zip((HIDDEN, FOREIGN), errors, strict=True)]
    fact = evaluated(found, JUDGED, 1).facts[0]
    assert fact.verdict == verdict
    assert f"{100 * errors[0]:.1f} % over 1 hidden (path itself: 5.0 %)" in fact.ours


def test_chance_may_win_and_nothing_found_is_not_measured() -> None:
    facts = [evaluated([calibrated(HIDDEN, 0.2, chance)], JUDGED, 1).facts[2] for chance in (0.1, 0.3)]
    assert [fact.verdict for fact in facts] == [ABSENT, HOLDS]
    one = [evaluated([calibrated(HIDDEN, error) for error in errors], JUDGED, 1).facts[1]
           for errors in ((0.1, 0.2), (0.2,), (0.1,))]  # fmt: skip
    assert [fact.verdict for fact in one] == [PARTLY, ABSENT, HOLDS]
    none = evaluated([], JUDGED, 1, "hidden-1: no guest")
    assert {fact.verdict for fact in none.facts} == {UNKNOWN} and not none.whole and not none.plots


def test_tables_say_what_was_drawn_and_what_stands_for_it() -> None:
    outcomes = evaluated([calibrated(HIDDEN, 0.1), calibrated(FOREIGN, 0.2)], JUDGED, 1)
    errors, parameters, figures = outcomes.tables
    assert [row[:6] for row in errors.rows] == [
        ["hidden-1", HIDDEN, 10.0, 50.0, 30.0, 5.0], ["commute", FOREIGN, 20.0, 50.0, 30.0, 5.0],
        ["mean of 1", HIDDEN, 10.0, 50.0, 30.0, 5.0], ["mean of 1", FOREIGN, 20.0, 50.0, 30.0, 5.0],
    ]  # fmt: skip
    truth = hidden(1, 1)[0].truth
    assert truth
    assert [row[:4] for row in parameters.rows] == [
        ["hidden-1", "drawn", truth.rate_mbit, truth.delay_ms],
        ["hidden-1", "found", 2.0, 30.0],
    ]
    assert figures.rows[0] == ["hidden-1", "bbr", 2.0, 2.2, 50.0, 55.0]
    assert all(len(row) == len(table.columns) for table in outcomes.tables for row in table.rows)
    courses, throughput, _ = outcomes.plots
    # as long as the shorter of the two searches
    assert isinstance(courses, Curves) and [len(line.points) for line in courses.series] == [3, 2]
    assert isinstance(throughput, Scatter)
    assert throughput.clouds[0].points == [(2.0, pytest.approx(2.2)), (2.0, pytest.approx(2.4))]


def test_hidden_paths_are_drawn_by_seed() -> None:
    assert [p.truth for p in hidden(4, 1)] == [p.truth for p in hidden(4, 1)] != [p.truth for p in hidden(4, 2)]
    truths = [path.truth for path in hidden(40, 3)]
    assert len(set(truths)) == 40
    assert {bool(truth and truth.loss) for truth in truths} == {True, False}
    assert {truth.kind for truth in truths if truth} == {"constant", "poisson"}


def test_foreign_paths_are_no_emulators_and_any_few_runs_meet_all_of_a_trace() -> None:
    for path in foreign():
        first, second = path.condition(0), path.condition(1)
        is_emulator = first.down.kind in ("constant", "poisson") and first.up.kind in ("constant", "poisson")
        assert path.truth is None and (not is_emulator or first.steps or path.rivals)
        # a trace is another in each run, and the same in the same run
        assert (first != second) == (first.down.kind == "trace") and path.condition(0) == replace(first)
        if first.down.kind == "trace":
            seconds, moments = TRACES[path.name][1], [path.condition(run).down.offset_s for run in range(12)]
            for begin in range(8):
                met = sorted(moments[begin : begin + 4])
                assert max(later - earlier for earlier, later in pairwise([*met, met[0] + seconds])) < 0.4 * seconds


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
        rate, delay, loss, queue, *kind = trial.condition.name.partition(":")[2].split("/")
        link = Emulator(float(rate), float(delay), int(queue), float(loss) / 100, kind[0] if kind else "constant")
        figures = flows(link, trial.seed)[scheme]
        return TrialOutcome((FlowOutcome(figures.mbit, figures.delay_ms, 0.0, 1, 1, scheme=scheme),))


def studied(world: World, heard: list[PartsProgress] | None = None, together: int = calibration.TOGETHER) -> Evaluated:
    paths = [
        EmulatedPath(f"hidden-{number}", HIDDEN, "", lambda run, one=truth: one.condition(), truth=truth)  # type: ignore[misc]
        for number, truth in enumerate(TRUTHS, 1)
    ]
    steps = heard if heard is not None else []
    return calibrate(Arguments(Folder("/nowhere"), seed=3, progress=steps.append), PLAN, paths, world.perform, together)


def errors(outcomes: Evaluated) -> Table:
    return outcomes.tables[0]


def test_emulators_are_found_and_every_part_is_counted() -> None:
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
def test_paths_share_boots_a_few_at_a_time_and_the_same_seed_asks_the_same() -> None:
    together, again, apart = World(), World(), World()
    reported = studied(together)
    assert studied(again) == reported == studied(apart, together=1) and again.asked == together.asked
    assert len(apart.asked) == 2 * len(together.asked)
    assert apart.asked["paths-1"] + apart.asked["paths-2"] == together.asked["paths-1"]


def test_no_two_runs_share_their_chance_and_without_paths_nothing_is_claimed() -> None:
    world = World()
    studied(world)
    every = [trial for asked in world.asked.values() for trial in asked]
    assert len({(one.seed, one.condition.name, one.flows[0].scheme) for one in every}) == len(every)
    # but the schemes of one run meet the same network
    first = world.asked["paths-1"][: len(PLAN.schemes)]
    assert len({trial.seed for trial in first}) == 1 and len({trial.flows[0].scheme for trial in first}) == 3
    outcomes = studied(World(boots="paths"))
    assert not outcomes.whole and {fact.verdict for fact in outcomes.facts} == {UNKNOWN}


@pytest.mark.parametrize(
    ("boots", "failing", "lines"),
    [("round-2", ("", 0), [14, 14]), ("", ("round-3-1", 1), [13, 14])],  # an emulator whose flow failed is spent
)
def test_a_boot_or_a_flow_that_fails_costs_its_round_only(
    boots: str, failing: tuple[str, int], lines: list[int]
) -> None:
    outcomes = studied(World(boots=boots, flows=failing))
    assert outcomes.whole is not bool(boots)
    assert not boots or "round-2-1 (hidden-1, hidden-2): no guest" in outcomes.missing
    assert [row[0] for row in errors(outcomes).rows] == ["hidden-1", "hidden-2", "mean of 2"]
    courses = outcomes.plots[0]
    assert boots or isinstance(courses, Curves) and [len(line.points) for line in courses.series] == lines


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["paths-1", "taken-1"])
def test_a_path_that_fails_is_missing_and_the_others_are_not(stage: str) -> None:
    counts = {"paths-1": 2 * PLAN.runs, "taken-1": 3 * PLAN.runs}
    # a flow of the second path
    number = (counts[stage] + 1) * len(PLAN.schemes)
    outcomes = studied(World(flows=(stage, number)))
    assert [row[0] for row in errors(outcomes).rows] == ["hidden-1", "mean of 1"]
    assert "hidden-2" in outcomes.missing and not outcomes.whole


@pytest.mark.root
@pytest.mark.lab
def test_kernels_over_a_hidden_path_and_over_what_stands_for_it(tmp_path: Folder) -> None:
    outcomes = quick_in_guests("calibration", tmp_path)
    truth = hidden(1, 1, SMOKE_MBIT)[0].truth
    assert outcomes.whole and truth
    figures = {str(row[1]): row[2:] for row in outcomes.tables[2].rows}
    # the path is what was drawn: one flow of BBR fills it, and no packet is earlier than light
    assert figures["bbr"][0] == pytest.approx(truth.rate_mbit, rel=0.1)
    assert all(isinstance(row[2], float) and row[2] > truth.delay_ms for row in figures.values())
    # and so is what stands for it: named as a condition, and not far off after a few tries
    assert str(outcomes.tables[0].rows[0][6]).startswith("emulated:")
    assert isinstance(error := outcomes.tables[0].rows[0][2], float) and error < 30
