# SPDX-License-Identifier: MIT
"""When outcomes are looked at again, and what each look may use."""

from __future__ import annotations

import pytest

from configtron.learner import interim


def test_looks_are_at_doubled_numbers() -> None:
    at = [n for n in range(1000, 400_000, 1000) if interim.share(n)]
    assert at == [10_000, 20_000, 40_000, 80_000, 160_000, 320_000]
    assert interim.share(0) == interim.share(30_000) == interim.share(19_999) == 0.0
    for n in (0, 1, 9_999, 10_000, 10_001, 39_999, 160_000):
        assert interim.share(n + interim.left(n)) and interim.left(n) > 0
        assert not any(interim.share(n + more) for more in range(1, interim.left(n), 997))


def test_all_looks_together_use_what_one_may() -> None:
    every = [interim.share(interim.FIRST * 2**at) for at in range(40)]
    assert every == sorted(every, reverse=True) and sum(every) < interim.FALSE_ALARM
    assert sum(every) == pytest.approx(interim.FALSE_ALARM, rel=0.03)
