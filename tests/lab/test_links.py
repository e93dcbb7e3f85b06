# SPDX-License-Identifier: MIT
"""What netem is given: which share of packets is late, and by how much."""

from __future__ import annotations

import pytest

from configtron.lab.internet import draw as internet
from configtron.lab.internet import truth
from configtron.lab.internet.links import DIST_ENTRIES, NETEM_DIST_SCALE, REORDERED_LATE_MS, late_shares


@pytest.mark.parametrize("percent", [0.01, 1, 5, 50])
def test_what_is_reordered_is_late_and_nothing_is_early(percent: float) -> None:
    delays_ms = [share / NETEM_DIST_SCALE * REORDERED_LATE_MS for share in late_shares(percent)]
    late = [delay for delay in delays_ms if delay]
    assert len(delays_ms) == DIST_ENTRIES and len(late) == round(DIST_ENTRIES * percent / 100)
    assert min(delays_ms) == 0 and min(late) >= 2.5 and max(late) <= REORDERED_LATE_MS


def test_a_late_handshake_lengthens_the_data_timer_and_its_truth() -> None:
    plain, late = (internet.draw(3, ["a.example"], reorder_percent=percent) for percent in (0.0, 5.0))
    (rtt_s,) = (region.rtt_ms / 1000 for region in plain.regions if region.name == "au")
    longest_s = 3 * (rtt_s + 2 * REORDERED_LATE_MS / 1000)
    assert truth.oracle(late, "au", "a.example")["data_rto"].admits(longest_s)
    assert not truth.oracle(plain, "au", "a.example")["data_rto"].admits(longest_s + 0.1)
    assert truth.from_json(truth.to_json(late)) == late
