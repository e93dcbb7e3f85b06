# SPDX-License-Identifier: MIT
"""Rate limits that hold: those of one process, and those that several share, whatever the others do, killed or not."""

from __future__ import annotations

import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os import dup

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.probe.spacing import Circle, Spacing
from configtron.probe.wire.shared_spacing import SharedLimits, SharedSpacing
from tests.support.children import child

# As `time.time()` gives them: the steps of binary fractions are coarsest there.
EPOCH_S = 1.8e9
HOST, SAME_NETWORK, FAR = "192.0.2.1", "192.0.2.9", "198.51.100.1"
HERE, THERE = ("host", "192.0.2.1", False), ("host", "192.0.2.2", False)


@contextmanager
def shared(every: float, host: float, network: float, workers: int = 2) -> Iterator[list[SharedSpacing]]:
    """The table as each of the workers sees it."""
    limits = SharedLimits(every, host, network, workers)
    with ExitStack() as stack:
        table = SharedSpacing.made(limits)
        stack.callback(table.close)
        others = [SharedSpacing.joined(dup(table.descriptor), limits, n) for n in range(1, workers)]
        for other in others:
            stack.callback(other.close)
        yield [table, *others]


@contextmanager
def alone(*limits: float, workers: int = 2) -> Iterator[list[Spacing]]:
    """The limits of one process, for as many that ask it."""
    yield [Spacing(*limits)] * workers


def most_in_one_second(times: Sequence[float]) -> int:
    """Starts in the fullest half-open window of one second; a window begins at some start."""
    return max((bisect_left(times, at + 1) - n for n, at in enumerate(times)), default=0)


@pytest.mark.parametrize("limits", [alone, shared])
class TestLimits:
    @given(
        st.sampled_from([1.0, 2.0, 7.5, 50.0, 500.0]),
        st.lists(
            st.tuples(st.integers(0, 2), st.floats(0, 0.05), st.sampled_from(("admit", "book", "go", "drop"))),
            max_size=150,
        ),
    )
    def test_at_the_target_no_second_holds_more_than_the_rate(
        self, limits: type, rate: float, acts: list[tuple[int, float, str]]
    ) -> None:
        """Each is held up between its admission and the wire while the others go on; a repeat that was booked may not
        be needed."""
        now, arrived = EPOCH_S, []
        with limits(rate, 0, 0, workers=3) as tables:
            owed: list[list[float]] = [[], [], []]
            for worker, pause, act in acts:
                now += pause
                table, due = tables[worker], owed[worker]
                if act == "admit" and table.admit(HOST, now) == 0.0:
                    due.append(now)
                elif act == "book":
                    due.append(table.book(HOST, now))
                elif due and min(due) <= now:
                    due.remove(min(due))
                    arrived += [now] if act != "drop" else []
                    table.settled(now if act != "drop" else None)
        assert most_in_one_second(arrived) <= max(1, rate)

    def test_hosts_and_networks_are_those_of_all(self, limits: type) -> None:
        with limits(0, 1, 2) as (one, other):
            assert one.admit(HOST, EPOCH_S) == 0.0
            assert other.admit(HOST, EPOCH_S + 0.7) == pytest.approx(EPOCH_S + 1, abs=1e-4)
            assert other.admit(SAME_NETWORK, EPOCH_S + 0.3) == pytest.approx(EPOCH_S + 0.5, abs=1e-4)
            assert other.admit(FAR, EPOCH_S + 0.3) == 0.0
            # too early was refused and took no turn
            assert other.admit(SAME_NETWORK, EPOCH_S + 0.6) == 0.0 == one.admit(HOST, EPOCH_S + 1.2)

    def test_a_start_that_was_held_up_counts_when_it_left(self, limits: type) -> None:
        """Two left in the second before, one of them late: beside a repeat that is booked no third may."""
        with limits(2, 0, 0) as (one, other):
            for admitted_at, left_at in ((EPOCH_S, EPOCH_S), (EPOCH_S + 0.6, EPOCH_S + 1.3)):
                assert one.admit(HOST, admitted_at) == 0.0
                one.settled(left_at)
            assert one.book(HOST, EPOCH_S + 1.3) == EPOCH_S + 1.3
            assert other.open_at() > EPOCH_S + 2.3


@given(
    st.floats(0.3, 5000),
    st.lists(st.floats(0, 0.3) | st.just(0.0), min_size=1, max_size=80),
    st.sampled_from(["all", "host", "network"]),
)
def test_no_second_holds_more_than_the_rate(rate: float, pauses: list[float], circle: str) -> None:
    limits = Spacing(*(rate if circle == name else 0 for name in ("all", "host", "network")))
    now, starts = EPOCH_S, []
    for n, pause in enumerate(pauses):
        address = f"192.0.2.{n if circle == 'network' else 1}"
        # As soon as allowed, or after a pause of the caller's.
        now = max(now + pause, limits.free_at(address))
        assert limits.admit(address, now) == 0.0
        limits.settled(now)
        starts.append(now)
    assert most_in_one_second(starts) <= max(1, rate * 1.01)


