# SPDX-License-Identifier: MIT
"""Studies of flows on made answers, whose figures are known: Pantheon's, fairness, paths that change, a tunnel; the
smallest of each in guests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.testbed.transits import Transits
from configtron.lab.testbed.tunnel import OVERHEAD_BYTES
from configtron.model.errors import Mismatch
from configtron.studies import fairness, pantheon, pantheonchanges, pantheontunnel
from configtron.studies.fairness import FULL, RIVALS, FairnessPlan, cases
from configtron.studies.flows.changing import (
    APART_S,
    CHANGING,
    DIRECTIONS,
    DOWN,
    MOMENTS,
    SATELLITE_BEGINS_S,
    SATELLITE_S,
    STEADY,
    UP,
    later_s,
)
from configtron.studies.flows.clocks import ahead_ns, corrected
from configtron.studies.flows.flows import REFUSED, SCHEMES, FlowOutcome, TrialOutcome, orders_of, trials_of
from configtron.studies.flows.shares import distribution
from configtron.studies.flows.spread import kolmogorov
from configtron.studies.flows.tunnelled import Tunnelled
from configtron.studies.output import results
from configtron.studies.pantheon import PATHS, PantheonPlan, part_name, seed_of
from configtron.studies.pantheonchanges import ChangesPlan
from configtron.studies.pantheontunnel import AHEAD_NS, TunnelPlan
from tests.support.studies.quick import quick_in_guests

PLAN = PantheonPlan(("pantheon:15", "pantheon:16", "pantheon:3"), ("cubic", "reno", "vegas", "bbr"), (1, 3), 2)
# Mbit/s of one flow, by path and scheme: vegas is best on two paths, cubic on one, where bbr has a fifth.
RATES = {
    "pantheon:15": {"cubic": 6.0, "reno": 5.0, "vegas": 10.0, "bbr": 8.0},
    "pantheon:16": {"cubic": 6.0, "reno": 7.0, "vegas": 10.0, "bbr": 9.0},
    "pantheon:3": {"cubic": 3.0, "reno": 2.0, "vegas": 1.0, "bbr": 0.6},
}
Rate = Callable[[str, str, int], float]


def flow(scheme: str, mbit: float, late_ms: float = 60.0) -> FlowOutcome:
    return FlowOutcome(mbit, late_ms, 0.01, round(mbit * 3.75e6), 1000, scheme=scheme)


def found(rate: Rate = lambda path, scheme, run: RATES[path][scheme]) -> results.Evaluated:
    outcomes = {
        part_name(path, count, run): [
            TrialOutcome(tuple(flow(scheme, rate(path, scheme, run) / count) for _ in range(count)))
            for scheme in PLAN.schemes
        ]
        for path in PLAN.paths
        for count in PLAN.counts
        for run in range(PLAN.runs)
    }
    return pantheon.evaluated(PLAN, outcomes, {}, 1)


def table(of: results.Evaluated, name: str) -> results.Table:
    return next(one for one in of.tables if one.name == name)


def row(of: results.Evaluated, name: str, **wanted: object) -> dict[str, object]:
    one = table(of, name)
    rows = [dict(zip(one.columns, cells, strict=True)) for cells in one.rows]
    return next(cells for cells in rows if wanted.items() <= cells.items())


def verdicts(of: results.Evaluated) -> list[str]:
    return [fact.verdict for fact in of.facts]


def test_schemes_stand_as_their_figures_say() -> None:
    of = found()
    vegas = row(of, "schemes", scheme="vegas", flows=1)
    assert (vegas["best on"], vegas["worst on"], vegas["mean rank"]) == (2, 0, pytest.approx(5 / 3))
    # 10, 10 of 12 Mbit/s, 1 of 3.04
    assert vegas["share of rate"] == pytest.approx(10 / 12)
    # ways of 30, 30, 130 ms
    assert vegas["delay / way"] == pytest.approx(2.0)
    assert row(of, "schemes", scheme="bbr", flows=1)["worst on"] == 1
    assert table(of, "schemes").rows[0][0] == "vegas"
    one = row(of, "paths", path="pantheon:15", scheme="cubic", flows=3)
    assert one["Mbit/s"] == pytest.approx(6.0) and one["Jain"] == pytest.approx(1.0)
    assert one["power"] == pytest.approx(math.log(6 / 60))


def test_plots_show_what_is_behind_the_best_and_a_point_a_scheme() -> None:
    plots = found().plots
    heat = next(plot for plot in plots if isinstance(plot, results.Heat))
    assert heat.columns == list(PLAN.paths) and heat.rows == list(PLAN.schemes)
    assert heat.values[heat.rows.index("vegas")] == [0.0, 0.0, pytest.approx(math.log(1 / 3))]
    assert heat.values[heat.rows.index("cubic")] == [pytest.approx(math.log(0.6))] * 2 + [0.0]
    clouds = {
        cloud.name: cloud.points for cloud in next(plot for plot in plots if isinstance(plot, results.Scatter)).clouds
    }
    # 60 ms on ways of 30, 30, 130; 10, 10 of 12 Mbit/s, 1 of 3.04
    assert list(clouds) == list(PLAN.schemes) and clouds["vegas"] == [(2.0, pytest.approx(10 / 12))]


def test_facts_are_counted() -> None:
    of = found()
    nowhere, varies, quarter, bbr, full, stated = of.facts
    assert nowhere.verdict == results.HOLDS and nowhere.ours == "vegas on 2 of 3 paths"
    assert varies.verdict == results.HOLDS
    assert quarter.verdict == results.ABSENT and quarter.ours == "vegas on 67%"
    assert bbr.verdict == results.HOLDS and bbr.ours == "on 1 of 3 paths" and "pantheon:3" in bbr.words
    # 10, 10 of 12 Mbit/s are less than nine tenths, 3 of 3.04 are not
    assert full.verdict == results.PARTLY and full.ours == "on 1 of 3 paths" and "pantheon:16 (83%)" in full.words
    # copa was not measured
    assert stated.verdict == results.UNKNOWN


def test_a_scheme_that_is_best_everywhere_makes_the_fact_absent() -> None:
    of = found(lambda path, scheme, run: float(1 + PLAN.schemes.index(scheme)))
    assert verdicts(of)[:4] == [results.ABSENT, results.ABSENT, results.ABSENT, results.ABSENT]
    assert of.facts[0].ours == "bbr on 3 of 3 paths" and "median 1.00" in of.facts[1].ours


def test_runs_make_intervals_and_ellipses() -> None:
    of = found(lambda path, scheme, run: RATES[path][scheme] + run)
    one = row(of, "paths", path="pantheon:15", scheme="cubic", flows=1)
    assert one["Mbit/s"] == 6.5 and one["+- Mbit/s"] == pytest.approx(12.706 * 0.5**0.5 / 2**0.5)
    assert one["+- ms"] == 0.0
    scatters = [plot for plot in of.plots if isinstance(plot, results.Scatter)][len(PLAN.counts) :]
    assert len(scatters) == 6 and all(plot.flip_x for plot in scatters)
    cloud = scatters[0].clouds[0]
    assert cloud.points == [(60.0, 6.0), (60.0, 7.0)]
    assert max(y for _, y in cloud.outline) == pytest.approx(6.5 + 0.5**0.5)


def refused(scheme: str) -> FlowOutcome:
    return FlowOutcome(0.0, math.nan, 0.0, 0, 0, REFUSED, scheme=scheme)


def test_what_was_refused_has_a_reason_and_no_figure() -> None:
    outcomes = {part_name(path, 1, 0): [TrialOutcome((flow("cubic", 3.0),)), TrialOutcome((refused("none"),))]
                for path in PLAN.paths}  # fmt: skip
    plan = replace(PLAN, schemes=("cubic", "none"), counts=(1,), runs=1)
    of = pantheon.evaluated(plan, outcomes, {"other": "its guest ended"}, 1)
    none = row(of, "paths", path="pantheon:15", scheme="none")
    assert (none["why"], none["Mbit/s"], none["runs"]) == (REFUSED, None, 0)
    assert row(of, "paths", scheme="cubic")["why"] == "" and verdicts(of) == [results.UNKNOWN]
    assert not of.whole and "its guest ended" in of.missing
    heat = next(plot for plot in of.plots if isinstance(plot, results.Heat))
    assert heat.rows == ["cubic", "none"] and heat.values[1] == [None] * 3


def test_what_did_not_run_is_not_slow() -> None:
    """BBR is refused on one path: that is no path on which it is three times worse."""
    plan = replace(PLAN, schemes=("cubic", "bbr"), counts=(1,), runs=1)
    outcomes = {part_name(path, 1, 0): [TrialOutcome((flow("cubic", 3.0),)), TrialOutcome((flow("bbr", 3.0),))]
                for path in PLAN.paths}  # fmt: skip
    outcomes[part_name("pantheon:15", 1, 0)][1] = TrialOutcome((refused("bbr"),))
    bbr = next(fact for fact in pantheon.evaluated(plan, outcomes, {}, 1).facts if "BBR" in fact.claim)
    assert (bbr.verdict, bbr.ours) == (results.ABSENT, "on 0 of 2 paths")


def test_the_whole_study_is_every_scheme_on_every_path() -> None:
    plan = PantheonPlan()
    assert plan.paths == PATHS and len(PATHS) == 18 and plan.schemes == SCHEMES
    parts = plan.parts(1)
    assert len(parts) == 18 * 2 * plan.runs and all(len(trials) == len(SCHEMES) for trials in parts.values())
    slow, three = (parts[part_name(path, 3, 1)][0] for path in ("pantheon:7", "pantheon:4"))
    assert [flow.start_s for flow in slow.flows] == [0.0, 10.0, 20.0] and slow.counted_from_s == 20.0
    # a fifth of that on a path of 100 Mbit/s
    assert [flow.start_s for flow in three.flows] == [0.0, 2.0, 4.0] and three.counted_from_s == 4.0
    assert (slow.duration_s, three.duration_s) == (30.0, 6.0)
    # common chance for all schemes, another for each run and path
    seeds = {trial.seed for trial in parts[part_name("pantheon:4", 1, 1)]}
    assert seeds == {seed_of(1, "pantheon:4", 1)} == {three.seed}
    assert len({trials[0].seed for trials in parts.values()}) == 18 * plan.runs


@pytest.mark.root
@pytest.mark.lab
def test_pantheon_in_guests(tmp_path: Path) -> None:
    of = quick_in_guests("pantheon", tmp_path)
    assert of.whole and len(table(of, "paths").rows) == len(pantheon.SMOKE.paths) * len(pantheon.SMOKE.schemes) * 2
    assert all(cells[-1] == "" for cells in table(of, "paths").rows)
    # a policer lets next to nothing of a window pass; a third of the path's buffer lets most
    policed, shallow = (row(of, "paths", path=path, scheme="cubic", flows=1)["Mbit/s"]
                        for path in ("pantheon:7", "pantheon:16"))  # fmt: skip
    assert isinstance(policed, float) and isinstance(shallow, float) and 0 < policed < 6 < shallow <= 12
    assert verdicts(of)[0] == results.HOLDS


FAIR = FairnessPlan(
    ("access:3g/1", "access:dsl/2"),
    {"tcp_congestion_control": ("cubic", "vegas", "bbr"), "initcwnd": (4, 10), "pacing": ("pfifo_fast",)},
    2,
)  # fmt: skip


def equal_flows(tested: float, reason: str = "") -> TrialOutcome:
    flows = [FlowOutcome(mbit, 30.0, 0.0, 1, 1, scheme="x") for mbit in (tested, *[1.0] * RIVALS)]
    return TrialOutcome((), reason) if reason else TrialOutcome(tuple(flows))


def shared(tested: dict[str, float], reason: str = "") -> results.Evaluated:
    """Each scheme's tested flow gets so much where a rival gets 1."""
    answers = {
        fairness.part_name(link, scheme): [equal_flows(tested[scheme], reason=reason if scheme == "vegas" else "")] * 4
        for link in FAIR.links
        for scheme in tested
    }
    return fairness.evaluated(FAIR, answers, {}, 1)


