# SPDX-License-Identifier: MIT
"""The compact set holds what Python's holds, in a quarter of its memory."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from configtron.probe.hash_set import FIRST_SLOTS, HashSet

DIGESTS = st.integers(0, 2**64 - 2)


@given(st.lists(DIGESTS | st.integers(0, 7).map(lambda n: n * FIRST_SLOTS)), st.lists(DIGESTS))
def test_it_holds_what_was_added_and_nothing_else(added: list[int], others: list[int]) -> None:
    found = HashSet()
    for number in added:
        found.add(number)
    assert len(found) == len(set(added))
    assert all(number in found for number in added)
    assert [number in found for number in others] == [number in set(added) for number in others]


def test_it_grows_and_takes_at_most_24_bytes_a_number() -> None:
    tracemalloc.start()
    try:
        found = HashSet()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(20_000):
            found.add(number * 0x9E3779B97F4A7C15 % 2**64)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(found) == 20_000 and taken <= 24 * 20_000
    assert all(number * 0x9E3779B97F4A7C15 % 2**64 in found for number in range(20_000))
