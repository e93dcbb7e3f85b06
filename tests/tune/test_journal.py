# SPDX-License-Identifier: MIT
"""What is due to an act that was left behind: every status, before and after its lease, before and after a reboot."""

from __future__ import annotations

import pytest

from configtron.model.tuning import Place, Rules
from configtron.tune.journal import (
    BEGUN,
    FORGET,
    GUARD,
    KEPT,
    LEASED,
    NOTHING,
    OPEN,
    REPLACED,
    UNDO,
    UNDOING,
    UNDONE,
    WRITING,
    Transaction,
    due,
)


@pytest.mark.parametrize(
    ("status", "in_time", "expired"),
    [(BEGUN, FORGET, FORGET), (WRITING, UNDO, UNDO), (LEASED, GUARD, UNDO), (UNDOING, UNDO, UNDO),
     *((over, NOTHING, NOTHING) for over in (KEPT, UNDONE, REPLACED))],
)  # fmt: skip
def test_due(status: str, in_time: str, expired: str) -> None:
    assert due(status, rebooted=False, expired=False) == in_time
    assert due(status, rebooted=False, expired=True) == expired
    # The kernel that it was set in is gone, and so is all of it.
    assert due(status, rebooted=True, expired=False) == (FORGET if status in OPEN else NOTHING)


def test_an_act_that_is_over_keeps_no_rules() -> None:
    rules = Rules({}, {"10.0.0.0/8": "web"})
    act = Transaction("route", Place(), "", "boot", LEASED, "{}", rules, id=3, watchdog="1 2")
    over = act.closed(UNDONE, "lease ended")
    assert (over.id, over.status, over.why) == (3, UNDONE, "lease ended")
    assert (over.rules, over.before, over.watchdog) == (Rules(), "", "")