def test_equal_shares_are_fair() -> None:
    of = shared({"cubic": 1.0, "vegas": 1.0, "bbr": 1.0})
    assert verdicts(of) == [results.HOLDS, results.HOLDS, results.HOLDS]
    assert of.facts[0].ours == "100% of 12 cases" and of.facts[1].ours == "100% of 8 cases"
    assert all(row[4] == pytest.approx(1.0) and row[6] == pytest.approx(1.0) for row in of.tables[1].rows)


def test_shares_are_counted_with_and_without_bbr() -> None:
    # three rivals' worth: 64 of 84, 0.76; half a share: 0.96
    of = shared({"cubic": 1.0, "vegas": 0.5, "bbr": 3.0})
    most, without, equal = of.facts
    assert most.ours == "67% of 12 cases" and most.verdict == results.HOLDS and "bbr 0%" in most.words
    assert without.ours == "100% of 8 cases" and without.verdict == results.HOLDS and equal.verdict == results.HOLDS
    bbr = next(row for row in of.tables[0].rows if row[:2] == ["all", "bbr"])
    assert bbr[2:] == [4, pytest.approx(64 / 84), pytest.approx(64 / 84), 0.0, pytest.approx(3.0)]


def test_an_unfair_world_makes_the_facts_absent() -> None:
    of = shared({"cubic": 4.0, "vegas": 0.01, "bbr": 1.0})
    assert verdicts(of) == [results.ABSENT, results.ABSENT, results.ABSENT]
    assert "access:3g/1" in of.facts[2].words
    # who suffers: cubic's four cases take four times as much, vegas' four next to nothing
    assert "of 8 cases that are not fair the tested flow got less than a rival in 4," in of.facts[0].words


