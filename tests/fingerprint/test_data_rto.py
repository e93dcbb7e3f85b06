# SPDX-License-Identifier: MIT
"""Data timers on traces of a server in virtual time that loses chosen copies; the minimum behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.model.nouns import Observation, Packet, Segment
from tests.support.fake_server import FakeServer, probed


class Losing:
    """A wire that loses the n-th copies (from 0) of the first data segment."""

    def __init__(self, server: FakeServer, lost: frozenset[int]) -> None:
        self.server, self.lost, self.copies = server, lost, 0

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        return self.server.send(segment)

    def receive(self, until: float) -> Packet | None:
        while (packet := self.server.receive(until)) is not None:
            first = packet.segment.length > 0 and packet.segment.seq == 1
            self.copies += first
            if not first or self.copies - 1 not in self.lost:
                return packet
        return None


def trial(lost: set[int] | None = None, repeats: int = 3, slower: bool = False, **more: Any) -> tuple[Observation, ...]:
    return read(probed(Losing(FakeServer(**more), frozenset(lost or ())), repeats=repeats, slower=slower))


def verdicts(*trials: tuple[Observation, ...]) -> dict[str, Observation]:
    return merge_all([o for observations in trials for o in observations])


@pytest.mark.parametrize("rtt_s", [0.0005, 0.02, 0.08])
@pytest.mark.parametrize("min_s", [0.2, 0.3, 0.4])
def test_two_runs_show_the_timer_and_two_round_trips_the_minimum(rtt_s: float, min_s: float) -> None:
    quick, slow = (trial(rtt_s=rtt_s, rto_min_s=min_s, slower=slower) for slower in (False, True))
    at_one, at_two = verdicts(quick, quick), verdicts(quick, slow)
    for seen in (at_one, at_two):
        assert (seen["data_rto"].value, seen["data_rto"].grade) == (pytest.approx(max(rtt_s, 0.02) + min_s), "B")
    assert at_one["min_rto"].reason == "unclear:one-round-trip"
    # lateness may hide the difference between the two
    least = (pytest.approx(min_s), "B") if rtt_s <= 0.02 or min_s == 0.4 else (None, "N")
    assert (at_two["min_rto"].value, at_two["min_rto"].grade) == least


@pytest.mark.parametrize("timer", ["larger", "constant"])
@pytest.mark.parametrize("min_s", [0.2, 0.4, 1.0, 2.2])
@pytest.mark.parametrize("rtt_s", [0.0005, 0.03, 0.05, 0.1])
def test_a_timer_that_is_not_linuxs_sum_has_a_bound(timer: str, min_s: float, rtt_s: float) -> None:
    """gVisor takes the larger of its minimum and three round trips; lwIP begins with a constant."""
    settings = {"rtt_s": rtt_s, "rto_min_s": min_s, "timer": timer}
    seen = verdicts(trial(**settings), trial(slower=True, **settings), trial(**settings))
    assert seen["min_rto"].value is None, seen["min_rto"]
    assert seen["min_rto"].trials[0].detail("at_most") >= min_s - 1e-6
    timer_s = max(min_s, 3 * max(rtt_s, 0.02)) if timer == "larger" else min_s
    assert seen["data_rto"].value == pytest.approx(timer_s, abs=1e-6) and seen["data_rto"].grade in "AB"
    if min_s == 0.2 and (rtt_s < 0.02 or timer == "constant" and rtt_s < 0.06):
        assert seen["min_rto"].reason == "unclear:other-timer"


def test_a_path_that_is_longer_than_the_minimum_gives_a_bound() -> None:
    seen = verdicts(trial(rtt_s=0.25), trial(rtt_s=0.25))
    assert seen["data_rto"].value == pytest.approx(0.75, abs=1e-6)
    assert seen["min_rto"].reason == "unclear:long-path"
    assert seen["min_rto"].trials[0].detail("at_most") == pytest.approx(0.75, abs=1e-5)


@pytest.mark.parametrize("lost", [{0}, {1}, {2}, {0, 2}])
@pytest.mark.parametrize("rtt_s", [0.02, 0.08, 0.4])
@pytest.mark.parametrize("icw", [1, 10])
def test_lost_copies_never_agree_on_a_wrong_timer(lost: set[int], rtt_s: float, icw: int) -> None:
    true_s = pytest.approx(max(rtt_s, 0.02) + max(0.2, 2 * rtt_s), abs=1e-6)
    for repeats in (1, 2, 3):
        one, good = trial(lost, repeats, rtt_s=rtt_s, icw=icw), trial(repeats=3, rtt_s=rtt_s, icw=icw)
        seen = verdicts(one, one)["data_rto"]
        assert seen.grade in ("C", "N") or seen.value == true_s, (repeats, seen.details)
        assert verdicts(one, good)["data_rto"].value == true_s


def test_one_good_run_and_one_that_lost_agree_where_the_doubling_shows_it() -> None:
    seen = verdicts(trial({1}), trial())["data_rto"]
    assert (seen.value, seen.grade) == (pytest.approx(0.25, abs=1e-6), "B")


def reading(knob: str, value: float | str, **details: Any) -> Observation:
    grade = "C" if knob in ("data_rto", "min_rto", "syn_cookies") else "N"
    return Observation(knob, value, None, "s", "", grade, "t", (), (), tuple(sorted(details.items())))


def timer(value: float, *gaps: float, missed: int = 0, regular: bool = True, **more: Any) -> Observation:
    return reading("data_rto", value, gaps=(value, *gaps), missed=missed, regular=regular, **more)


# A gap that is no timer's (a sender that waited half a second for its own queue) fits a base with two copies lost.
ODD = reading("data_rto", 0.188, gaps=(1.316, 1.57, 3.12), missed=2, regular=True)
# A SYN-ACK was lost; its copy, 65 ms later, was the first that we heard: the timer counts from there.
LATE, USUAL = timer(0.291, 0.59, trip=0.085, rtt=0.02), timer(0.233, trip=0.02, rtt=0.02)
# smoltcp repeats after 0.77 to 0.84 s, three times alike, before its wait grows.
ALIKE = [timer(s, s, 1.5 * s, regular=False, trip=0.03) for s in (0.77, 0.84, 0.8)]
# An ACK was lost, so the first run's timer counts from a longer round trip than ours: 0.304 s at 20 ms. The run that
# held its ACK read 0.289 s at 71 ms, which is the true 0.22 s and no witness of 0.304.
LONGER, TRUE = timer(0.304, 0.61, 1.25, trip=0.02, rtt=0.02), timer(0.222, 0.445, trip=0.02, rtt=0.02)
HELD = timer(0.289, 0.57, trip=0.071, rtt=0.02, slower=True)
NONE = "- (unclear:one-repeat) N"


@pytest.mark.parametrize(("runs", "text", "seen"), [
    ([ODD], NONE, ("0.188",)),
    ([ODD, timer(0.77, 1.6)], NONE, ("0.188", "0.77")),
    ([ODD, timer(0.77, 1.6), timer(0.8, 1.6)], "0.77 B", ("0.188", "0.77", "0.8")),
    ([LATE, LATE, USUAL], "0.233 C", ("0.233", "0.291")),
    ([LATE, LATE], "0.291 C", ("0.291",)),
    (ALIKE, "0.77 C", ("0.77", "0.8", "0.84")),
    (ALIKE[:2], NONE, ("0.77", "0.84")),
    # a round trip of 0.1 ms, our ACK after 20 ms and what a busy host adds: the usual timer, not a late one
    ([timer(0.2, 0.4, trip=0.0255, rtt=0.0001)] * 2, "0.2 B", None),
    ([LONGER, HELD], "0.304 C", ("0.304",)),
    ([LONGER, HELD, TRUE], "0.222 C", ("0.222", "0.304")),
    ([HELD], NONE, None),
])  # fmt: skip
def test_odd_runs_are_outvoted_shown_and_alone_no_timer(
    runs: list[Observation], text: str, seen: tuple[str, ...] | None
) -> None:
    found = merge_all(runs)["data_rto"]
    assert (f"{found.text} {found.grade}", found.detail("seen")) == (text, seen)


def test_a_server_with_cookies_has_no_timer_of_its_own() -> None:
    least = reading("min_rto", 0.26, timer=0.28, trip=0.02)
    seen = merge_all([timer(0.28, 0.56), timer(0.29, 0.58), least, least, reading("syn_cookies", "yes")])
    assert {seen[knob].reason for knob in ("data_rto", "min_rto")} == {"unclear:syn-cookies"}


@pytest.mark.parametrize("rtt_s", [0.22, 0.25, 0.4])
def test_a_timer_as_late_as_the_wheel_lets_it_shows_no_minimum(rtt_s: float) -> None:
    trace = probed(FakeServer(rtt_s=rtt_s), repeats=2)
    first, *copies = (
        n for n, p in enumerate(trace.packets) if p.way == "in" and p.segment.length and p.segment.seq == 1
    )
    moved, at = list(trace.packets), trace.packets[first].at
    for n, gap in zip(copies[:2], (3.21 * rtt_s, 6.42 * rtt_s), strict=True):
        moved[n] = moved[n]._replace(at=(at := at + gap))
    found = {o.knob: o for o in read(replace(trace, packets=tuple(moved[: copies[1] + 1])))}
    assert found["data_rto"].value == pytest.approx(3.21 * rtt_s, abs=1e-6)
    assert found["min_rto"].reason == "unclear:long-path"


def test_a_repeated_request_leaves_the_round_trip_in_doubt() -> None:
    """Karn's rule: whose ACK is it? A server that may have sampled no round trip shows no minimum."""
    once = probed(FakeServer(rtt_s=0.05), repeats=2)
    asked = next(p for p in once.packets if p.way == "out" and p.segment.length)
    twice = sorted((*once.packets, asked._replace(at=asked.at + 0.001)), key=lambda p: p.at)
    for packets, reason in ((once.packets, "unclear:one-round-trip"), (tuple(twice), "synack-repeated")):
        assert {o.knob: o.reason for o in read(replace(once, packets=packets))}["min_rto"] == reason
