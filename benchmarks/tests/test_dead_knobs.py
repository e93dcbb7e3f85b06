# SPDX-License-Identifier: MIT
"""A certificate that is other than claimed is reported."""

from __future__ import annotations

from benchmarks.dead_knobs import wrong
from configtron.lab.testbed.differential import KnobCertificate


def test_the_claim_can_fail() -> None:
    dead, alive = KnobCertificate("k", (0, 1), 10, 10, 0.0, ""), KnobCertificate("k", (0, 1), 10, 9, 0.1, "x")
    names = ("again", "tcp_low_latency", "tcp_low_latency after a pause", "tcp_slow_start_after_idle")
    good = dict.fromkeys(names, dead) | {"tcp_slow_start_after_idle after a pause": alive}
    assert wrong(good) == []
    for name in good:
        assert len(wrong(good | {name: alive if good[name] is dead else dead})) == 1