def test_a_stack_that_was_not_as_asked_has_its_reason() -> None:
    of = shared({"cubic": 1.0, "vegas": 1.0, "bbr": 1.0}, reason="initcwnd is 10 instead of 4")
    rows = [row for row in of.tables[1].rows if row[1] == "vegas"]
    assert len(rows) == 4 and all(row[4] is None and "initcwnd" in str(row[-1]) for row in rows)
    assert of.facts[0].ours == "100% of 8 cases"
    heat = next(plot for plot in of.plots if isinstance(plot, results.Heat))
    assert heat.values[heat.rows.index("vegas")] == [None, None]


def test_the_distribution_rises_to_one() -> None:
    points = distribution([0.9, 0.5, 1.0, 0.9])
    assert [point[:2] for point in points] == [(0.5, 0.25), (0.9, 0.5), (0.9, 0.75), (1.0, 1.0)]
    assert all(math.isnan(low) and math.isnan(high) for _, _, low, high in points)
    curves = next(plot for plot in shared({"cubic": 1.0, "bbr": 3.0}).plots if isinstance(plot, results.Curves))
    assert [curve.name for curve in curves.series] == ["all", "without BBR", "cubic", "bbr"]
    assert [len(curve.points) for curve in curves.series] == [8, 4, 4, 4]


