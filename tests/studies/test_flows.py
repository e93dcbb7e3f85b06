# SPDX-License-Identifier: MIT
"""Trials and their answers as text and back; what is no trial is refused."""

from __future__ import annotations

import math
import re

import pytest

from configtron.lab.testbed.families import named
from configtron.lab.uml.recipes import SOURCES
from configtron.model.congestion import OF_LINUX
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.studies.flows.flows import (
    MOST_FLOWS,
    Flow,
    FlowOutcome,
    Trial,
    TrialOutcome,
    orders_of,
    outcomes_of,
    outcomes_text,
    trials_of,
)

PATH = named("pantheon:2")
OWN = Profile("own", (("initcwnd", 4), ("tcp_congestion_control", "bbr")))
TRIALS = [
    Trial(PATH, (Flow("cubic"), Flow("bbr", 10.5)), seed=7),
    Trial(named("access:dsl/4"), (Flow(), Flow("cubic", rival=True)), 35.0, 2**40, 5.0, OWN),
]


def test_trials_survive_their_text() -> None:
    assert trials_of(orders_of(TRIALS)) == TRIALS
    assert "\n" not in orders_of(TRIALS)


def test_answers_survive_their_text() -> None:
    outcomes = [
        TrialOutcome((FlowOutcome(11.5, 40.25, 0.01, 100, 9, scheme="cubic"),)),
        TrialOutcome((), "not as asked"),
    ]
    assert outcomes_of(outcomes_text(outcomes)) == outcomes
    silent = outcomes_of(
        outcomes_text([TrialOutcome((FlowOutcome(0.0, math.nan, 0.0, 0, 0, "refused", scheme="lp"),))])
    )[0].flows[0]
    assert math.isnan(silent.late_ms) and math.isnan(silent.power) and silent.reason == "refused"


def test_power_by_hand() -> None:
    assert FlowOutcome(10.0, 100.0, 0.0, 1, 1, scheme="cubic").power == pytest.approx(-2.302585)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Trial(PATH, ()),
        lambda: Trial(PATH, (Flow("cubic"),) * (MOST_FLOWS + 1)),
        lambda: Trial(PATH, (Flow("cubic", 30.0),)),
        lambda: Trial(PATH, (Flow("cubic"),), counted_from_s=30.0),
        lambda: Trial(PATH, (Flow("cubic"),), math.nan),
        lambda: Trial(PATH, (Flow(),)),
        lambda: trials_of("[{}]"),
        lambda: trials_of("nothing"),
        lambda: outcomes_of("[]"),
    ],
)
def test_what_is_none_is_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput):
        wrong()


def test_every_scheme_that_the_kernel_has_is_listed() -> None:
    text = (SOURCES / "config.fragment").read_text() + (SOURCES / "schemes.fragment").read_text()
    switched = {name.lower() for name in re.findall(r"^CONFIG_TCP_CONG_(\w+)=y", text, re.M)} - {"advanced"}
    kernel = {"hstcp": "highspeed"}
    assert {kernel.get(name, name) for name in switched} | {"reno"} == set(OF_LINUX)
