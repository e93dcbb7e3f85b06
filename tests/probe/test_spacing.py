# SPDX-License-Identifier: MIT
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.probe.spacing import Circle, Spacing, interval_s, network_of

# As `time.time()` gives them: the steps of binary fractions are coarsest there.
EPOCH_S = 1.8e9


def most_in_one_second(times: list[float]) -> int:
    """Starts in the fullest half-open window of one second; a window begins at some start."""
    return max((bisect_left(times, at + 1) - n for n, at in enumerate(times)), default=0)


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


@given(
    st.sampled_from([1.0, 2.0, 7.5, 50.0, 500.0]),
    st.lists(st.tuples(st.floats(0, 0.05), st.booleans(), st.booleans()), min_size=1, max_size=200),
)
def test_at_the_target_no_second_holds_more_than_the_rate(rate: float, acts: list[tuple[float, bool, bool]]) -> None:
    """Starts that are held up between admission and wire, repeats that book their turn and may not be needed."""
    limits, now, arrived = Spacing(rate), EPOCH_S, []
    booked: list[float] = []
    for hold_up, repeat, needed in acts:
        if repeat:
            booked.append(limits.book("192.0.2.1", now))
        else:
            now = max(now, min([limits.open_at(), *booked]))
            if limits.admit("192.0.2.1", now) == 0.0:
                now += hold_up
                arrived.append(now)
                limits.settled(now)
        for at in [at for at in booked if at <= now]:
            booked.remove(at)
            if needed:
                arrived.append(now)
            limits.settled(now if needed else None)
    assert most_in_one_second(sorted(arrived)) <= max(1, rate * 1.01)


@pytest.mark.parametrize("rate", [1, 10, 100, 1000])
def test_a_greedy_caller_gets_the_rate(rate: int) -> None:
    limits, now, starts = Spacing(rate), EPOCH_S, []
    while now < EPOCH_S + 3:
        assert limits.admit("192.0.2.1", now) == 0.0
        limits.settled(now)
        starts.append(now)
        now = max(limits.free_at("192.0.2.1"), now)
    assert most_in_one_second(starts) <= rate
    assert len(starts) >= 3 * rate * 0.99


def test_a_loop_that_looks_up_late_still_reaches_its_rate() -> None:
    """Each start comes up to 1 ms after it was allowed, as from a loop with a millisecond's clock."""
    limits, now, starts = Spacing(500), EPOCH_S, 0
    while now < EPOCH_S + 3:
        assert limits.admit("192.0.2.1", now) == 0.0
        limits.settled(now)
        starts += 1
        now = max(limits.open_at(), now) + 0.0009
    assert starts >= 3 * 500 * 0.98


def test_too_early_is_refused_and_takes_no_turn() -> None:
    limits = Spacing(host_rate_per_s=1)
    assert limits.admit("192.0.2.1", 5.0) == 0.0
    assert limits.admit("192.0.2.1", 5.5) == pytest.approx(6.0, abs=1e-5)
    assert limits.admit("192.0.2.1", 6.1) == 0.0


def test_circles_do_not_disturb_each_other() -> None:
    limits = Spacing(host_rate_per_s=1, network_rate_per_s=10)
    assert limits.admit("192.0.2.1", 5.0) == 0.0
    assert limits.admit("192.0.2.2", 5.05) > 5.05, "same /24"
    assert limits.admit("192.0.3.1", 5.05) == 0.0
    assert limits.admit("192.0.2.2", 5.11) == 0.0


def test_networks() -> None:
    assert network_of("192.0.2.77") == "192.0.2.0/24"
    assert network_of("2001:db8:1:2::3") == "2001:db8:1::/48"


def test_no_limit_is_no_wait() -> None:
    assert interval_s(0) == 0
    assert all(Spacing().admit("192.0.2.1", 1.0) == 0.0 for _ in range(10))


def test_memory_is_bounded() -> None:
    circle = Circle(1.0, sweep_above=10)
    for n in range(1000):
        circle.take(str(n), float(n))
    assert len(circle._free_at) <= 11
