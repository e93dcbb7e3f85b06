"""What netem is given: which share of packets is late, and by how much."""

from __future__ import annotations

import pytest

from configtron.lab.links import DIST_ENTRIES, NETEM_DIST_SCALE, REORDERED_LATE_MS, late_shares


@pytest.mark.parametrize("percent", [0.01, 1, 5, 50])
def test_what_is_reordered_is_late_and_nothing_is_early(percent: float) -> None:
    delays_ms = [share / NETEM_DIST_SCALE * REORDERED_LATE_MS for share in late_shares(percent)]
    late = [delay for delay in delays_ms if delay]
    assert len(delays_ms) == DIST_ENTRIES and len(late) == round(DIST_ENTRIES * percent / 100)
    assert min(delays_ms) == 0 and min(late) >= 2.5 and max(late) <= REORDERED_LATE_MS
