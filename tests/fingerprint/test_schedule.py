# SPDX-License-Identifier: MIT
"""Rows of gaps whose timer is known: what was lost on the way shows in the doubling."""

from __future__ import annotations

import pytest

from configtron.fingerprint.schedule import copies, schedule_of, spans, whole


@pytest.mark.parametrize(
    ("gaps", "first_s", "kind", "missed"),
    [
        ([1.02, 2.04, 4.2], 1.02, "exponential", 0),
        ([3.13, 4.08], 3.13 / 3, "exponential", 1),
        ([3.1, 4.1, 8.2], 3.1 / 3, "exponential", 1),
        ([1.0, 6.1, 8.2], 1.0, "exponential", 1),
        ([7.2, 8.2, 16.4], 7.2 / 7, "exponential", 2),
        ([3.0, 6.1, 12.2], 3.0, "exponential", 0),
        ([1.0, 1.0, 1.01], 1.0, "linear", 0),
        ([1.0, 1.0, 3.1, 9.0], 1.0, "irregular", 0),
        ([1.0], 1.0, "", 0),
        ([1.0, 2.05, 1.0], 1.0, "linear", 1),
        ([2.05, 1.0], 1.0, "linear", 1),
        ([1.0, 2.0, 2.05], 1.0, "linear", 2),
    ],
)
def test_lost_copies_show_in_the_doubling(gaps: list[float], first_s: float, kind: str, missed: int) -> None:
    schedule = schedule_of(gaps)
    assert (schedule.first_s, schedule.kind, schedule.missed) == (pytest.approx(first_s), kind, missed)


def test_a_wait_begun_anew_shows_what_a_single_gap_spans() -> None:
    """After one gap and a lost copy, the next wait is four times the base; more copies in the gap make it less."""
    assert schedule_of([1.0], [4.1, 8.1])[:3] == (1.0, "exponential", 0)
    assert schedule_of([3.1], [8.2])[:3] == (pytest.approx(3.1 / 3), "exponential", 1)
    assert schedule_of([1.0], [1.05])[:3] == (1.0, "linear", 0)
    assert schedule_of([1.0], [1.7]).kind == ""


def test_what_came_a_timer_late_was_a_copy() -> None:
    doubling = schedule_of([2.0, 4.0])
    assert whole(doubling, 0.1) == (doubling, True)
    assert whole(doubling, 1.05) == (doubling._replace(first_s=1.0, missed=1), True)
    assert whole(doubling, 1.5) == (doubling._replace(first_s=0.5, missed=2), True)
    assert whole(doubling, 5.0) == (doubling, False)
    assert whole(schedule_of([1.0, 1.0]), 2.0)[0].missed == 2


def test_copies_are_counted_by_the_clock() -> None:
    assert [copies(1.0, "exponential", s) for s in (0.0, 1.05, 3.2, 7.3, 15.9, 33.0)] == [0, 1, 2, 3, 4, 5]
    assert copies(1.0, "linear", 4.2) == 4
    assert copies(1.0, "exponential", 1.0, (4.1, 8.4)) == 4
    # one more was lost within the last gap: 4 + 8 s
    assert copies(1.0, "exponential", 1.0, (12.5,)) == 4
    # the base fired late, the wait after the echo did not
    assert copies(1.0517, "exponential", 1.0517, (4.0237,)) == 3


def test_gaps_that_lost_copies_explain() -> None:
    assert all(spans(gap, 1.0) for gap in (2.0, 3.1, 4.0, 6.3, 7.0, 8.5))
    assert not spans(1.5, 1.0) and not spans(5.2, 1.0)