def test_the_whole_study_is_48_configurations_on_8_links() -> None:
    parts = FULL.parts(1)
    assert len(parts) == 8 * 4 and all(len(trials) == 12 * FULL.runs for trials in parts.values())
    trial = parts[fairness.part_name("access:4g/2", "bbr")][-1]
    assert trial.configuration and trial.configuration.name == "bbr/30/fq"
    assert [flow.rival for flow in trial.flows] == [False] + [True] * RIVALS and trial.flows[0].scheme == ""
    assert len({flow.start_s for flow in trial.flows}) == 6 and max(flow.start_s for flow in trial.flows) == 1.0
    # all configurations meet the same moments
    seeds = [[trial.seed for trial in parts[fairness.part_name("access:4g/2", scheme)]] for scheme in ("bbr", "cubic")]
    assert seeds[0] == seeds[1] and len(set(seeds[0])) == FULL.runs


def test_runs_go_to_their_configuration() -> None:
    values = {"tcp_congestion_control": ("cubic",), "initcwnd": (4, 10), "pacing": ("fq",)}
    outcomes = [equal_flows(mbit) for mbit in (1.0, 1.0, 9.0, 9.0)]
    name = fairness.part_name("access:3g/1", "cubic")
    first, second = cases(FairnessPlan(("access:3g/1",), values, 2), {name: outcomes})
    assert (first.configuration, first.index) == (("cubic", 4, "fq"), pytest.approx(1.0))
    assert (second.configuration, second.index) == (("cubic", 10, "fq"), pytest.approx(196 / (6 * 86)))


