# SPDX-License-Identifier: MIT
"""Figures out of made logs whose answers are known by hand: a delay, a loss, wraps, logs that do not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.lab.testbed.tap import PACKET, Seen
from configtron.lab.testbed.transits import SILENT, flow_metrics, transits, unwrapped
from configtron.model.errors import Mismatch

SECOND_NS = 1_000_000_000


def log(count: int, gap_ns: int = 1_000_000, first: int = 65_000, length: int = 1500) -> Seen:
    """Packets sent evenly, numbered from `first` on, around the end of sixteen bits."""
    found = np.zeros(count, PACKET)
    found["at_ns"] = SECOND_NS + np.arange(count) * gap_ns
    found["number"] = (first + np.arange(count)) % 65536
    found["sequence"] = 1448 * np.arange(count) % 2**32
    found["length"] = length
    found["payload"] = length - 52
    return found


def later(sent: Seen, by_ns: int) -> Seen:
    arrived = sent.copy()
    arrived["at_ns"] += by_ns
    return arrived


def test_a_known_delay_and_rate() -> None:
    sent = log(1000)
    found = flow_metrics(transits(sent, later(sent, 28_000_000)), SECOND_NS, 2 * SECOND_NS)
    assert found.late_ms == 28.0 and found.loss == 0.0 and found.sent == 1000
    # what arrived within the second: 1000 packets less the 28 that were under way at its end
    assert found.bytes == 972 * 1500 and found.mbit == pytest.approx(972 * 1500 * 8 / 1e6)
    assert found.power == pytest.approx(math.log(found.mbit / 28))


def test_the_delay_is_the_95th_percentile() -> None:
    sent = log(100)
    arrived = later(sent, 10_000_000)
    arrived["at_ns"][90:] += 90_000_000
    assert flow_metrics(transits(sent, arrived), SECOND_NS, 2 * SECOND_NS).late_ms == 100.0
    arrived = later(sent, 10_000_000)
    arrived["at_ns"][97:] += 90_000_000
    assert flow_metrics(transits(sent, arrived), SECOND_NS, 2 * SECOND_NS).late_ms == 10.0


def test_a_known_loss() -> None:
    sent = log(2000)
    found = transits(sent, later(sent, 5_000_000)[np.arange(2000) % 20 != 7])
    assert flow_metrics(found, 0, 10 * SECOND_NS).loss == pytest.approx(0.05)
    assert (~found.arrived).nonzero()[0].tolist() == list(range(7, 2000, 20))


def test_only_the_time_counted_counts() -> None:
    sent = log(3000)
    arrived = later(sent, 1_000_000)
    arrived["at_ns"][:1000] += 400_000_000
    found = flow_metrics(transits(sent, arrived), 2 * SECOND_NS, 4 * SECOND_NS)
    assert found.late_ms == 1.0 and found.sent == 2000
    # and what arrives in it belongs to it, whenever it was sent
    assert found.bytes == (2000 - 1 + 401) * 1500


def test_a_flow_without_an_arrival_says_so() -> None:
    nothing = flow_metrics(transits(log(10), log(0)), 0, 2 * SECOND_NS)
    assert nothing.reason == SILENT and nothing.loss == 1.0
    assert math.isnan(nothing.late_ms) and math.isnan(nothing.power)
    assert flow_metrics(transits(log(0), log(0)), 0, SECOND_NS).reason == SILENT


def test_logs_of_two_flows_do_not_match() -> None:
    sent = log(100)
    other = later(sent, 1000)
    other["sequence"] += 1
    for wrong in (other, later(log(100, first=64_990), 1000), later(log(101), 1000)):
        with pytest.raises(Mismatch):
            transits(sent, wrong)
    with pytest.raises(Mismatch):
        transits(log(0), sent)


@given(st.integers(0, 65535), st.lists(st.integers(1, 30_000), max_size=50))
def test_numbers_are_counted_on(first: int, steps: list[int]) -> None:
    counted = np.cumsum([first, *steps])
    assert (unwrapped((counted % 65536).astype(np.uint16)) == counted - first).all()


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(0, 65535), st.integers(1, 10**9))
def test_whatever_is_lost_the_rest_is_matched(kept: list[bool], first: int, delay_ns: int) -> None:
    sent = log(len(kept), first=first)
    found = transits(sent, later(sent, delay_ns)[np.array(kept)])
    assert found.arrived.tolist() == kept
    assert ((found.arrived_ns - found.sent_ns)[found.arrived] == delay_ns).all()
