# SPDX-License-Identifier: MIT
"""A campaign whose workers are killed: when they are killed, which calls are expected, and a small campaign."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from benchmarks import large_campaign
from benchmarks.kills import wrong_calls


@pytest.mark.root
def test_a_small_campaign_with_two_kills() -> None:
    assert large_campaign.main(300, jobs=2, kills=2, rate=1000, seed=1) == 0


def test_kills_are_drawn_by_the_seed_and_come_while_work_is_left() -> None:
    drawn = large_campaign.draw_kill_points(Random(3), 5, 1000)
    assert drawn == large_campaign.draw_kill_points(Random(3), 5, 1000) == sorted(drawn)
    assert all(50 <= finished <= 850 for finished in drawn)


def test_a_missing_and_a_doubled_call_are_wrong() -> None:
    wanted = large_campaign.expected_calls(Counter(["v/a/icw.1", "v/b/icw.1"]), "v", ["a", "b", "c"])
    assert wanted == Counter(["v/a/icw.1", "v/b/icw.1", "v/c/icw.1"])
    assert wrong_calls(wanted, wanted) == []
    assert wrong_calls(wanted - Counter(["v/c/icw.1"]), wanted) == ["v/c/icw.1"]
    assert wrong_calls(wanted + Counter(["v/a/icw.1"]), wanted) == ["v/a/icw.1"]