@pytest.mark.root
@pytest.mark.lab
def test_fairness_in_guests(tmp_path: Path) -> None:
    of = quick_in_guests("fairness", tmp_path)
    assert of.whole and len(of.tables[1].rows) == len(fairness.SMOKE.links) * 2
    indices = {(row[0], row[1]): row[4] for row in of.tables[1].rows}
    # BBR does not make room where a packet is lost, cubic does: on a buffer of one path they are no match
    assert isinstance(indices["access:cable/1", "bbr"], float) and indices["access:cable/1", "bbr"] < 0.7
    assert isinstance(indices["access:cable/1", "cubic"], float) and indices["access:cable/1", "cubic"] > 0.9


CHANGES = ChangesPlan(draws=60)
Power = Callable[[str, str, int, str], float]


def test_the_other_direction_is_the_same_link_turned() -> None:
    for path in (*CHANGING, STEADY):
        for moment in MOMENTS:
            down, up = (path.condition(direction, moment, 1) for direction in DIRECTIONS)
            assert (down.down, down.up) == (up.up, up.down)
            assert [(step.down, step.up) for step in down.steps] == [(step.up, step.down) for step in up.steps]
    assert STEADY.condition(DOWN, 0, 0).down == STEADY.condition(UP, 2, 2).down


def test_each_run_on_the_satellite_link_meets_one_handover() -> None:
    handover = next(path for path in CHANGING if path.name == "handover")
    for moment in MOMENTS:
        for run in range(CHANGES.runs):
            changing = handover.condition(DOWN, moment, run)
            (step,) = changing.steps
            begin = SATELLITE_BEGINS_S[moment] + later_s(run)
            assert (begin + step.at_s) % SATELLITE_S == pytest.approx(0, abs=0.01)
            assert 0.2 * CHANGES.duration_s < step.at_s < 0.8 * CHANGES.duration_s
            assert step.down != changing.down
    assert max(later_s(run) for run in range(100)) < APART_S


def test_the_plan_is_balanced_and_its_orders_come_back() -> None:
    parts = CHANGES.parts(1)
    assert len(parts) == len(CHANGES.paths) * 2 * 3 * CHANGES.runs
    assert all([trial.flows[0].scheme for trial in trials] == list(CHANGES.schemes) for trials in parts.values())
    assert len({trials[0].seed for trials in parts.values()}) == len(parts)
    for trials in parts.values():
        assert trials_of(orders_of(trials)) == trials
    evening = parts["home-down-moment2-run0"][0].flows
    assert [flow.rival for flow in evening] == [False, True, True, True] and len(
        parts["home-up-moment0-run0"][0].flows
    ) == 1


def of_power(power: float) -> TrialOutcome:
    # 60 ms; the rate that has this power
    return TrialOutcome((FlowOutcome(60.0 * math.exp(power), 60.0, 0.0, 1, 1, scheme="x"),))


def changing(power: Power) -> results.Evaluated:
    """The study of these powers, four below; a run's own part is small, drawn, and the same for all schemes."""
    chance, outcomes = random.Random(1), {}
    for path, direction, moment, run in product(CHANGES.paths, DIRECTIONS, CHANGES.moments, range(CHANGES.runs)):
        own = chance.gauss(0, 0.01) - 4.0
        name = pantheonchanges.part_name(path, direction, moment, run)
        outcomes[name] = [of_power(power(path.name, direction, moment, one) + own) for one in CHANGES.schemes]
    return pantheonchanges.evaluated(CHANGES, outcomes, {}, 1)


