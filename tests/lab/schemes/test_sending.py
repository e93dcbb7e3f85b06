# SPDX-License-Identifier: MIT
"""The sender of datagrams: windows, pacing, what counts as lost, on moments given by hand."""

from __future__ import annotations

from math import inf

import pytest

from configtron.lab.schemes.measured_rtt import FIRST_TIMEOUT_S, SmoothedRtt, WindowedMinimum
from configtron.lab.schemes.scheme import PACKET_BYTES, TICK_S, SendingLimit
from configtron.lab.schemes.sending import CATCH_UP_S, DatagramSender
from tests.support.scripted_path import ScriptedPath, Starting, run


class Fixed:
    """Always the same allowance; remembers what it was called with."""

    def __init__(self, packets: float = inf, rate: float = inf) -> None:
        self.allowance = SendingLimit(packets * PACKET_BYTES, rate)
        self.acks: list[tuple[float, float, int, int]] = []
        self.losses: list[tuple[float, int]] = []

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        self.acks.append((now, rtt, delivered, bytes))

    def on_loss(self, now: float, n: int) -> None:
        self.losses.append((now, n))

    def on_tick(self, now: float) -> SendingLimit:
        return self.allowance


def started(scheme: Fixed, packets: int) -> DatagramSender:
    """A sender that has sent so many at moment 0."""
    sender = DatagramSender(scheme)
    sender.wake(0.0)
    assert [sender.send(0.0) for _ in range(packets)] == list(range(packets))
    return sender


def test_a_window_is_filled_and_no_more() -> None:
    sender = started(Fixed(packets=3), 3)
    assert sender.due(0.0) == inf
    sender.acknowledge(0.1, 0, 0.0)
    assert sender.due(0.1) <= 0.1


def test_one_packet_is_always_allowed() -> None:
    sender = started(Fixed(packets=0.5), 0)
    assert sender.due(0.0) <= 0.0
    sender.send(0.0)
    assert sender.due(0.0) == inf


def test_packets_are_paced_and_lateness_is_caught_up_to_a_limit() -> None:
    sender = started(Fixed(rate=PACKET_BYTES / 0.01), 0)
    sender.send(5.0)
    first = sender.due(5.0)
    assert first == pytest.approx(5.0 - CATCH_UP_S + 0.01)
    # late by less than the limit: the next one keeps its time
    sender.send(first + CATCH_UP_S / 2)
    assert sender.due(first) == pytest.approx(first + 0.01)
    # late by a second: only the limit is made good
    sender.send(first + 1)
    assert sender.due(first + 1) == pytest.approx(first + 1 - CATCH_UP_S + 0.01)


def test_the_third_packet_after_it_makes_a_loss() -> None:
    """RFC 9002: sent kPacketThreshold, three, packets before an acknowledged one."""
    scheme = Fixed()
    sender = started(scheme, 6)
    for number in (1, 2):
        sender.acknowledge(0.1, number, 0.0)
        assert scheme.losses == []
    sender.acknowledge(0.2, 3, 0.0)
    assert scheme.losses == [(0.2, 1)] and sender.lost == 1
    # it comes after all, too late to count
    sender.acknowledge(0.3, 0, 0.0)
    assert sender.delivered == 3 * PACKET_BYTES == scheme.acks[-1][2] and len(scheme.acks) == 3
    assert scheme.acks[0] == (0.1, 0.1, PACKET_BYTES, PACKET_BYTES)


def test_an_acknowledgement_twice_counts_once() -> None:
    scheme = Fixed()
    sender = started(scheme, 3)
    for _ in range(2):
        sender.acknowledge(0.1, 1, 0.0)
    assert len(scheme.acks) == 1 and sender.delivered == PACKET_BYTES


def test_silence_gives_up_what_is_under_way_and_waits_twice_as_long() -> None:
    scheme = Fixed(packets=4)
    sender = started(scheme, 4)
    assert sender.wake_by == TICK_S
    sender.wake(FIRST_TIMEOUT_S - 0.01)
    assert scheme.losses == []
    sender.wake(FIRST_TIMEOUT_S)
    assert scheme.losses == [(FIRST_TIMEOUT_S, 4)]
    sender.send(FIRST_TIMEOUT_S)
    sender.wake(2.5 * FIRST_TIMEOUT_S)
    assert len(scheme.losses) == 1
    sender.wake(3 * FIRST_TIMEOUT_S)
    assert scheme.losses[-1] == (3.0, 1)


def test_round_trip_times_are_smoothed_as_tcp_does() -> None:
    rtt = SmoothedRtt()
    rtt.add(0.1)
    assert (rtt.smoothed_s, rtt.timeout_s) == (0.1, pytest.approx(0.3))
    rtt.add(0.18)
    assert rtt.smoothed_s == pytest.approx(0.11) and rtt.least_s == 0.1
    assert rtt.timeout_s == pytest.approx(0.11 + 4 * (0.75 * 0.05 + 0.25 * 0.08))


def test_the_least_of_a_window_is_forgotten_after_it() -> None:
    least = WindowedMinimum(1.0)
    assert [least.add(at, value) for at, value in ((0, 3), (0.5, 1), (1.2, 2), (1.6, 4), (2.3, 5))] == [3, 1, 1, 2, 4]


# The path itself, which other tests rest on: a window's rate and round trip are known.
def test_a_fixed_window_gets_what_a_window_gives() -> None:
    path = ScriptedPath(8.0, 0.05, 100)
    # 1.5 ms a packet and 100 ms: 67.7 packets fill the path
    half = run(path, [Starting(Fixed(packets=30))], 6.0)[0].between(2, 6)
    assert half.mbit == pytest.approx(30 * 12e-3 / 0.1015, rel=0.01) and half.queueing_s < 0.05
    over = run(path, [Starting(Fixed(packets=100))], 6.0)[0].between(2, 6)
    assert over.mbit == pytest.approx(8.0, rel=0.01) and over.queueing_s == pytest.approx(
        (100 - 67.67) * 1.5e-3, rel=0.02
    )


def test_a_pacing_rate_is_the_rate_and_what_is_over_is_lost() -> None:
    path = ScriptedPath(8.0, 0.05, 20)
    half, over = (run(path, [Starting(Fixed(rate=rate * 1.25e5))], 6.0)[0].between(2, 6) for rate in (4, 10))
    assert (half.mbit, half.loss) == (pytest.approx(4.0, rel=0.01), 0.0)
    assert (over.mbit, over.loss) == (pytest.approx(8.0, rel=0.01), pytest.approx(0.2, abs=0.01))
    assert over.queueing_s == pytest.approx(20 * 1.5e-3, rel=0.1)


def test_a_script_changes_the_rate_and_loses_by_number() -> None:
    path = ScriptedPath(lambda at: 8.0 if at < 3 else 2.0, 0.01, 50, lambda number, _: number % 50 == 0)
    log = run(path, [Starting(Fixed(packets=20))], 6.0)[0]
    assert log.between(1, 2.9).mbit == pytest.approx(8.0, rel=0.02)
    assert log.between(3.2, 6).mbit == pytest.approx(2.0, rel=0.02)
    assert log.between(0, 6).loss == pytest.approx(0.02, abs=0.002) and 0 <= len(log.dropped_at) - log.sender.lost < 4
