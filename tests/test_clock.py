# SPDX-License-Identifier: MIT
"""The clock that no step of the wall clock moves: its own time, and the kernel's stamps around a step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from configtron.linux.clock import GRACE_NS, SteadyClock

EPOCH, S, MS = 1_700_000_000_000_000_000, 1_000_000_000, 1_000_000
NEAR_NS = 2_000


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


def test_it_shows_the_wall_clock_as_it_was_at_the_start() -> None:
    host = Host()
    assert abs(host.clock.now_ns() - host.wall_ns()) < NEAR_NS


@pytest.mark.parametrize("step_ns", [-3600 * S, -S, S, 3600 * S, 5 * MS])
def test_no_step_moves_it(step_ns: int) -> None:
    host = Host()
    before = host.clock.now_ns()
    host.offset_ns += step_ns
    assert host.clock.measure()
    assert 0 < host.clock.now_ns() - before < 10_000
    assert not host.clock.measure(), "one step is found once"


def stamped(acts: str) -> Iterator[tuple[int, bool, int]]:
    """Yield how the stamp of each packet is read (time, whether that is sure), and its true time, after these acts."""
    host, empty_ns, stamps = Host(), 0, []
    for act in acts.split():
        name, _, ms = act.partition(":")
        if name == "empty":
            empty_ns = host.clock.now_ns()
        elif name == "packet":
            stamps.append(host.stamp())
        elif name == "wait":
            host.at_ns += int(ms) * MS
        elif name == "step":
            host.offset_ns += int(ms) * MS
        else:
            host.clock.measure()
    yield from ((*host.clock.steady_ns(stamp, empty_ns), at) for stamp, at in stamps)


@pytest.mark.parametrize(
    ("acts", "sure", "within_ns"),
    [
        # from both sides of a step
        *((f"empty wait:20 packet step:{s}000 wait:20 packet measure", True, NEAR_NS) for s in (-3600, -1, 1, 3600)),
        # stamped by the old clock, its batch received after the step had been measured: both offsets count
        ("empty wait:20 packet step:1000 measure wait:20 measure", True, NEAR_NS),
        # a step shorter than a packet may have waited
        ("empty wait:100 packet step:10 wait:100 measure", False, 10 * MS + GRACE_NS),
        # two steps between two measurements
        ("empty step:7000 packet step:1000 measure", False, NEAR_NS),
        # long after a step
        ("step:-10 measure wait:1000 empty packet measure", True, NEAR_NS),
    ],
)  # fmt: skip
def test_stamps_around_steps(acts: str, sure: bool, within_ns: int) -> None:
    found = list(stamped(acts))
    assert found and all(known is sure and abs(read - at) <= within_ns for read, known, at in found)


def test_an_interrupted_measurement_is_no_step() -> None:
    host = Host()
    waits = iter((0, 50 * MS, 0) * 4)

    def interrupted() -> int:
        host.at_ns += next(waits, 0)
        return host.monotonic_ns() + host.offset_ns

    host.clock._wall_ns = interrupted
    assert not host.clock.measure()
