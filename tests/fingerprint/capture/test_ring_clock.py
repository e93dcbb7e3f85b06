# SPDX-License-Identifier: MIT
"""Stamps of a ring's frames around a step of the wall clock."""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.capture.ring import Ring
from tests.test_clock import MS, Host, S


def ring_of(host: Host) -> Ring:
    """A ring without a socket: what turns stamps into times."""
    ring = object.__new__(Ring)
    ring.dropped = ring.unsure = 0
    ring._clock, ring._empty_ns = host.clock, host.clock.now_ns()
    return ring


def test_stamps_of_a_block_that_a_step_cuts_are_put_right() -> None:
    for step_ns in (-3600 * S, S):
        host = Host()
        ring, stamps = ring_of(host), []
        for n in range(6):
            host.at_ns += 20 * MS
            stamps.append(host.stamp())
            host.offset_ns += step_ns if n == 2 else 0
        found = ring._steady(np.array([stamp for stamp, _ in stamps], np.int64))
        assert np.abs(found - np.array([at for _, at in stamps])).max() < 2_000
        assert ring.unsure == 0


def test_stamps_that_fit_both_clocks_are_counted() -> None:
    host = Host()
    ring = ring_of(host)
    host.at_ns += 100 * MS
    stamp, _ = host.stamp()
    host.offset_ns += 10 * MS
    host.at_ns += 100 * MS
    ring._steady(np.array([stamp], np.int64))
    assert ring.unsure == 1
