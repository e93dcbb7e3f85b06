# SPDX-License-Identifier: MIT
"""A campaign whose workers are killed: moments by the seed, calls expected of each target, and a small one of it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from benchmarks import large_campaign
from benchmarks.kills import wrong_calls


@pytest.mark.root
def test_a_small_campaign_with_two_kills() -> None:
    assert large_campaign.main(300, jobs=2, kills=2, rate=1000, seed=1) == 0


def test_moments_are_the_seeds_and_while_work_is_left() -> None:
    drawn = large_campaign.moments(Random(3), 5, 1000)
    assert drawn == large_campaign.moments(Random(3), 5, 1000) == sorted(drawn)
    assert all(50 <= moment <= 850 for moment in drawn)


def test_a_missing_and_a_doubled_call_are_wrong() -> None:
    wanted = large_campaign.expected(Counter(["v/a/icw.1", "v/b/icw.1"]), "v", ["a", "b", "c"])
    assert wanted == Counter(["v/a/icw.1", "v/b/icw.1", "v/c/icw.1"])
    assert wrong_calls(wanted, wanted) == []
    assert wrong_calls(wanted - Counter(["v/c/icw.1"]), wanted) == ["v/c/icw.1"]
    assert wrong_calls(wanted + Counter(["v/a/icw.1"]), wanted) == ["v/a/icw.1"]
