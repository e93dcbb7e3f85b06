# SPDX-License-Identifier: MIT
"""The fairness study on made answers, whose indices are known; and the smallest one in guests."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.studies import fairness
from configtron.studies.fairness import FULL, RIVALS, SMOKE, FairnessPlan, cases, evaluated, part_name
from configtron.studies.flows.flows import FlowOutcome, TrialOutcome
from configtron.studies.flows.shares import distribution
from configtron.studies.output.results import ABSENT, HOLDS, UNKNOWN, Curves, Evaluated, Heat
from configtron.studies.registry.kinds import Arguments

PLAN = FairnessPlan(
    ("access:3g/1", "access:dsl/2"),
    {"tcp_congestion_control": ("cubic", "vegas", "bbr"), "initcwnd": (4, 10), "pacing": ("pfifo_fast",)},
    2,
)  # fmt: skip


def outcome(tested: float, rivals: float = 1.0, reason: str = "") -> TrialOutcome:
    flows = [FlowOutcome(mbit, 30.0, 0.0, 1, 1, scheme="x") for mbit in (tested, *[rivals] * RIVALS)]
    return TrialOutcome((), reason) if reason else TrialOutcome(tuple(flows))


def found(tested: dict[str, float], reason: str = "") -> Evaluated:
    """Each scheme's tested flow gets so much where a rival gets 1."""
    answers = {
        part_name(link, scheme): [outcome(tested[scheme], reason=reason if scheme == "vegas" else "")] * 4
        for link in PLAN.links
        for scheme in tested
    }
    return evaluated(PLAN, answers, {}, 1)


def test_equal_shares_are_fair() -> None:
    of = found({"cubic": 1.0, "vegas": 1.0, "bbr": 1.0})
    assert [fact.verdict for fact in of.facts] == [HOLDS, HOLDS, HOLDS]
    assert of.facts[0].ours == "100% of 12 cases" and of.facts[1].ours == "100% of 8 cases"
    assert all(row[4] == pytest.approx(1.0) and row[6] == pytest.approx(1.0) for row in of.tables[1].rows)


def test_shares_are_counted_with_and_without_bbr() -> None:
    # three rivals' worth: 64 of 84, 0.76; half a share: 0.96
    of = found({"cubic": 1.0, "vegas": 0.5, "bbr": 3.0})
    most, without, equal = of.facts
    assert most.ours == "67% of 12 cases" and most.verdict == HOLDS and "bbr 0%" in most.words
    assert without.ours == "100% of 8 cases" and without.verdict == HOLDS and equal.verdict == HOLDS
    bbr = next(row for row in of.tables[0].rows if row[:2] == ["all", "bbr"])
    assert bbr[2:] == [4, pytest.approx(64 / 84), pytest.approx(64 / 84), 0.0, pytest.approx(3.0)]


def test_an_unfair_world_makes_the_facts_absent() -> None:
    of = found({"cubic": 4.0, "vegas": 0.01, "bbr": 1.0})
    assert [fact.verdict for fact in of.facts] == [ABSENT, ABSENT, ABSENT]
    assert "access:3g/1" in of.facts[2].words
    # who suffers: cubic's four cases take four times as much, vegas' four next to nothing
    assert "of 8 cases that are not fair the tested flow got less than a rival in 4," in of.facts[0].words


def test_a_stack_that_was_not_as_asked_has_its_reason() -> None:
    of = found({"cubic": 1.0, "vegas": 1.0, "bbr": 1.0}, reason="initcwnd is 10 instead of 4")
    rows = [row for row in of.tables[1].rows if row[1] == "vegas"]
    assert len(rows) == 4 and all(row[4] is None and "initcwnd" in str(row[-1]) for row in rows)
    assert of.facts[0].ours == "100% of 8 cases"
    heat = next(plot for plot in of.plots if isinstance(plot, Heat))
    assert heat.values[heat.rows.index("vegas")] == [None, None]


def test_no_outcomes_give_no_result() -> None:
    of = evaluated(PLAN, {}, {"access-3g-1-bbr": "its guest ended"}, 1)
    assert [fact.verdict for fact in of.facts] == [UNKNOWN] * 3 and not of.whole


def test_the_distribution_rises_to_one() -> None:
    points = distribution([0.9, 0.5, 1.0, 0.9])
    assert [point[:2] for point in points] == [(0.5, 0.25), (0.9, 0.5), (0.9, 0.75), (1.0, 1.0)]
    assert all(math.isnan(low) and math.isnan(high) for _, _, low, high in points)
    curves = next(plot for plot in found({"cubic": 1.0, "bbr": 3.0}).plots if isinstance(plot, Curves))
    assert [curve.name for curve in curves.series] == ["all", "without BBR", "cubic", "bbr"]
    assert [len(curve.points) for curve in curves.series] == [8, 4, 4, 4]


def test_the_whole_study_is_48_configurations_on_8_links() -> None:
    parts = FULL.parts(1)
    assert len(parts) == 8 * 4 and all(len(trials) == 12 * FULL.runs for trials in parts.values())
    trial = parts[part_name("access:4g/2", "bbr")][-1]
    assert trial.configuration and trial.configuration.name == "bbr/30/fq"
    assert [flow.rival for flow in trial.flows] == [False] + [True] * RIVALS and trial.flows[0].scheme == ""
    assert len({flow.start_s for flow in trial.flows}) == 6 and max(flow.start_s for flow in trial.flows) == 1.0
    # all configurations meet the same moments
    seeds = [[trial.seed for trial in parts[part_name("access:4g/2", scheme)]] for scheme in ("bbr", "cubic")]
    assert seeds[0] == seeds[1] and len(set(seeds[0])) == FULL.runs


def test_runs_go_to_their_configuration() -> None:
    plan = FairnessPlan(
        ("access:3g/1",), {"tcp_congestion_control": ("cubic",), "initcwnd": (4, 10), "pacing": ("fq",)}, 2
    )
    found = cases(plan, {part_name("access:3g/1", "cubic"): [outcome(1.0), outcome(1.0), outcome(9.0), outcome(9.0)]})
    assert [(case.configuration, round(case.index or 0, 3)) for case in found] == [
        (("cubic", 4, "fq"), 1.0),
        (("cubic", 10, "fq"), round(196 / (6 * 86), 3)),
    ]


@pytest.mark.root
@pytest.mark.lab
def test_the_smallest_study_in_guests(tmp_path: Path) -> None:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    of = fairness.run(Arguments(tmp_path, smoke=True, worker="configtron.studies.guests.worker"))
    assert of.whole and len(of.tables[1].rows) == len(SMOKE.links) * 2
    indices = {(row[0], row[1]): row[4] for row in of.tables[1].rows}
    # BBR does not make room where a packet is lost, cubic does: on a buffer of one path they are no match
    assert isinstance(indices["access:cable/1", "bbr"], float) and indices["access:cable/1", "bbr"] < 0.7
    assert isinstance(indices["access:cable/1", "cubic"], float) and indices["access:cable/1", "cubic"] > 0.9
