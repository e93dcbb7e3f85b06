# SPDX-License-Identifier: MIT
"""When outcomes are looked at again, and what each look may use."""

from __future__ import annotations

import pytest

from configtron.learner import looks


def test_looks_are_at_doubled_numbers() -> None:
    at = [n for n in range(1000, 400_000, 1000) if looks.share(n)]
    assert at == [10_000, 20_000, 40_000, 80_000, 160_000, 320_000]
    assert looks.share(0) == looks.share(30_000) == looks.share(19_999) == 0.0
    for n in (0, 1, 9_999, 10_000, 10_001, 39_999, 160_000):
        assert looks.share(n + looks.left(n)) and looks.left(n) > 0
        assert not any(looks.share(n + more) for more in range(1, looks.left(n), 997))


def test_all_looks_together_use_what_one_may() -> None:
    every = [looks.share(looks.FIRST * 2**at) for at in range(40)]
    assert every == sorted(every, reverse=True) and sum(every) < looks.FALSE_ALARM
    assert sum(every) == pytest.approx(looks.FALSE_ALARM, rel=0.03)
