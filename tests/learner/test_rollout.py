# SPDX-License-Identifier: MIT
"""Roll-outs: each way through the states, what holds for every history, what rows of outcomes say of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.learner.outcome_arms import NO_TIME, RatioCheck, expected_ln, fleet_loads, intervals, ratio_of
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
from configtron.learner.stage_looks import stage_look
from configtron.learner.state import decode, encode
from configtron.model.errors import BadInput
from configtron.model.fleet import OutcomeRow
from tests.support.fleet_rows import BEGUN_NS, HELD, fleet_rows

PLAN = RolloutPlan(clients=4000, places=("eu",))
DRAFT = Rollout((3, 8), (3, 7), PLAN)
SHADOW = advance(DRAFT, RolloutBegun(1))
CANARY = advance(SHADOW, ShadowJudged(2, -0.06, 0.01))


def differs(goal: Goal, estimate: float, units: int, reason: str = "") -> ArmDifference:
    """A difference as so many units in either arm show it."""
    error = {"median": 1.0, "p95": 1.7, "failures": 0.05}[goal.name] * (2.0 / max(units, 1)) ** 0.5
    return ArmDifference(goal, estimate, error, error, (800.0, 800.0), (units, units), (units, units), 400, reason)


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


def test_few_loads_pass_no_gate_and_gates_that_passed_stay_passed() -> None:
    nothing = look(3, "canary", 0)
    unknown = replace(nothing, differences=tuple(("", differs(g, float("nan"), 9, reason="few-units")) for g in GOALS))
    assert advance(CANARY, look(3, "canary", 300)).stage == "canary"
    assert advance(advance(CANARY, nothing), replace(unknown, at_ns=4)).stage == "canary"
    # A goal that has shown no harm is not asked again: intervals of all looks hold together.
    some = replace(look(3, "canary", 2500), differences=(("", differs(MEDIAN, -0.1, 2500)),))
    waiting = advance(CANARY, some)
    assert (waiting.stage, waiting.passed) == ("canary", ("median",))
    rest = (("", differs(MEDIAN, 0.04, 3999)), ("", differs(P95, -0.2, 3999)), ("", differs(FAILURES, -0.01, 3999)))
    assert advance(waiting, replace(some, at_ns=4, differences=rest)).stage == "quarter"


def test_harm_trips_to_the_version_before_within_a_lease() -> None:
    for stage in SHARES:
        tripped = advance(replace(CANARY, stage=stage), look(7 * 10**9, stage, 3000, 0.4))
        assert (tripped.stage, tripped.share, tripped.in_force) == ("returned", 0.0, (3, 7))
        assert tripped.evidence[-1].why == "alarm" and dict(tripped.evidence[-1].numbers)["low"] > 0.0
        assert tripped.due_ns - 7 * 10**9 == round(PLAN.lease_s * 1e9)
    fails = StageLook(9, "canary", (("", differs(FAILURES, 0.02, 3000)),))
    there = StageLook(9, "canary", (("", differs(MEDIAN, 0.0, 3000)), ("eu", differs(MEDIAN, 0.4, 1500))))
    unplanned = StageLook(9, "canary", (("mars", differs(MEDIAN, 9.0, 1500)),))
    assert advance(CANARY, fails).evidence[-1].goal == "failures" and advance(CANARY, there).evidence[-1].place == "eu"
    assert advance(CANARY, unplanned).stage == "canary", "an alarm without a share of the error would be a false one"


def test_what_cannot_pass_returns_and_refused_entries_trip() -> None:
    over = advance(CANARY, look(3, "canary", 4000, 0.06))
    assert (over.stage, over.evidence[-1].why) == ("returned", "not-passed") and "median" in over.evidence[-1].goal
    assert advance(CANARY, look(3, "canary", 4000, refused=11, entries=1000)).evidence[-1].why == "refused"
    assert advance(CANARY, look(3, "canary", 4000, refused=10, entries=1000)).stage == "quarter"
    assert MOST_REFUSED == 0.01


def test_a_broken_sample_ratio_stops_gate_and_claim_but_no_alarm() -> None:
    broken = advance(CANARY, look(3, "canary", 4000, ratio=ERROR / 2))
    assert (broken.stage, broken.suspended, broken.passed) == ("canary", "sample-ratio", ())
    everyone = replace(CANARY, stage="all")
    assert advance(everyone, look(3, "all", 40_000, -0.3, ratio=ERROR / 2)).claimed == ()
    assert advance(CANARY, look(3, "canary", 3000, 0.4, ratio=ERROR / 2)).stage == "returned"
    assert advance(broken, look(4, "canary", 4000)).stage == "quarter", "the ratio is in order again"


def test_the_shadow_lets_out_what_may_not_harm() -> None:
    assert advance(SHADOW, ShadowJudged(2, -0.1, 0.2)).stage == "shadow"
    assert advance(SHADOW, ShadowJudged(2, -9.0, -1.0, "few-effective")).stage == "shadow"
    rejected = advance(SHADOW, ShadowJudged(2, 0.06, 0.2))
    assert (rejected.stage, rejected.share) == ("rejected", 0.0)
    assert advance(advance(SHADOW, ShadowJudged(2, -0.1, 0.2)), ShadowUnseen(3)).stage == "canary"
    assert advance(CANARY, RolloutRecalled(9)).stage == "returned"
    assert advance(SHADOW, RolloutRecalled(9)).stage == "rejected"


def test_a_plan_is_checked_and_alarms_share_the_error() -> None:
    with pytest.raises(BadInput, match="one for each"):
        RolloutPlan(margins=(("median", 0.1),))
    with pytest.raises(BadInput, match="above zero"):
        RolloutPlan(margins=(("median", 0.1), ("p95", 0.0), ("failures", 0.1)))
    for places in ((), ("eu",), ("eu", "us", "as")):
        plan = RolloutPlan(places=places)
        total = sum(plan.goal_alarm_error(s, p) for s in SHARES for p in ("", *places)) * len(GOALS)
        assert total == pytest.approx(plan.alarm_error)
    few = differs(MEDIAN, 1.0, 9, reason="few-units")
    assert alarm_low(PLAN, "canary", "", few) == -inf and claim_interval(PLAN, few) == (-inf, inf)


@pytest.mark.slow
def test_what_a_canary_sees_is_what_it_finds() -> None:
    """Eight of ten equal versions pass by the margin that is stated, and eight of ten harms of the stated size trip."""
    seen = sees(PLAN, differs(MEDIAN, 0.0, 500))
    canary = replace(CANARY, plan=replace(PLAN, margins=(("median", seen.gate), ("p95", 9.0), ("failures", 9.0))))
    passed = [walked(canary, seed, 0.0).stage for seed in range(200)]
    assert 0.7 < passed.count("quarter") / 200 < 0.9
    tripped = [walked(canary, seed, seen.alarm).evidence[-1].why for seed in range(200)]
    assert 0.7 < tripped.count("alarm") / 200 < 0.93


def walked(rollout: Rollout, seed: int, harm: float) -> Rollout:
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


AT = st.integers(0, 60)
LOOKS = st.builds(
    look, AT, st.sampled_from([*SHARES, "shadow"]), st.integers(0, 5000), st.floats(-0.5, 0.5),
    ratio=st.sampled_from([1.0, 0.2, ERROR / 10]), refused=st.integers(0, 30), entries=st.sampled_from([0, 1000]),
)  # fmt: skip
EVENTS: st.SearchStrategy[RolloutEvent] = st.one_of(
    LOOKS, LOOKS, LOOKS, st.builds(RolloutBegun, AT), st.builds(ShadowUnseen, AT),
    st.builds(RolloutRecalled, st.integers(55, 60)),
    st.builds(ShadowJudged, AT, st.floats(-1, 0.1), st.floats(-0.1, 1), st.sampled_from(["", "x"])),
)  # fmt: skip
ORDER = ["draft", "shadow", "canary", "quarter", "all"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
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


STAGE_PLAN = RolloutPlan(
    margins=(("median", 0.3), ("p95", 0.6), ("failures", 0.05)), clients=1500, places=("ams", "fra")
)
STAGE = advance(advance(Rollout((1, 9), (1, 8), STAGE_PLAN), RolloutBegun(1)), ShadowUnseen(2))
QUARTER = replace(STAGE, stage="quarter")
LATE_NS = BEGUN_NS + 4 * 3600 * 10**9


def of_version(gain: float) -> list[OutcomeRow]:
    """Rows of a stage in which a quarter of the clients that are not held back have version 1.9."""
    return [row._replace(map_version=9 if int(row.unit[:8], 16) % 4 == 0 else 8) for row in fleet_rows(1, 24_000, gain)]


def quarter(rows: list[OutcomeRow], rollout: Rollout = QUARTER) -> StageLook:
    return stage_look(rollout, rows, LATE_NS, holdback=HELD)


@pytest.mark.slow
def test_an_equal_version_passes_and_a_harmful_one_trips() -> None:
    """Only loads of the stage and version count; an arm that loses its loads stops the stage."""
    rows = of_version(0.0)
    same = quarter(rows)
    assert [place for place, _ in same.differences] == [""] * 3 + ["ams"] * 3 + ["fra"] * 3
    assert same.ratio > ERROR and advance(QUARTER, same).stage == "all"
    one, counted = same.differences[0][1], [row for row in rows if row.teaches and (row.held or row.map_version == 9)]
    assert sum(one.loads) == len(counted) and one.loads[0] == sum(row.held for row in counted)
    began = replace(QUARTER, evidence=(replace(QUARTER.evidence[-1], at_ns=LATE_NS),))
    assert quarter(rows, began).differences[0][1].reason == "few-units"
    tripped = advance(QUARTER, quarter(of_version(-1.5)))
    assert (tripped.stage, tripped.evidence[-1].why, tripped.in_force) == ("returned", "alarm", (1, 8))
    lost = quarter([row for row in rows if row.held or row.unit[3] in "05af"])
    assert lost.ratio < ERROR and advance(QUARTER, lost).suspended == "sample-ratio"


def test_refusals_are_handed_on() -> None:
    look = stage_look(STAGE, [], LATE_NS, holdback=HELD, refused=3, entries=100)
    assert advance(STAGE, look).evidence[-1].why == "refused" and look.ratio == 1.0
    assert look.differences[0][1].reason == "few-units" and look.differences[0][1].estimate != pytest.approx(0.0)


ROWS = fleet_rows(1, 12_000)


def test_the_gain_of_the_whole_map_is_found_with_its_interval() -> None:
    """Half of the tuned clients' loads are by a profile that saves 30 %: about a sixth of the median."""
    loads = fleet_loads(fleet_rows(2, 20_000, gain=0.3))
    found = {one.found.goal.name: one for one in intervals(loads.loads)}
    assert found["median"].high < 0.0
    assert found["median"].low < np.log(1.0 - 0.3) / 2.0 < found["median"].high
    assert found["failures"].low < 0.0 < found["failures"].high
    for one in found.values():
        for arm in (0, 1):
            assert one.level_low[arm] < one.found.level[arm] < one.level_high[arm]


