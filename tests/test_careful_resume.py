# SPDX-License-Identifier: MIT
"""The phases of Careful Resume, step by step as RFC 9959 has them. The kernel's are beside them in a lab test."""

from __future__ import annotations

import pytest

from configtron.model.careful_resume import (
    NO_CHANGE,
    NORMAL,
    RECONNAISSANCE,
    RETREAT,
    UNVALIDATED,
    VALIDATING,
    Acknowledged,
    ResumeChange,
    Resumption,
    SavedPath,
)

SAVED = SavedPath(400, 0.1)
# The initial window has just been acknowledged: twice as much is under way.
READY = Acknowledged(0.1, 10, 10, 10, 30, 20, 20, True, True, 0.1, 0.1)


def jumped(saved: SavedPath = SAVED) -> Resumption:
    model = Resumption(saved)
    assert model.acked(READY) == ResumeChange(window=saved.window // 2, rate=saved.window / 2 / 0.1)
    assert model.phase == UNVALIDATED and not model.grows
    return model


def test_half_of_the_window_after_the_initial_one_was_acknowledged() -> None:
    model = Resumption(SAVED)
    assert model.acked(READY._replace(delivered=9)) == NO_CHANGE and model.phase == RECONNAISSANCE
    assert model.acked(READY).window == 200


def test_the_jump_waits_for_data() -> None:
    model = Resumption(SAVED)
    assert model.acked(READY._replace(unsent=False)) == NO_CHANGE and model.phase == RECONNAISSANCE
    assert model.acked(READY).window == 200


def test_the_largest_window_that_may_be_bounds_the_jump() -> None:
    assert Resumption(SAVED).acked(READY._replace(clamp=60)) == ResumeChange(window=60, rate=pytest.approx(600))


@pytest.mark.parametrize(
    ("rtt_s", "jumps"), [(0.05, False), (0.051, True), (0.1, True), (1.0, True), (1.001, False), (0.001, False)]
)
def test_round_trips_over_half_and_to_ten_times_are_the_same_path(rtt_s: float, jumps: bool) -> None:
    model = Resumption(SAVED)
    model.acked(READY._replace(min_rtt_s=rtt_s))
    assert (model.jumped, model.phase) == ((True, UNVALIDATED) if jumps else (False, NORMAL))


@pytest.mark.parametrize("seen", [READY._replace(slow_start=False), READY._replace(window=200)])
def test_no_jump_once_slow_start_has_ended_or_the_window_is_there(seen: Acknowledged) -> None:
    model = Resumption(SAVED)
    assert model.acked(seen) == NO_CHANGE and model.phase == NORMAL


def test_congestion_in_reconnaissance_ends_it() -> None:
    model = Resumption(SAVED)
    assert model.congested(READY) == NO_CHANGE
    assert model.acked(READY) == NO_CHANGE and model.phase == NORMAL and not model.retreated


@pytest.mark.parametrize(
    "ended",
    [
        READY._replace(now_s=0.2, delivered=31, una=31, nxt=210, in_flight=180, window=200),
        READY._replace(now_s=0.15, delivered=20, una=20, nxt=220, in_flight=200, window=200),
        READY._replace(now_s=0.201, delivered=28, una=28, nxt=200, in_flight=172, window=200),
    ],
)
def test_the_first_acknowledgement_a_full_window_or_a_round_trip_ends_the_jump(ended: Acknowledged) -> None:
    model = jumped()
    assert model.acked(ended) == ResumeChange(window=ended.in_flight, rate=0.0)
    assert model.phase == VALIDATING and model.grows
    last = ended._replace(una=ended.nxt, highest=ended.nxt, delivered=ended.nxt)
    assert model.acked(last._replace(una=ended.nxt - 1)) == NO_CHANGE and model.phase == VALIDATING
    assert model.acked(last) == NO_CHANGE and (model.phase, model.validated) == (NORMAL, True)


def test_during_the_jump_nothing_changes() -> None:
    model = jumped()
    during = READY._replace(now_s=0.15, delivered=20, una=20, nxt=110, in_flight=90, window=200)
    assert model.acked(during) == NO_CHANGE and model.phase == UNVALIDATED


def test_less_sent_than_the_pipe_has_is_no_validation() -> None:
    """In flight at the jump 20, delivered since 21: the pipe is 41."""
    model = jumped()
    sparse = READY._replace(now_s=0.2, delivered=31, una=31, nxt=45, in_flight=14, window=200)
    assert model.acked(sparse) == ResumeChange(window=41, rate=0.0)
    assert (model.phase, model.validated, model.jumped) == (NORMAL, False, True)


def test_a_loss_in_the_jump_leaves_half_of_the_pipe() -> None:
    """In flight at the jump 20, delivered since 10: 30; the jump's last is segment 129; then 90 more are delivered."""
    model = jumped()
    lossy = READY._replace(now_s=0.15, delivered=20, una=20, nxt=130, in_flight=100, window=200)
    assert model.congested(lossy) == ResumeChange(window=15, threshold=15, rate=0.0)
    assert model.phase == RETREAT and not model.grows
    assert model.congested(lossy) == NO_CHANGE and model.phase == RETREAT
    later = lossy._replace(delivered=109, highest=129)
    assert model.acked(later) == NO_CHANGE
    assert model.acked(later._replace(delivered=110, highest=130)) == ResumeChange(threshold=60)
    assert (model.phase, model.retreated, model.validated) == (NORMAL, True, False)


def test_a_timeout_ends_the_retreat() -> None:
    """Else the window would stay at one segment until all of the jump was sent again."""
    model = jumped()
    lossy = READY._replace(now_s=0.5, delivered=20, una=20, nxt=130, in_flight=0, window=200)
    assert model.congested(lossy).threshold == 15 and not model.grows
    model.timed_out()
    assert model.grows and (model.phase, model.retreated) == (NORMAL, True)
    assert model.acked(lossy._replace(highest=130)) == NO_CHANGE


def test_a_loss_while_validating_keeps_the_pace_as_it_is() -> None:
    model = jumped()
    model.acked(READY._replace(now_s=0.2, delivered=31, una=31, nxt=210, in_flight=180, window=200))
    found = model.congested(READY._replace(now_s=0.22, delivered=51, una=51, nxt=230, in_flight=180, window=180))
    assert found == ResumeChange(window=30, threshold=30) and model.phase == RETREAT
