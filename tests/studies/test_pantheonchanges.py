# SPDX-License-Identifier: MIT
"""Paths that change as data; the study's facts on made answers; the smallest one in guests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.studies import pantheonchanges
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
from configtron.studies.flows.flows import FlowOutcome, TrialOutcome, orders_of, trials_of
from configtron.studies.output.results import ABSENT, HOLDS, UNKNOWN, Evaluated, Fact
from configtron.studies.pantheonchanges import ChangesPlan, evaluated
from configtron.studies.registry.kinds import Arguments

PLAN = ChangesPlan(draws=60)
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
        for run in range(PLAN.runs):
            found = handover.condition(DOWN, moment, run)
            (step,) = found.steps
            begin = SATELLITE_BEGINS_S[moment] + later_s(run)
            assert (begin + step.at_s) % SATELLITE_S == pytest.approx(0, abs=0.01)
            assert 0.2 * PLAN.duration_s < step.at_s < 0.8 * PLAN.duration_s
            assert step.down != found.down
    assert max(later_s(run) for run in range(100)) < APART_S


def test_the_plan_is_balanced_and_its_orders_come_back() -> None:
    parts = PLAN.parts(1)
    assert len(parts) == len(PLAN.paths) * 2 * 3 * PLAN.runs
    assert all([trial.flows[0].scheme for trial in trials] == list(PLAN.schemes) for trials in parts.values())
    assert len({trials[0].seed for trials in parts.values()}) == len(parts)
    for trials in parts.values():
        assert trials_of(orders_of(trials)) == trials
    evening = parts["home-down-moment2-run0"][0].flows
    assert [flow.rival for flow in evening] == [False, True, True, True] and len(
        parts["home-up-moment0-run0"][0].flows
    ) == 1


def outcome(power: float) -> TrialOutcome:
    # 60 ms; the rate that has this power
    return TrialOutcome((FlowOutcome(60.0 * math.exp(power), 60.0, 0.0, 1, 1, scheme="x"),))


def found(power: Power, plan: ChangesPlan = PLAN) -> Evaluated:
    """The study of these powers; a run's own part is small, drawn, and the same for all schemes."""
    chance = random.Random(1)
    outcomes = {}
    for path, direction, moment, run in product(plan.paths, DIRECTIONS, plan.moments, range(plan.runs)):
        own = chance.gauss(0, 0.01)
        name = pantheonchanges.part_name(path, direction, moment, run)
        outcomes[name] = [outcome(power(path.name, direction, moment, scheme) + own) for scheme in plan.schemes]
    return evaluated(plan, outcomes, {}, 1)


def fact(of: Evaluated, claim: str) -> Fact:
    return next(one for one in of.facts if one.claim == claim)


@pytest.mark.slow
def test_what_varies_is_found() -> None:
    number = {path.name: float(n) for n, path in enumerate(PLAN.paths)}
    of = found(lambda path, direction, moment, scheme: -4 + number[path])
    assert fact(of, "performance varies by path").verdict == HOLDS
    assert fact(of, "performance varies by direction").verdict == ABSENT
    assert fact(of, "performance varies by time").verdict == ABSENT
    of = found(lambda path, direction, moment, scheme: -4 + (moment if path != "steady" else 0))
    assert fact(of, "performance varies by time").verdict == HOLDS
    assert fact(of, "performance varies by path").verdict == ABSENT
    of = found(lambda path, direction, moment, scheme: -4 + (direction == "up" and path != "steady"))
    assert fact(of, "performance varies by direction").verdict == HOLDS


@pytest.mark.slow
def test_orders_of_schemes_are_distinguished_from_levels() -> None:
    def other(path: str, direction: str, moment: int, scheme: str) -> float:
        return -4 + float((PLAN.schemes.index(scheme) + number[path]) % len(PLAN.schemes))

    number = {path.name: n for n, path in enumerate(PLAN.paths)}

    assert fact(found(other), "the order of schemes varies by path").verdict == HOLDS
    same = found(lambda path, direction, moment, scheme: -4 + float(PLAN.schemes.index(scheme)))
    assert fact(same, "the order of schemes varies by path").verdict == ABSENT


@pytest.mark.slow
def test_a_steady_path_that_changes_is_noticed() -> None:
    claim = "a path that never changes has neither direction nor time"
    assert fact(found(lambda path, direction, moment, scheme: -4.0), claim).verdict == HOLDS
    broken = found(lambda path, direction, moment, scheme: -4.0 + moment * (path == "steady"))
    assert fact(broken, claim).verdict == ABSENT


@pytest.mark.slow
def test_what_is_missing_is_reported() -> None:
    of = evaluated(PLAN, {}, {"walk-down-moment0-run0": "its guest ended"}, 1)
    assert not of.whole and [one.verdict for one in of.facts] == [UNKNOWN]
    plan = replace(PLAN, paths=(*CHANGING[:2], STEADY), runs=2)
    assert (
        fact(found(lambda path, direction, moment, scheme: -4.0, plan), "performance varies by path").verdict == ABSENT
    )


@pytest.mark.root
@pytest.mark.lab
def test_the_smallest_study_in_guests(tmp_path: Path) -> None:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    of = pantheonchanges.run(Arguments(tmp_path, smoke=True, worker="configtron.studies.guests.worker"))
    assert of.whole
    means = next(one for one in of.tables if one.name == "means")
    rates = {(row[0], row[1], row[2]): row[3] for row in means.rows}
    # walk has 1.6 Mbit/s down and 0.5 up in the mean; the steady link 4 both ways
    walk = [rates["cubic", "walk", direction] for direction in DIRECTIONS]
    steady = [rates["cubic", "steady", direction] for direction in DIRECTIONS]
    assert all(isinstance(rate, float) for rate in (*walk, *steady))
    assert walk[0] > 1.5 * walk[1] and steady[0] == pytest.approx(steady[1], rel=0.25)  # type: ignore[operator]
    assert fact(of, "a path that never changes has neither direction nor time").verdict == HOLDS