def test_what_does_not_teach_is_counted_by_its_reason() -> None:
    loads = fleet_loads([*ROWS, ROWS[0]._replace(teaches=True, plt_ms=None, failure="", why_not="")])
    assert loads.aside["turn"] == sum(not row.teaches for row in ROWS) and loads.aside[NO_TIME] == 1
    assert len(loads.loads) + sum(loads.aside.values()) == loads.rows
    assert np.isinf(loads.loads.ln_ms).sum() == sum(row.plt_ms is None and row.teaches for row in ROWS)


def test_an_expectation_is_of_control_loads_of_other_prefixes_alone() -> None:
    loads = fleet_loads(ROWS).loads
    assert np.isfinite(loads.expected_ln).all()
    rest = (loads.ln_ms - loads.expected_ln)[np.isfinite(loads.ln_ms)]
    assert rest.std() < 0.8 * loads.ln_ms[np.isfinite(loads.ln_ms)].std()
    # a change of any treated load, or of a load's own half, moves no expectation of it
    cell, half = np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1])
    control, ln_ms = np.array([True, False, True, False]), np.array([5.0, 6.0, 7.0, 8.0])
    assert expected_ln(cell, cell, ln_ms, control, half) == pytest.approx([7.0, 7.0, 5.0, 5.0])
    assert np.isnan(expected_ln(cell, cell, ln_ms, np.zeros(4, dtype=np.bool_), half)).all()


