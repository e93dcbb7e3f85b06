# SPDX-License-Identifier: MIT
"""The arithmetic of benchmarks.browser, by hand."""

from __future__ import annotations

import pytest

from benchmarks.browser import Cell, ranks, regret, spearman


def cell(name: str, ours: float, theirs: float) -> Cell:
    return Cell("c", "p", name, ours, theirs, ())


def test_spearman_and_regret() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]
    cells = [cell("a", 1, 110), cell("b", 2, 100), cell("c", 3, 300)]
    # two of three pairs agree: 1 - 6 * (1 + 1) / (3 * 8)
    assert spearman(cells) == pytest.approx(0.5)
    assert regret(cells) == pytest.approx(0.1)
