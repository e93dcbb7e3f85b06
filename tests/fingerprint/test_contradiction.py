# SPDX-License-Identifier: MIT
"""No verdict contradicts every trial that it was drawn from: any trials at all, and those that once made one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint.contradiction import REASON, upheld
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.verdict import PASSING
from configtron.model.nouns import Observation, Value

SECONDS = ("synack_rto", "data_rto", "min_rto", "delayed_ack")
COUNTS = ("synack_retries", "icw", "icw_tls", "cwnd_at_request", "synack_duplicates")
WORDS = {"synack_backoff": ("linear", "exponential"), "synack_end": ("reset", "silence"), "tfo": ("yes", "no")}
EIGHTH = 1.125

seconds = st.floats(0.01, 10).map(lambda s: round(s, 3))
gaps = st.lists(seconds, min_size=1, max_size=5).map(tuple)


def observation(knob: str, value: Value, grade: str, unit: str, details: dict[str, Value]) -> Observation:
    return Observation(knob, value, None, unit, "", grade, "here/x/rto.0", (), (), tuple(sorted(details.items())))


@st.composite
def trials(draw: st.DrawFn) -> Observation:
    knob = draw(st.sampled_from((*SECONDS, *COUNTS, *WORDS)))
    details: dict[str, Value] = {
        "gaps": draw(gaps),
        "arrival": draw(seconds),
        "rtt": draw(seconds),
        "trip": draw(seconds),
        "timer": draw(seconds),
        "regular": draw(st.booleans()),
        "missed": draw(st.integers(0, 2)),
        "late": draw(st.just(()) | gaps),
        "overdue": (draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        "duplicates": draw(st.integers(0, 1)),
    }
    if knob in WORDS:
        return observation(knob, draw(st.sampled_from(WORDS[knob])), "C", "", details)
    if knob in COUNTS:
        return observation(knob, draw(st.integers(1, 8)), draw(st.sampled_from("CCL")), "", details)
    return observation(knob, draw(seconds), "C", "s", details)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(trials(), min_size=1, max_size=8))
def test_some_trial_admits_every_verdict(rows: list[Observation]) -> None:
    for knob, verdict in merge_all(rows).items():
        own = [t for t in rows if t.knob == knob]
        if verdict.value is None or not own:
            continue
        if verdict.grade == "L":
            assert any(float(t.value) >= float(verdict.value) for t in own)  # type: ignore[arg-type]
        elif verdict.unit == "s":
            ratios = [sorted((float(t.value), float(verdict.value))) for t in own]  # type: ignore[arg-type]
            assert any(more <= less * EIGHTH + 0.010001 for less, more in ratios), (verdict.value, own)
        else:
            assert verdict.value in [t.value for t in own if t.grade == "C"], (verdict, own)


def synack(knob: str, value: Value, unit: str, rtt: float) -> Observation:
    details: dict[str, Value] = {"gaps": (0.3, 0.61, 1.2, 2.43), "arrival": 0.25, "rtt": rtt, "late": ()}
    return observation(knob, value, "C", unit, details)


@pytest.mark.parametrize("others", [1, 2])
def test_a_short_round_trip_of_another_connection_makes_no_shorter_timer(others: int) -> None:
    """Both runs read 0.3 s; a connection of 25 ms, not 250, would make the first answers copies of a timer of 75 ms."""
    short = [observation("data_rto", 0.225, "C", "s", {"gaps": (0.225,), "rtt": 0.025, "trip": 0.025})] * others
    rows = [
        *(synack("synack_rto", 0.3, "s", 0.25) for _ in range(2)),
        *(synack("synack_retries", 4, "", 0.25) for _ in range(2)),
        *(synack("synack_backoff", "exponential", "", 0.25) for _ in range(2)),
        *short,
    ]
    seen = merge_all(rows)
    assert (seen["synack_rto"].value, seen["synack_rto"].grade) == (0.3, "A")
    assert (seen["synack_retries"].value, seen["synack_retries"].grade) == (4, "B")


def test_what_no_trial_read_has_no_value_and_is_asked_again() -> None:
    rows = [observation("synack_rto", 2.0, "C", "s", {}), observation("synack_rto", 2.1, "C", "s", {})]
    drawn = observation("synack_rto", 1.0, "A", "s", {})
    left = upheld(drawn, rows)
    assert (left.value, left.reason, left.grade, left.detail("seen")) == (None, REASON, "N", ("2.0", "2.1"))
    assert REASON in PASSING
    assert upheld(drawn, [*rows, observation("synack_rto", 1.05, "C", "s", {})]) is drawn


def test_a_count_that_no_trial_read_is_a_bound_of_what_they_read() -> None:
    rows = [observation("synack_retries", n, "C", "", {}) for n in (4, 5)]
    left = upheld(observation("synack_retries", 7, "B", "", {}), rows)
    assert (left.value, left.grade) == (5, "L")
    assert left.detail("seen") == ("4", "5")