def test_arms_that_lose_loads_break_the_ratio() -> None:
    sound = ratio_of(ROWS)
    assert sound.p > ERROR and sound.units > 5000
    lost = ratio_of(fleet_rows(1, 12_000, lost_of_treated=0.4))
    assert lost.p < ERROR
    assert ratio_of([row._replace(propensity=None) for row in ROWS]).units == 0


def drawn_rows(seed: int, weights: Sequence[float], lost: float = 0.0) -> list[OutcomeRow]:
    """One load of each of 6000 clients, a tenth held back. lost: share of arm 1's loads that never come."""
    rng, found = np.random.default_rng(seed), []
    drawn, chance = rng.choice(len(weights), size=6000, p=weights), rng.random((6000, 2))
    for client in range(6000):
        held, arm = bool(chance[client, 0] < 0.1), int(drawn[client])
        if not held and arm == 1 and chance[client, 1] < lost:
            continue
        found.append(OutcomeRow(
            "web1", "b", client, client, "s", f"10.0.{client % 60}.0/24", f"{client}", 100.0, 1, 1, 5, "near",
            None if held else arm, "" if held else f"p{arm}", 0.1 if held else 0.9 * weights[arm], held,
        ))  # fmt: skip
    return found


@pytest.mark.parametrize(("weights", "lost"), [((0.5, 0.3, 0.1995, 0.0005), 0.3), ((0.5, 0.3, 0.2), 1.0)])
def test_a_rare_arm_or_one_without_any_load_hides_no_loss(weights: Sequence[float], lost: float) -> None:
    """An arm with less than five clients to expect ended the comparison of all; one without a row was not missed."""
    assert ratio_of(drawn_rows(1, weights)).p > ERROR
    found = ratio_of(drawn_rows(1, weights, lost))
    assert found.p < ERROR and found.units > 4000
    assert ratio_of(drawn_rows(1, weights)[:9]) == RatioCheck(1.0, 0), "clients that are too few are not counted"


@pytest.mark.slow
def test_a_holdback_is_one_draw_for_ever() -> None:
    """Sixty draws of who is held back, looked at over 18 epochs each: the ratio is broken in none of them."""
    rows = [fleet_rows(seed, 1500) for seed in range(60)]
    assert sum(ratio_of(one).p < 0.05 for one in rows) <= 8  # 3 expected; more than 8 in one of 300 sets
    assert HELD == 0.2


def test_without_rows_there_is_nothing() -> None:
    found = fleet_loads([])
    assert len(found.loads) == found.rows == 0 and ratio_of([]) == RatioCheck(1.0, 0)
    assert {one.found.reason for one in intervals(found.loads)} == {"few-units"}
