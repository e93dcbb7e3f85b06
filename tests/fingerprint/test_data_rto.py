# SPDX-License-Identifier: MIT
"""Data timers on traces of a server in virtual time that loses chosen copies; the minimum behind them."""

from __future__ import annotations

from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.model.nouns import Observation, Packet, Segment, Target, Trace
from configtron.probe.icw import icw
from configtron.probe.play import play
from tests.support.fake_server import FakeServer

TARGET = Target("site.example", "192.0.2.1")


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


def trial(
    lost: frozenset[int] = frozenset(), repeats: int = 3, slower: bool = False, **settings: Any
) -> tuple[Observation, ...]:
    packets, ending = play(icw(TARGET, "agent", repeats=repeats, slower=slower), Losing(FakeServer(**settings), lost))
    params = (("mss", 536), ("repeats", repeats), ("slower", slower))
    return read(Trace("t", TARGET, "here", "icw", params, 0, packets, ending=ending))


def verdicts(*trials: tuple[Observation, ...]) -> dict[str, Observation]:
    return merge_all([o for observations in trials for o in observations])


@pytest.mark.parametrize("rtt_s", [0.0005, 0.02, 0.08])
@pytest.mark.parametrize("min_s", [0.2, 0.3, 0.4])
def test_two_runs_show_the_timer(rtt_s: float, min_s: float) -> None:
    held = max(rtt_s, 0.02)
    for slower in (False, True):
        seen = verdicts(trial(rtt_s=rtt_s, rto_min_s=min_s), trial(rtt_s=rtt_s, rto_min_s=min_s, slower=slower))
        assert (seen["data_rto"].value, seen["data_rto"].grade) == (pytest.approx(held + min_s, abs=1e-6), "B")


@pytest.mark.parametrize("rtt_s", [0.0005, 0.02, 0.08])
@pytest.mark.parametrize("min_s", [0.2, 0.3, 0.4])
def test_two_round_trips_show_the_minimum_where_no_lateness_hides_their_difference(rtt_s: float, min_s: float) -> None:
    shown = rtt_s <= 0.02 or min_s == 0.4
    seen = verdicts(trial(rtt_s=rtt_s, rto_min_s=min_s), trial(rtt_s=rtt_s, rto_min_s=min_s, slower=True))["min_rto"]
    if shown:
        assert (seen.value, seen.grade) == (pytest.approx(min_s, abs=1e-6), "B")
    else:
        assert seen.value in (None, pytest.approx(min_s, abs=1e-6)), seen
    one = verdicts(trial(rtt_s=rtt_s, rto_min_s=min_s), trial(rtt_s=rtt_s, rto_min_s=min_s))["min_rto"]
    assert (one.value, one.reason in ("unclear:one-round-trip", "unclear:long-path")) == (None, True)


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
    true_s = max(rtt_s, 0.02) + max(0.2, 2 * rtt_s)
    for repeats in (1, 2, 3):
        one = trial(frozenset(lost), repeats, rtt_s=rtt_s, icw=icw)
        seen = verdicts(one, one)["data_rto"]
        assert seen.grade in ("C", "N") or seen.value == pytest.approx(true_s, abs=1e-6), (repeats, seen.details)
        good = trial(repeats=3, rtt_s=rtt_s, icw=icw)
        assert verdicts(one, good)["data_rto"].value == pytest.approx(true_s, abs=1e-6)


def test_one_good_run_and_one_that_lost_agree_where_the_doubling_shows_it() -> None:
    seen = verdicts(trial(frozenset({1})), trial())["data_rto"]
    assert (seen.value, seen.grade) == (pytest.approx(0.25, abs=1e-6), "B")


def reading(knob: str, value: float | str, **details: Any) -> Observation:
    grade = "C" if knob in ("data_rto", "min_rto", "syn_cookies") else "N"
    return Observation(knob, value, None, "s", "", grade, "t", (), (), tuple(sorted(details.items())))


def timer(value: float, *gaps: float, missed: int = 0) -> Observation:
    return reading("data_rto", value, gaps=gaps, missed=missed, regular=True)


# A gap that is no timer's (a sender that waited half a second for its own queue) fits a base with two copies lost.
ODD = timer(0.188, 1.316, 1.57, 3.12, missed=2)


def test_an_odd_short_run_is_outvoted_and_shown() -> None:
    seen = merge_all([ODD, timer(0.77, 0.77, 1.6), timer(0.8, 0.8, 1.6)])["data_rto"]
    assert seen.value == 0.77
    assert "0.188" in (seen.detail("seen") or ())


def test_an_odd_run_alone_is_no_timer() -> None:
    assert merge_all([ODD])["data_rto"].reason == "unclear:one-repeat"
    assert merge_all([ODD, timer(0.77, 0.77, 1.6)])["data_rto"].grade in ("C", "N")


