# SPDX-License-Identifier: MIT
"""Grades: what agreement is worth, and that a bound never becomes a value."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint.agreement import agree
from configtron.fingerprint.grades import RULES, GradeRule
from configtron.fingerprint.merge import merge, merge_all
from configtron.fingerprint.verdict import over
from configtron.model.nouns import Observation


def icw(value: int, grade: str = "C", mss: int = 536, sack: bool = False, proof: str = "before-timer") -> Observation:
    return Observation(
        "icw", value, None, "segments", "", grade, details=(("mss", mss), ("proof", proof), ("sack", sack))
    )


def rto(value: float) -> Observation:
    return Observation("data_rto", value, None, "s", "", "C")


NONE = Observation("icw", None, "no-data", "segments")


@pytest.mark.parametrize(
    ("trials", "text", "grade"),
    [
        ([icw(10), icw(10, mss=1460), icw(10, sack=True)], "10", "A"),
        ([icw(10), icw(10), icw(10, sack=True)], "10", "B"),
        ([icw(10), icw(10, mss=1460), icw(10)], "10", "B"),
        ([icw(10), icw(10, mss=1460)], "10", "B"),
        ([icw(10, "L", proof="after-timer"), icw(10, "L", mss=1460, proof="after-timer")], ">= 10", "L"),
        ([icw(10, "L", proof="after-timer"), icw(10, "L", 1460, proof="after-timer"), icw(10, sack=True)], "10", "A"),
        ([icw(10, "L", proof="after-timer"), icw(10, sack=True)], "10", "B"),
        ([icw(9, "L", proof="after-timer"), icw(10, sack=True)], "10", "C"),
        ([icw(10), NONE], "10", "C"),
        ([icw(10), icw(9), icw(10, mss=1460)], "10", "C"),
        ([icw(4), icw(4), icw(24, sack=True)], "24", "C"),
        ([icw(3), icw(3, sack=True), icw(4, sack=True), icw(4, "L", proof="uneven")], "4", "C"),
        ([icw(1), icw(10)], "10", "C"),
        ([icw(10), icw(10), icw(12, "L", 64)], ">= 12", "L"),
        ([icw(10), icw(7, "L", 1460), icw(10, sack=True)], "10", "B"),
        ([icw(7, "L"), icw(9, "L")], ">= 9", "L"),
        ([icw(12, "L", proof="server-paced"), icw(24, "L", proof="no-round-trip")], ">= 12", "L"),
        ([icw(12), icw(12), icw(24, "L", proof="no-round-trip")], "12", "B"),
        ([icw(24, "L", proof="no-round-trip"), NONE], ">= 24", "L"),
        ([icw(12), icw(12), icw(24, "L", proof="synack-repeated")], "12", "B"),
        ([icw(24, "L", proof="synack-repeated"), NONE], ">= 24", "L"),
        ([NONE, NONE], "- (no-data)", "N"),
    ],
)
def test_icw(trials: list[Observation], text: str, grade: str) -> None:
    verdict = merge(trials)
    assert (verdict.text, verdict.grade) == (text, grade)
    assert verdict.trials == tuple(trials)


@pytest.mark.parametrize(
    ("reasons", "named"),
    [
        (("no-synack", "no-synack", "refused"), "refused"),
        (("no-data", "no-synack", "no-data"), "no-data"),
        (("tls:not-tls", "not-h2", "not-h2", "closed"), "not-h2"),
    ],
)
def test_of_several_failures_the_servers_own_is_named(reasons: tuple[str, ...], named: str) -> None:
    assert merge([Observation("icw", None, reason) for reason in reasons]).reason == named


@pytest.mark.parametrize(
    ("readings", "value", "grade"),
    [
        ([1.02, 1.0], 1.0, "B"),
        ([1.02, 1.0, 1.1], 1.0, "A"),
        ([1.0, 3.0], 1.0, "C"),
        ([1.0, 3.0, 1.05], 1.0, "B"),
        ([1.0, 3.0, 3.1], 1.0, "C"),
        ([1.0, 3.0, 1.05, 1.1, 1.02], 1.0, "B"),
        ([1.0], 1.0, "C"),
    ],
)
def test_seconds(readings: list[float], value: float, grade: str) -> None:
    """A lost copy lengthens: longer readings are outvoted, shown, and keep A away."""
    verdict = merge([rto(t) for t in readings])
    assert (verdict.value, verdict.grade) == (value, grade)
    assert (verdict.detail("seen") is not None) == (max(readings) > 1.125 or grade == "C")


@given(
    st.floats(0.05, 10),
    st.lists(st.floats(1.0, 1.12), min_size=2, max_size=4),
    st.lists(st.floats(1.5, 40), max_size=6),
    st.randoms(use_true_random=False),
)
def test_lost_copies_make_no_other_timer(
    true: float, near: list[float], longer: list[float], order: random.Random
) -> None:
    """However many readings were lengthened, a verdict at A or B is one of those that were not."""
    trials = [rto(true * factor) for factor in (*near, *longer)]
    order.shuffle(trials)
    verdict = merge(trials)
    assert verdict.value == true * min(near)
    assert verdict.grade == ("C" if len(longer) >= len(near) else "B" if longer or len(near) < 3 else "A")


def test_retries_take_the_largest_count() -> None:
    runs = [Observation("synack_retries", n, None, "", "", "C") for n in (4, 5)]
    assert (merge(runs).value, merge(runs).grade) == (5, "C")


def test_a_disagreement_is_shown() -> None:
    assert merge([icw(10), icw(4), icw(10)]).detail("seen") == ("10", "4")


def test_what_several_trials_show_together_stands_beside_the_merged() -> None:
    def widest(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
        found = trials.get("icw", ())
        return over("icw_span", found, len({t.value for t in found}), "B") if len(found) > 1 else None

    rules = (*RULES, GradeRule(("icw_span",), agree, "never", across=widest))
    verdicts = merge_all([icw(10), icw(4), rto(1.0)], rules)
    assert [name for name in verdicts if name != "load_balancing"] == ["data_rto", "icw", "icw_span"]
    assert (verdicts["icw_span"].value, verdicts["icw_span"].grade, len(verdicts["icw_span"].trials)) == (2, "B", 2)
    assert "icw_span" not in merge_all([icw(10)], rules)


@pytest.mark.parametrize(
    ("values", "text", "grade"),
    [
        (["on"], "- (unclear:alone)", "N"),
        (["on", None], "- (unclear:alone)", "N"),
        (["on", "off"], "- (unclear:alone)", "N"),
        (["on", "on"], "on", "B"),
        (["off", "on", "off"], "off", "C"),
        (["off", "off", "off"], "off", "A"),
    ],
)
def test_one_silence_alone_shows_nothing(values: list[str | None], text: str, grade: str) -> None:
    trials = [
        Observation("slow_start_after_idle", value, None if value else "unclear:no-growth", grade="C" if value else "N")
        for value in values
    ]
    verdict = merge_all(trials)["slow_start_after_idle"]
    assert (verdict.text, verdict.grade, len(verdict.trials)) == (text, grade, len(values))
