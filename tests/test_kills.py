"""A campaign that is killed and resumed measures every target once and leaves nothing behind."""

from __future__ import annotations

import pytest

from benchmarks import kills


@pytest.mark.root
def test_three_kills() -> None:
    assert kills.main(3) == 0