STEADY_CLAIM = "a path that never changes has neither direction nor time"


def verdict(of: results.Evaluated, claim: str) -> str:
    return next(one.verdict for one in of.facts if one.claim == claim)


def moves(path: str) -> bool:
    return path != "steady"


PATH_NUMBER = {path.name: n for n, path in enumerate(CHANGES.paths)}
BY_PATH, BY_DIRECTION, BY_TIME, BY_ORDER = (
    f"{what} by {cause}" for what, cause in (
        ("performance varies", "path"), ("performance varies", "direction"), ("performance varies", "time"),
        ("the order of schemes varies", "path"),
    )
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("power", "held", "absent"),
    [
        (lambda path, direction, moment, scheme: PATH_NUMBER[path], {BY_PATH}, {BY_DIRECTION, BY_TIME}),
        (lambda path, direction, moment, scheme: moment * moves(path), {BY_TIME}, {BY_PATH}),
        (lambda path, direction, moment, scheme: (direction == "up") * moves(path), {BY_DIRECTION}, set()),
        (lambda path, direction, moment, scheme: (CHANGES.schemes.index(scheme) + PATH_NUMBER[path])
         % len(CHANGES.schemes), {BY_ORDER}, set()),
        (lambda path, direction, moment, scheme: CHANGES.schemes.index(scheme), {STEADY_CLAIM}, {BY_ORDER}),
        (lambda path, direction, moment, scheme: moment * (not moves(path)), set(), {STEADY_CLAIM}),
    ],
    ids=["path", "time", "direction", "order", "scheme", "steady"],
)  # fmt: skip
def test_what_varies_is_found_and_nothing_else(power: Power, held: set[str], absent: set[str]) -> None:
    of = changing(power)
    assert {verdict(of, one) for one in held} <= {results.HOLDS} and {verdict(of, one) for one in absent} <= {
        results.ABSENT
    }


@pytest.mark.root
@pytest.mark.lab
def test_changing_paths_in_guests(tmp_path: Path) -> None:
    of = quick_in_guests("pantheonchanges", tmp_path)
    assert of.whole
    rates = {(row[0], row[1], row[2]): row[3] for row in table(of, "means").rows}
    # walk has 1.6 Mbit/s down and 0.5 up in the mean; the steady link 4 both ways
    walk, steady = ([rates["cubic", name, direction] for direction in DIRECTIONS] for name in ("walk", "steady"))
    assert all(isinstance(rate, float) for rate in (*walk, *steady))
    assert walk[0] > 1.5 * walk[1] and steady[0] == pytest.approx(steady[1], rel=0.25)  # type: ignore[operator]
    assert verdict(of, STEADY_CLAIM) == results.HOLDS


MS = 1_000_000


def packets(way_ms: float, seed: int, ahead: int = 0, sent_ahead: int = 0) -> Transits:
    """A thousand packets over a way with a queue that is empty now and then; one in ten is lost."""
    chance = np.random.default_rng(seed)
    sent = np.arange(10_000, 11_000, dtype=np.int64) * MS
    late = (way_ms + chance.exponential(5, 1000).round()) * MS
    came = np.where(chance.random(1000) < 0.1, -1, sent + late.astype(np.int64) + ahead)
    return Transits(sent + sent_ahead, came, np.full(1000, 1500, np.int64))


@pytest.mark.parametrize("ahead", [0, 137 * MS, -2_000 * MS])
def test_a_clock_that_is_ahead_is_found_and_taken_off(ahead: int) -> None:
    forward, back = packets(30, 1, ahead), packets(30, 2, 0, ahead)
    assert ahead_ns(forward, back) == pytest.approx(ahead, abs=0.5 * MS)
    right, repaired = packets(30, 1), corrected(forward, ahead)
    assert all((one == two).all() for one, two in zip(right, repaired, strict=True))