def test_a_server_with_cookies_has_no_timer_of_its_own() -> None:
    cookies = reading("syn_cookies", "yes")
    least = reading("min_rto", 0.26, timer=0.28, trip=0.02)
    seen = merge_all([timer(0.28, 0.28, 0.56), timer(0.29, 0.29, 0.58), least, least, cookies])
    assert {seen[knob].reason for knob in ("data_rto", "min_rto")} == {"unclear:syn-cookies"}


@pytest.mark.parametrize("rtt_s", [0.22, 0.25, 0.4])
def test_a_timer_as_late_as_the_wheel_lets_it_shows_no_minimum(rtt_s: float) -> None:
    late_s = 3 * rtt_s * 0.07
    gaps = [3 * rtt_s + late_s, 6 * rtt_s + 2 * late_s]
    packets, ending = play(icw(TARGET, "agent", repeats=2), Losing(FakeServer(rtt_s=rtt_s), frozenset()))
    copies = [n for n, p in enumerate(packets) if p.way == "in" and p.segment.length and p.segment.seq == 1]
    moved = list(packets)
    for n, gap in zip(copies[1:], gaps, strict=False):
        before = moved[copies[copies.index(n) - 1]]
        moved[n] = moved[n]._replace(at=before.at + gap)
    moved = moved[: copies[2] + 1]
    trace = Trace("t", TARGET, "here", "icw", (("mss", 536), ("repeats", 2)), 0, tuple(moved), ending=ending)
    found = {o.knob: o for o in read(trace)}
    assert found["data_rto"].value == pytest.approx(gaps[0], abs=1e-6)
    assert found["min_rto"].reason == "unclear:long-path"


def test_a_handshake_that_took_longer_than_the_path_has_another_timer() -> None:
    """A SYN-ACK was lost; its copy, 65 ms later, was the first that we heard: the timer counts from there."""
    late = [reading("data_rto", 0.291, gaps=(0.291, 0.59), missed=0, regular=True, trip=0.085, rtt=0.02)] * 2
    usual = reading("data_rto", 0.233, gaps=(0.233,), missed=0, regular=True, trip=0.02, rtt=0.02)
    assert verdicts((late[0],), (late[1],), (usual,))["data_rto"].value == 0.233
    assert verdicts((late[0],), (late[1],))["data_rto"].grade == "C"


def test_a_repeated_request_leaves_the_round_trip_in_doubt() -> None:
    """Karn's rule: whose ACK is it? A server that may have sampled no round trip shows no minimum."""
    packets, ending = play(icw(TARGET, "agent", repeats=2), Losing(FakeServer(rtt_s=0.05), frozenset()))
    asked = next(p for p in packets if p.way == "out" and p.segment.length)
    twice = sorted((*packets, asked._replace(at=asked.at + 0.001)), key=lambda p: p.at)
    for rows, sure in ((packets, True), (tuple(twice), False)):
        trace = Trace("t", TARGET, "here", "icw", (("mss", 536), ("repeats", 2)), 0, rows, ending=ending)
        assert {o.knob: o.reason for o in read(trace)}["min_rto"] == (
            "unclear:one-round-trip" if sure else "synack-repeated"
        )


def test_three_runs_that_agree_show_a_timer_that_does_not_double() -> None:
    """smoltcp repeats after 0.77 to 0.84 s, three times alike, before its wait grows."""
    rows = [reading("data_rto", s, gaps=(s, s, 1.5 * s), missed=0, regular=False, trip=0.03) for s in (0.77, 0.84, 0.8)]
    assert (merge_all(rows)["data_rto"].value, merge_all(rows)["data_rto"].grade) == (0.77, "C")
    assert merge_all(rows[:2])["data_rto"].reason == "unclear:one-repeat"


def test_an_ack_that_we_held_on_a_short_path_makes_no_handshake_longer() -> None:
    """A round trip of 0.1 ms, our ACK after 20 ms and what a busy host adds: the usual timer, not a late one."""
    rows = [reading("data_rto", 0.2, gaps=(0.2, 0.4), missed=0, regular=True, trip=0.0255, rtt=0.0001)] * 2
    assert merge_all(rows)["data_rto"].grade == "B"


def test_a_run_that_held_its_ack_agrees_with_linuxs_sum_only() -> None:
    """An ACK was lost, so the first run's timer counts from a longer round trip than ours: 0.304 s at 20 ms. The run
    that held its ACK read 0.289 s at 71 ms, which is the true 0.22 s and no witness of 0.304."""
    odd = reading("data_rto", 0.304, gaps=(0.304, 0.61, 1.25), missed=0, regular=True, trip=0.02, rtt=0.02)
    held = reading("data_rto", 0.289, gaps=(0.289, 0.57), missed=0, regular=True, trip=0.071, rtt=0.02, slower=True)
    usual = reading("data_rto", 0.222, gaps=(0.222, 0.445), missed=0, regular=True, trip=0.02, rtt=0.02)
    assert merge_all([odd, held])["data_rto"].grade in ("C", "N")
    assert merge_all([odd, held, usual])["data_rto"].value == 0.222
    assert merge_all([held])["data_rto"].value is None