@pytest.mark.parametrize(
    ("rate", "late_s", "least"), [*((rate, 0.0, 0.99) for rate in (1, 10, 100, 1000)), (500, 0.0009, 0.98)]
)
def test_a_greedy_caller_gets_the_rate(rate: int, late_s: float, least: float) -> None:
    """Each start may come up to 1 ms after it was allowed, as from a loop with a millisecond's clock."""
    limits, now, starts = Spacing(rate), EPOCH_S, []
    while now < EPOCH_S + 3:
        assert limits.admit(HOST, now) == 0.0
        limits.settled(now)
        starts.append(now)
        now = max(limits.open_at(), now) + late_s
    assert most_in_one_second(starts) <= rate and len(starts) >= 3 * rate * least


def test_memory_is_bounded() -> None:
    circle = Circle(1.0, sweep_above=10)
    for n in range(1000):
        circle.take(str(n), float(n))
    assert len(circle._free_at) <= 11


def test_a_refused_process_is_to_ask_again_soon() -> None:
    """Its turn hangs on a start of another process, whose time it cannot know."""
    with shared(1, 0, 0) as (one, other):
        assert one.admit("192.0.2.1", EPOCH_S) == 0.0
        again = other.admit("192.0.2.2", EPOCH_S + 5)
        assert EPOCH_S + 5 < again < EPOCH_S + 5.1 and other.open_at() == again
        one.settled(EPOCH_S)
        assert other.admit("192.0.2.2", again) == 0.0


def test_an_address_has_one_process_at_a_time() -> None:
    with shared(0, 0, 0) as (one, other):
        assert one.claim(HERE) and one.claim(HERE) and other.claim(THERE)
        assert not other.claim(HERE) and not one.claim(THERE)
        # A handshake that is held has a place of its own.
        assert other.claim((*HERE[:2], True))
        # What was not taken is not left.
        other.release(HERE)
        assert not other.claim(HERE)
        one.release(HERE)
        assert other.claim(HERE)


def test_a_dead_process_leaves_neither_places_nor_promises() -> None:
    with shared(2, 0, 0) as (one, other):
        assert other.claim(HERE) and one.claim(THERE)
        assert other.admit("192.0.2.1", EPOCH_S) == 0.0
        at = other.book("192.0.2.1", EPOCH_S)
        assert at < EPOCH_S + 1 < one.admit("192.0.2.2", EPOCH_S + 1)
        one.bury(1, EPOCH_S + 1)
        assert one.claim(HERE) and not other.claim(THERE)
        # Whether they had gone is not known: they count as gone when the process was found dead.
        assert one.admit("192.0.2.2", EPOCH_S + 1.9) > EPOCH_S + 2
        assert one.admit("192.0.2.2", EPOCH_S + 2.1) == 0.0


# A process that starts as fast as it may, and prints when; or takes the lock, and keeps it.
OTHER = """
import sys, time
from configtron.probe.wire.shared_spacing import SharedLimits, SharedSpacing
limits = SharedLimits(float(sys.argv[3]), 0, 0, 3)
table = SharedSpacing.joined(int(sys.argv[1]), limits, int(sys.argv[2]))
if sys.argv[4] == "lock":
    with table._memory:
        table._pace.take(time.monotonic())
        print("locked", flush=True)
        time.sleep(600)
starts = []
while len(starts) < int(sys.argv[4]):
    now = time.monotonic()
    again = table.admit("192.0.2.1", now)
    if again:
        time.sleep(max(again - now, 0))
        continue
    now = time.monotonic()
    table.settled(now)
    starts.append(now)
print(*starts)
"""


@contextmanager
def process(table: SharedSpacing, worker: int, rate: int, what: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", OTHER, str(table.descriptor), str(worker), str(rate), what]
    with child(words, pass_fds=[table.descriptor], stdout=subprocess.PIPE, text=True) as other:
        yield other


@pytest.mark.slow
def test_processes_that_start_at_once_keep_the_rate() -> None:
    rate, each = 200, 150
    with shared(rate, 0, 0, workers=3) as (table, *_), ExitStack() as stack:
        running = [stack.enter_context(process(table, worker, rate, str(each))) for worker in (0, 1, 2)]
        starts = sorted(float(start) for one in running for start in one.communicate()[0].split())
    assert len(starts) == 3 * each
    # a busy machine holds each process up between its leave and its start, once
    assert most_in_one_second(starts) <= rate + 3


def test_a_process_that_was_killed_with_the_lock_stops_none() -> None:
    with shared(1, 0, 0, workers=3) as (table, *_):
        with process(table, 1, 1, "lock") as other:
            assert other.stdout is not None and other.stdout.readline() == "locked\n"
        now = time.monotonic()
        # Its half of a change allows less, not more.
        assert table.admit("192.0.2.1", now + 2) > now + 2
        table.bury(1, now)
        assert table.admit("192.0.2.1", now + 2) == 0.0
