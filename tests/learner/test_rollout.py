# SPDX-License-Identifier: MIT
"""Roll-outs: each way through the states, and what holds for every history of events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.learner.rollout import (
    ENDED,
    MOST_REFUSED,
    SHARES,
    WHY,
    Rollout,
    RolloutBegun,
    RolloutEvent,
    RolloutPlan,
    RolloutRecalled,
    ShadowJudged,
    ShadowUnseen,
    StageLook,
    advance,
    alarm_low,
    claim_interval,
    sees,
)
from configtron.learner.sequential.differences import FAILURES, GOALS, MEDIAN, P95, ArmDifference, Goal
from configtron.learner.sequential.sample_ratio import ERROR
from configtron.learner.state import decode, encode
from configtron.model.errors import BadInput

PLAN = RolloutPlan(clients=4000, places=("eu",))
DRAFT = Rollout((3, 8), (3, 7), PLAN)
SHADOW = advance(DRAFT, RolloutBegun(1))
CANARY = advance(SHADOW, ShadowJudged(2, -0.06, 0.01))


def differs(goal: Goal, estimate: float, units: int, error: float | None = None, reason: str = "") -> ArmDifference:
    """A difference as so many units in either arm show it."""
    spread = {"median": 1.0, "p95": 1.7, "failures": 0.05}[goal.name]
    found = error if error is not None else spread * (2.0 / max(units, 1)) ** 0.5
    return ArmDifference(goal, estimate, found, found, (800.0, 800.0), (units, units), (units, units), 400, reason)


def look(at_ns: int, stage: str, units: int, harm: float = 0.0, **other: object) -> StageLook:
    """A look at which all goals differ alike, failures by a hundredth of it."""
    every = tuple(("", differs(goal, harm / 100.0 if goal is FAILURES else harm, units)) for goal in GOALS)
    return replace(StageLook(at_ns, stage, every), **other)  # type: ignore[arg-type]


def test_a_version_without_harm_reaches_all_clients() -> None:
    assert (DRAFT.share, SHADOW.stage, SHADOW.share, CANARY.share) == (0.0, "shadow", 0.0, 0.05)
    quarter = advance(CANARY, look(3, "canary", 4000))
    assert (quarter.stage, quarter.share, quarter.in_force) == ("quarter", 0.25, (3, 7))
    everyone = advance(quarter, look(4, "quarter", 4000))
    assert (everyone.stage, everyone.share, everyone.in_force) == ("all", 1.0, (3, 8))
    assert [row.why for row in everyone.evidence] == ["begun", "shadow-passed", "gate", "gate"]
    better = advance(everyone, look(5, "all", 40_000, -0.2))
    assert better.claimed == ("median", "p95", "failures") and better.stage == "all"
    again = advance(better, look(6, "all", 80_000, -0.2))
    assert again.evidence == better.evidence, "a claim is made once"


def test_few_loads_pass_no_gate() -> None:
    assert advance(CANARY, look(3, "canary", 300)).stage == "canary"
    nothing = look(3, "canary", 0)
    unknown = replace(nothing, differences=tuple(("", differs(g, float("nan"), 9, reason="few-units")) for g in GOALS))
    assert advance(advance(CANARY, nothing), replace(unknown, at_ns=4)).stage == "canary"


def test_gates_that_passed_stay_passed() -> None:
    """A goal that has shown no harm is not asked again: intervals of all looks hold together."""
    some = replace(look(3, "canary", 2500), differences=(("", differs(MEDIAN, -0.1, 2500)),))
    waiting = advance(CANARY, some)
    assert (waiting.stage, waiting.passed) == ("canary", ("median",))
    rest = (("", differs(MEDIAN, 0.04, 3999)), ("", differs(P95, -0.2, 3999)), ("", differs(FAILURES, -0.01, 3999)))
    assert advance(waiting, replace(some, at_ns=4, differences=rest)).stage == "quarter"


def test_harm_trips_to_the_version_before() -> None:
    for stage in SHARES:
        rollout = replace(CANARY, stage=stage)
        tripped = advance(rollout, look(9, stage, 3000, 0.4))
        assert (tripped.stage, tripped.share, tripped.in_force) == ("returned", 0.0, (3, 7))
        assert tripped.evidence[-1].why == "alarm" and dict(tripped.evidence[-1].numbers)["low"] > 0.0
    fails = StageLook(9, "canary", (("", differs(FAILURES, 0.02, 3000)),))
    assert advance(CANARY, fails).evidence[-1].goal == "failures"


def test_harm_in_one_place_trips_too() -> None:
    there = StageLook(9, "canary", (("", differs(MEDIAN, 0.0, 3000)), ("eu", differs(MEDIAN, 0.4, 1500))))
    assert advance(CANARY, there).evidence[-1].place == "eu"
    unplanned = StageLook(9, "canary", (("mars", differs(MEDIAN, 9.0, 1500)),))
    assert advance(CANARY, unplanned).stage == "canary", "an alarm without a share of the error would be a false one"


def test_what_cannot_pass_returns() -> None:
    over = advance(CANARY, look(3, "canary", 4000, 0.06))
    assert (over.stage, over.evidence[-1].why) == ("returned", "not-passed")
    assert "median" in over.evidence[-1].goal


def test_a_broken_sample_ratio_stops_gate_and_claim_but_no_alarm() -> None:
    broken = advance(CANARY, look(3, "canary", 4000, ratio=ERROR / 2))
    assert (broken.stage, broken.suspended, broken.passed) == ("canary", "sample-ratio", ())
    everyone = replace(CANARY, stage="all")
    assert advance(everyone, look(3, "all", 40_000, -0.3, ratio=ERROR / 2)).claimed == ()
    assert advance(CANARY, look(3, "canary", 3000, 0.4, ratio=ERROR / 2)).stage == "returned"
    assert advance(broken, look(4, "canary", 4000)).stage == "quarter", "the ratio is in order again"


def test_refused_entries_trip() -> None:
    assert advance(CANARY, look(3, "canary", 4000, refused=11, entries=1000)).evidence[-1].why == "refused"
    assert advance(CANARY, look(3, "canary", 4000, refused=10, entries=1000)).stage == "quarter"
    assert MOST_REFUSED == 0.01


def test_the_shadow_lets_out_what_may_not_harm() -> None:
    assert advance(SHADOW, ShadowJudged(2, -0.1, 0.2)).stage == "shadow"
    assert advance(SHADOW, ShadowJudged(2, -9.0, -1.0, "few-effective")).stage == "shadow"
    rejected = advance(SHADOW, ShadowJudged(2, 0.06, 0.2))
    assert (rejected.stage, rejected.share) == ("rejected", 0.0)
    assert advance(advance(SHADOW, ShadowJudged(2, -0.1, 0.2)), ShadowUnseen(3)).stage == "canary"
    assert advance(CANARY, RolloutRecalled(9)).stage == "returned"
    assert advance(SHADOW, RolloutRecalled(9)).stage == "rejected"


def test_a_plan_is_checked() -> None:
    with pytest.raises(BadInput, match="one for each"):
        RolloutPlan(margins=(("median", 0.1),))
    with pytest.raises(BadInput, match="above zero"):
        RolloutPlan(margins=(("median", 0.1), ("p95", 0.0), ("failures", 0.1)))


def test_alarms_share_the_error() -> None:
    for places in ((), ("eu",), ("eu", "us", "as")):
        plan = RolloutPlan(places=places)
        total = sum(plan.goal_alarm_error(s, p) for s in SHARES for p in ("", *places)) * len(GOALS)
        assert total == pytest.approx(plan.alarm_error)
    assert alarm_low(PLAN, "canary", "", differs(MEDIAN, 1.0, 9, reason="few-units")) == float("-inf")
    assert claim_interval(PLAN, differs(MEDIAN, 1.0, 9, reason="few-units")) == (float("-inf"), float("inf"))


@pytest.mark.slow
def test_what_a_canary_sees_is_what_it_finds() -> None:
    """Eight of ten equal versions pass by the margin that is stated, and eight of ten harms of the stated size trip."""
    seen = sees(PLAN, differs(MEDIAN, 0.0, 500))
    margins = (("median", seen.gate), ("p95", 9.0), ("failures", 9.0))
    plan = replace(PLAN, margins=margins)
    passed = [_walked(replace(CANARY, plan=plan), seed, 0.0).stage for seed in range(200)]
    assert 0.7 < passed.count("quarter") / 200 < 0.9
    tripped = [_walked(replace(CANARY, plan=plan), seed, seen.alarm) for seed in range(200)]
    assert 0.7 < sum(one.evidence[-1].why == "alarm" for one in tripped) / 200 < 0.93


def _walked(rollout: Rollout, seed: int, harm: float) -> Rollout:
    """A canary to its end: medians as sums of independent draws show them, other goals without harm."""
    rng, step = np.random.default_rng(seed), 40
    noise = np.cumsum(rng.normal(0.0, np.sqrt(2.0 * step), PLAN.clients // step))
    for at, total in enumerate(noise):
        units = (at + 1) * step
        every = (differs(MEDIAN, harm + total / units, units), differs(P95, 0.0, units), differs(FAILURES, 0.0, units))
        rollout = advance(rollout, StageLook(at + 9, "canary", tuple(("", one) for one in every)))
        if rollout.stage != "canary":
            break
    return rollout


def test_a_trip_is_in_force_within_a_lease() -> None:
    tripped = advance(CANARY, look(7 * 10**9, "canary", 3000, 0.4))
    assert tripped.due_ns - 7 * 10**9 == round(PLAN.lease_s * 1e9)


LOOKS = st.builds(
    look,
    st.integers(0, 60),
    st.sampled_from([*SHARES, "shadow"]),
    st.integers(0, 5000),
    st.floats(-0.5, 0.5),
    ratio=st.sampled_from([1.0, 0.2, ERROR / 10]),
    refused=st.integers(0, 30),
    entries=st.sampled_from([0, 1000]),
)
EVENTS: st.SearchStrategy[RolloutEvent] = st.one_of(
    LOOKS,
    LOOKS,
    LOOKS,
    st.builds(RolloutBegun, st.integers(0, 60)),
    st.builds(ShadowUnseen, st.integers(0, 60)),
    st.builds(RolloutRecalled, st.integers(55, 60)),
    st.builds(ShadowJudged, st.integers(0, 60), st.floats(-1, 0.1), st.floats(-0.1, 1), st.sampled_from(["", "x"])),
)
ORDER = ["draft", "shadow", "canary", "quarter", "all"]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=60), st.booleans())
def test_every_history_keeps_the_promises(events: list[RolloutEvent], in_order: bool) -> None:
    """Widened only by its gate; ended at the version before; no claim or gate with a broken ratio; any moment may be
    saved and restored."""
    if in_order:
        events = [replace(event, at_ns=at + 1) for at, event in enumerate(events)]
    now = DRAFT
    for event in events:
        before, now = now, advance(now, event)
        assert advance(now, event) == now, "delivered twice"
        restored = decode(encode({"rollout": now}))["rollout"]
        assert encode({"rollout": restored}) == encode({"rollout": now})
        news = now.evidence[len(before.evidence) :]
        assert all(row.why in WHY and row.stage == now.stage for row in news)
        if now.stage == before.stage:
            continue
        if now.stage in ENDED:
            assert now.in_force == now.previous and now.share == 0.0
            continue
        assert ORDER.index(now.stage) == ORDER.index(before.stage) + 1, "one stage at a time"
        if before.share:
            assert isinstance(event, StageLook) and event.stage == before.stage and event.ratio >= ERROR
            assert news[-1].why == "gate"
            assert all(alarm_low(PLAN, before.stage, place, one) <= 0.0 for place, one in event.differences)
    ended = [row.stage in ENDED for row in now.evidence]
    assert sum(ended) <= 1 and (not any(ended) or ended[-1]), "nothing happens after the end"
