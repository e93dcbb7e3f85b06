# SPDX-License-Identifier: MIT
"""Dead knobs: identical to the bit or not, how far, and where."""

from __future__ import annotations

import pytest

from configtron.lab.testbed.differential import KnobCertificate, certify
from configtron.model.errors import BadInput

FIRST = {"a": [0.1, 2.0], "b": [0.5, 1.0], "c": [1.0]}


def test_what_changes_nothing_is_dead() -> None:
    seen = certify("tcp_low_latency", (0, 1), FIRST, {cell: list(moments) for cell, moments in FIRST.items()})
    assert seen == KnobCertificate("tcp_low_latency", (0, 1), 3, 3, 0.0, "") and seen.is_dead
    assert str(seen) == "tcp_low_latency 0 or 1: 3 of 3 cells identical"


def test_the_smallest_difference_is_none_to_overlook() -> None:
    seen = certify("k", (0, 1), FIRST, FIRST | {"b": [0.5, 1.03], "c": [1.0 + 1e-9]})
    assert (seen.identical, seen.where, seen.is_dead) == (1, "b", False)
    assert seen.largest == pytest.approx(0.03) and "up to 3.00 % (b)" in str(seen)
    # the end is the same, and yet something happened
    moved = certify("k", (0, 1), FIRST, FIRST | {"a": [0.2, 2.0]})
    assert (moved.identical, moved.largest, moved.is_dead) == (2, 0.0, False)


@pytest.mark.parametrize("second", [{}, {"a": [1.0]}, FIRST | {"d": [1.0]}, FIRST | {"a": []}])
def test_other_cells_are_no_comparison(second: dict[str, list[float]]) -> None:
    with pytest.raises(BadInput):
        certify("k", (0, 1), FIRST, second)


def test_nothing_is_no_proof() -> None:
    with pytest.raises(BadInput):
        certify("k", (0, 1), {}, {})
