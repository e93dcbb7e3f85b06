# SPDX-License-Identifier: MIT
"""Pantheon's study on made answers, whose winners and reasons are known; and the smallest one in guests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.studies import pantheon
from configtron.studies.flows.flows import REFUSED, SCHEMES, FlowOutcome, TrialOutcome
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Evaluated, Heat, Scatter, Table
from configtron.studies.pantheon import PATHS, SMOKE, PantheonPlan, evaluated, part_name, seed_of
from configtron.studies.registry.kinds import Arguments

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


def found(rate: Rate = lambda path, scheme, run: RATES[path][scheme]) -> Evaluated:
    outcomes = {
        part_name(path, count, run): [
            TrialOutcome(tuple(flow(scheme, rate(path, scheme, run) / count) for _ in range(count)))
            for scheme in PLAN.schemes
        ]
        for path in PLAN.paths
        for count in PLAN.counts
        for run in range(PLAN.runs)
    }
    return evaluated(PLAN, outcomes, {}, 1)


def table(of: Evaluated, name: str) -> Table:
    return next(one for one in of.tables if one.name == name)


def row(of: Evaluated, name: str, **wanted: object) -> dict[str, object]:
    one = table(of, name)
    rows = [dict(zip(one.columns, cells, strict=True)) for cells in one.rows]
    return next(cells for cells in rows if wanted.items() <= cells.items())


def verdicts(of: Evaluated) -> list[str]:
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


def test_the_map_shows_what_is_behind_the_best() -> None:
    heat = next(plot for plot in found().plots if isinstance(plot, Heat))
    assert heat.columns == list(PLAN.paths) and heat.rows == list(PLAN.schemes)
    assert heat.values[heat.rows.index("vegas")] == [0.0, 0.0, pytest.approx(math.log(1 / 3))]
    assert heat.values[heat.rows.index("cubic")] == [pytest.approx(math.log(0.6))] * 2 + [0.0]


def test_the_overview_is_a_point_a_scheme() -> None:
    overview = next(plot for plot in found().plots if isinstance(plot, Scatter))
    clouds = {cloud.name: cloud.points for cloud in overview.clouds}
    # 60 ms on ways of 30, 30, 130; 10, 10 of 12 Mbit/s, 1 of 3.04
    assert list(clouds) == list(PLAN.schemes) and clouds["vegas"] == [(2.0, pytest.approx(10 / 12))]


def test_facts_are_counted() -> None:
    of = found()
    nowhere, varies, quarter, bbr, full, stated = of.facts
    assert nowhere.verdict == HOLDS and nowhere.ours == "vegas on 2 of 3 paths"
    assert varies.verdict == HOLDS
    assert quarter.verdict == ABSENT and quarter.ours == "vegas on 67%"
    assert bbr.verdict == HOLDS and bbr.ours == "on 1 of 3 paths" and "pantheon:3" in bbr.words
    # 10, 10 of 12 Mbit/s are less than nine tenths, 3 of 3.04 are not
    assert full.verdict == PARTLY and full.ours == "on 1 of 3 paths" and "pantheon:16 (83%)" in full.words
    # copa was not measured
    assert stated.verdict == UNKNOWN


def test_a_scheme_that_is_best_everywhere_makes_the_fact_absent() -> None:
    of = found(lambda path, scheme, run: float(1 + PLAN.schemes.index(scheme)))
    assert verdicts(of)[:4] == [ABSENT, ABSENT, ABSENT, ABSENT]
    assert of.facts[0].ours == "bbr on 3 of 3 paths" and "median 1.00" in of.facts[1].ours


def test_runs_make_intervals_and_ellipses() -> None:
    of = found(lambda path, scheme, run: RATES[path][scheme] + run)
    one = row(of, "paths", path="pantheon:15", scheme="cubic", flows=1)
    assert one["Mbit/s"] == 6.5 and one["+- Mbit/s"] == pytest.approx(12.706 * 0.5**0.5 / 2**0.5)
    assert one["+- ms"] == 0.0
    scatters = [plot for plot in of.plots if isinstance(plot, Scatter)][len(PLAN.counts) :]
    assert len(scatters) == 6 and all(plot.flip_x for plot in scatters)
    cloud = scatters[0].clouds[0]
    assert cloud.points == [(60.0, 6.0), (60.0, 7.0)]
    assert max(y for _, y in cloud.outline) == pytest.approx(6.5 + 0.5**0.5)


def test_what_was_refused_has_a_reason_and_no_figure() -> None:
    outcomes = {
        part_name(path, 1, 0): [
            TrialOutcome((flow("cubic", 3.0),)),
            TrialOutcome((FlowOutcome(0.0, math.nan, 0.0, 0, 0, REFUSED, scheme="none"),)),
        ]
        for path in PLAN.paths
    }
    plan = replace(PLAN, schemes=("cubic", "none"), counts=(1,), runs=1)
    of = evaluated(plan, outcomes, {"other": "its guest ended"}, 1)
    none = row(of, "paths", path="pantheon:15", scheme="none")
    assert (none["why"], none["Mbit/s"], none["runs"]) == (REFUSED, None, 0)
    assert row(of, "paths", scheme="cubic")["why"] == ""
    assert not of.whole and "its guest ended" in of.missing
    assert verdicts(of) == [UNKNOWN]
    heat = next(plot for plot in of.plots if isinstance(plot, Heat))
    assert heat.rows == ["cubic", "none"] and heat.values[1] == [None] * 3


def test_what_did_not_run_is_not_slow() -> None:
    """BBR is refused on one path: that is no path on which it is three times worse."""
    refused = TrialOutcome((FlowOutcome(0.0, math.nan, 0.0, 0, 0, REFUSED, scheme="bbr"),))
    plan = replace(PLAN, schemes=("cubic", "bbr"), counts=(1,), runs=1)
    outcomes = {
        part_name(path, 1, 0): [TrialOutcome((flow("cubic", 3.0),)), TrialOutcome((flow("bbr", 3.0),))]
        for path in PLAN.paths
    }
    outcomes[part_name("pantheon:15", 1, 0)][1] = refused
    bbr = next(fact for fact in evaluated(plan, outcomes, {}, 1).facts if "BBR" in fact.claim)
    assert (bbr.verdict, bbr.ours) == (ABSENT, "on 0 of 2 paths")


def test_no_outcomes_give_no_result() -> None:
    assert verdicts(evaluated(PLAN, {}, {"all": "no guest"}, 1)) == [UNKNOWN]


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
def test_the_smallest_study_in_guests(tmp_path: Path) -> None:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    of = pantheon.run(Arguments(tmp_path, smoke=True, worker="configtron.studies.guests.worker"))
    assert of.whole and len(table(of, "paths").rows) == len(SMOKE.paths) * len(SMOKE.schemes) * 2
    assert all(cells[-1] == "" for cells in table(of, "paths").rows)
    # a policer lets next to nothing of a window pass; a third of the path's buffer lets most
    policed = row(of, "paths", path="pantheon:7", scheme="cubic", flows=1)["Mbit/s"]
    shallow = row(of, "paths", path="pantheon:16", scheme="cubic", flows=1)["Mbit/s"]
    assert isinstance(policed, float) and isinstance(shallow, float) and 0 < policed < 6 < shallow <= 12
    assert verdicts(of)[0] == HOLDS
