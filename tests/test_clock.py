# SPDX-License-Identifier: MIT
"""The clock that no step of the wall clock moves: its own time, and the kernel's stamps around a step."""

from __future__ import annotations

import pytest

from configtron.linux.clock import GRACE_NS, SteadyClock

EPOCH, S, MS = 1_700_000_000_000_000_000, 1_000_000_000, 1_000_000


class Host:
    """Two clocks of a host: reading one takes a tenth of a microsecond, as the kernel's own do."""

    def __init__(self) -> None:
        self.at_ns, self.offset_ns = 5 * S, EPOCH
        self.clock = SteadyClock(self.monotonic_ns, self.wall_ns)

    def monotonic_ns(self) -> int:
        self.at_ns += 100
        return self.at_ns

    def wall_ns(self) -> int:
        return self.monotonic_ns() + self.offset_ns

    def stamp(self) -> tuple[int, int]:
        """A packet comes: its stamp by the wall clock, and when that was by the clock at test."""
        return self.wall_ns(), self.clock.now_ns() - 100


def near(found: int, true: int) -> bool:
    return abs(found - true) < 2_000


def test_it_shows_the_wall_clock_as_it_was_at_the_start() -> None:
    host = Host()
    assert near(host.clock.now_ns(), host.wall_ns())


@pytest.mark.parametrize("step_ns", [-3600 * S, -S, S, 3600 * S, 5 * MS])
def test_no_step_moves_it(step_ns: int) -> None:
    host = Host()
    before = host.clock.now_ns()
    host.offset_ns += step_ns
    assert host.clock.measure()
    assert 0 < host.clock.now_ns() - before < 10_000
    assert not host.clock.measure(), "one step is found once"


@pytest.mark.parametrize("step_ns", [-3600 * S, -S, S, 3600 * S])
def test_stamps_from_both_sides_of_a_step_are_put_right(step_ns: int) -> None:
    host = Host()
    empty_ns = host.clock.now_ns()
    host.at_ns += 20 * MS
    old, old_at = host.stamp()
    host.offset_ns += step_ns
    host.at_ns += 20 * MS
    new, new_at = host.stamp()
    host.clock.measure()
    for stamp, at in ((old, old_at), (new, new_at)):
        found, sure = host.clock.steady_ns(stamp, empty_ns)
        assert sure and near(found, at)


def test_a_step_while_the_batch_is_handled_reaches_the_next_batch() -> None:
    """A frame was stamped by the old clock, its batch received after the step had been measured: both offsets count."""
    host = Host()
    empty_ns = host.clock.now_ns()
    host.at_ns += 20 * MS
    waiting, at = host.stamp()
    host.offset_ns += S
    host.clock.measure()
    host.at_ns += 20 * MS
    host.clock.measure()
    found, sure = host.clock.steady_ns(waiting, empty_ns)
    assert sure and near(found, at)


def test_a_step_shorter_than_a_packet_may_have_waited_is_not_sure() -> None:
    host = Host()
    empty_ns = host.clock.now_ns()
    host.at_ns += 100 * MS
    stamp, at = host.stamp()
    host.offset_ns += 10 * MS
    host.at_ns += 100 * MS
    host.clock.measure()
    found, sure = host.clock.steady_ns(stamp, empty_ns)
    assert not sure and abs(found - at) <= 10 * MS + GRACE_NS


def test_two_steps_between_two_measurements_are_not_sure() -> None:
    host = Host()
    empty_ns = host.clock.now_ns()
    host.offset_ns += 7 * S
    stamp, _ = host.stamp()
    host.offset_ns += S
    host.clock.measure()
    found, sure = host.clock.steady_ns(stamp, empty_ns)
    assert not sure and empty_ns <= found <= host.clock.now_ns()


def test_stamps_long_after_a_step_are_sure_again() -> None:
    host = Host()
    host.offset_ns -= 10 * MS
    host.clock.measure()
    host.at_ns += S
    empty_ns = host.clock.now_ns()
    stamp, at = host.stamp()
    host.clock.measure()
    found, sure = host.clock.steady_ns(stamp, empty_ns)
    assert sure and near(found, at)


def test_an_interrupted_measurement_is_no_step() -> None:
    host = Host()
    waits = iter((0, 50 * MS, 0) * 4)

    def interrupted() -> int:
        host.at_ns += next(waits, 0)
        return host.monotonic_ns() + host.offset_ns

    host.clock._wall_ns = interrupted
    assert not host.clock.measure()