def test_ways_that_differ_look_like_half_a_clock_and_none_shows_none() -> None:
    """No exchange of packets can show this: it is the method's limit, and stated."""
    assert ahead_ns(packets(50, 1), packets(30, 2)) == pytest.approx(10 * MS, abs=0.5 * MS)
    none = packets(30, 1)._replace(arrived_ns=np.full(1000, -1))
    with pytest.raises(Mismatch, match="no packet arrived"):
        ahead_ns(packets(30, 2), none)


def test_distances_of_samples() -> None:
    """By hand: {1, 2, 3} and {3, 4, 5} are two thirds apart; twenty against twenty disjoint ones are 1 apart."""
    assert kolmogorov([1, 2, 3], [3, 4, 5])[0] == pytest.approx(2 / 3)
    assert kolmogorov(range(20), range(20, 40)) == (1.0, pytest.approx(0.0, abs=1e-6))
    assert kolmogorov(range(20), range(20)) == (0.0, 1.0)


def test_equal_distributions_have_small_p_as_often_as_p_says() -> None:
    chance = random.Random(1)

    def small(apart: float, count: int) -> int:
        samples = ([[chance.gauss(mean, 1) for _ in range(20)] for mean in (0, apart)] for _ in range(count))
        return sum(kolmogorov(*both)[1] < 0.2 for both in samples)

    assert 0.1 < small(0, 400) / 400 < 0.25 and small(1.5, 100) >= 95


def made(factor: float, seed: int = 1) -> list[Tunnelled]:
    """Twenty runs; inside, throughput is so many times what it is without."""
    chance, found = random.Random(seed), []
    for _ in range(20):
        plain, inside = chance.gauss(10, 0.2), chance.gauss(10, 0.2) * factor
        late, other = chance.gauss(50, 1), chance.gauss(50, 1)
        inner = inside * (1500 - OVERHEAD_BYTES) / 1500
        found.append(Tunnelled("cubic", plain, late, inner, other, inside, other, AHEAD_NS, other, other + 137))
    return found


def tunnel_facts(runs: dict[str, list[Tunnelled]]) -> list[results.Fact]:
    return list(pantheontunnel.evaluated(TunnelPlan(), runs, {}, 1).facts)


@pytest.mark.parametrize(
    ("evaluated", "plan", "count"),
    [(fairness.evaluated, FAIR, 3), (pantheon.evaluated, PLAN, 1), (pantheonchanges.evaluated, CHANGES, 1),
     (pantheontunnel.evaluated, TunnelPlan(), 3)],
)  # fmt: skip
def test_no_outcomes_give_no_result(evaluated: Callable[..., results.Evaluated], plan: object, count: int) -> None:
    of = evaluated(plan, {}, {"a part": "its guest ended"}, 1)
    assert [fact.verdict for fact in of.facts] == [results.UNKNOWN] * count
    assert not of.whole and "its guest" in of.missing


def test_a_tunnel_that_slows_is_found_and_a_clock_that_is_not() -> None:
    assert [one.verdict for one in tunnel_facts({"a": made(1.0, 3)})] == [results.HOLDS] * 5
    slower = tunnel_facts({"a": made(0.9, 3)})[0]
    assert slower.verdict == results.PARTLY and "a Mbit/s" in slower.words
    wrong = [replace(one, estimate_ns=AHEAD_NS - 2 * MS) for one in made(1.0, 3)]
    assert tunnel_facts({"a": wrong})[-1].verdict == results.ABSENT


@pytest.mark.root
@pytest.mark.lab
def test_a_tunnel_in_a_guest(tmp_path: Path) -> None:
    of = quick_in_guests("pantheontunnel", tmp_path)
    assert of.whole
    *_, logs, clocks = of.facts
    assert (logs.verdict, clocks.verdict) == (results.HOLDS, results.HOLDS), (logs, clocks)
    more = 100 * OVERHEAD_BYTES / (1500 - OVERHEAD_BYTES)
    assert float(logs.words.split()[3]) == pytest.approx(more, abs=0.1)
    (rates,) = (row for row in of.tables[0].rows if row[1] == "Mbit/s")
    # cubic over a third of its path's buffer: most of 12 Mbit/s, with the tunnel as without
    assert all(isinstance(rate, float) and 6 < rate < 12.1 for rate in rates[2:4])
