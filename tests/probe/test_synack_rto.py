# SPDX-License-Identifier: MIT
"""The withheld handshake against half-open sockets in virtual time, without loss and at 5 % each way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.model.errors import Diverged
from configtron.model.nouns import ACK, SYN, Observation, Packet, Segment, Target, Trace
from configtron.probe.play import Recorded, play
from configtron.probe.synack_rto import synack_rto
from tests.support.half_open_server import HalfOpenServer, Relative

TARGET = Target("site.example", "192.0.2.1")
WHEEL = 0.125
RUNS = 60


def held(server: HalfOpenServer, **params: Any) -> Trace:
    packets, ending = play(synack_rto(TARGET, "agent", **params), Relative(server))
    return Trace("t", TARGET, "here", "rto", tuple(sorted(params.items())), 0, packets, ending=ending)


def verdicts(seed: int, runs: int = 2, **settings: Any) -> dict[str, Observation]:
    """Of a profile's two runs, each on a connection of its own."""
    servers = [HalfOpenServer(random=Random(seed * runs + n), **settings) for n in range(runs)]
    return merge_all([o for n, server in enumerate(servers) for o in read(held(server, full=bool(n)))])


@pytest.mark.parametrize("rto_s", [0.2, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("rtt_s", [0.0005, 0.15, 0.4])
@pytest.mark.parametrize(("retries", "resets"), [(2, False), (5, True)])
def test_without_loss_all_is_reported(rto_s: float, rtt_s: float, retries: int, resets: bool) -> None:
    seen = verdicts(1, rto_s=rto_s, rtt_s=rtt_s, retries=retries, resets=resets)
    assert seen["synack_rto"].value == pytest.approx(rto_s, rel=WHEEL) and seen["synack_rto"].grade == "A"
    assert seen["synack_rto"].detail("class") == rto_s
    assert (seen["synack_backoff"].value, seen["synack_backoff"].grade) == ("exponential", "B")
    assert (seen["synack_retries"].value, seen["synack_retries"].grade) == (retries, "B")
    assert seen["synack_end"].value == ("reset" if resets else "silence")
    assert (seen["syn_cookies"].value, seen["synack_duplicates"].value) == ("no", 0)


def test_a_timer_that_does_not_grow() -> None:
    seen = verdicts(1, linear=True, retries=6)
    assert (seen["synack_backoff"].value, seen["synack_retries"].value) == ("linear", 6)


@pytest.mark.parametrize("rto_s", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("rtt_s", [0.02, 0.4])
def test_loss_lowers_grades_and_lies_never(rto_s: float, rtt_s: float) -> None:
    found: Counter[str] = Counter()
    for seed in range(RUNS):
        seen = verdicts(seed, rto_s=rto_s, rtt_s=rtt_s, loss=0.05)
        timer, retries = seen["synack_rto"], seen["synack_retries"]
        if timer.grade in "AB":
            assert timer.value == pytest.approx(rto_s, rel=WHEEL), (seed, timer.details)
            found["timer"] += 1
        if retries.grade in "AB":
            assert retries.value == 5, (seed, retries.details)
            found["retries"] += 1
        assert isinstance(retries.value, int) and retries.value <= 5
        assert seen["synack_backoff"].value in ("exponential", None)
        assert (seen["syn_cookies"].value, seen["synack_duplicates"].value) == ("no", 0)
    assert found["timer"] >= 0.95 * RUNS and found["retries"] >= 0.85 * RUNS


@pytest.mark.parametrize(("settings", "cookies"), [({"cookies": True}, "yes"), ({"retries": 0}, "no")])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_cookies_are_distinguished_from_a_server_that_does_not_repeat(settings: Any, cookies: str, loss: float) -> None:
    for seed in range(RUNS):
        seen = verdicts(seed, loss=loss, **settings)
        assert seen["syn_cookies"].value == cookies, seed
        assert seen["synack_rto"].reason == "no-repeat"


@pytest.mark.parametrize("rto_s", [0.3, 1.0])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_duplicates_are_counted_and_are_no_timer(rto_s: float, loss: float) -> None:
    for seed in range(RUNS):
        seen = verdicts(seed, rto_s=rto_s, copies=2, loss=loss)
        assert seen["synack_duplicates"].value == 1
        assert seen["synack_rto"].value == pytest.approx(rto_s, rel=WHEEL)


def test_a_minute_that_turns_does_not_hide_cookies() -> None:
    """Cookies change each minute; the silence of ten seconds often spans its turn, the farewells never both do."""
    for start in range(0, 60, 5):
        server = HalfOpenServer(cookies=True, now=float(start))
        wire = Shifted(Relative(server), float(start))
        packets, ending = play(synack_rto(TARGET, "agent"), wire)
        trace = Trace("t", TARGET, "here", "rto", (), 0, packets, ending=ending)
        assert {o.knob: o.value for o in read(trace)}["syn_cookies"] == "yes", start


class Shifted:
    """The same wire, begun later in the server's minute."""

    def __init__(self, wire: Relative, start: float) -> None:
        self.wire, self.start = wire, start

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        return self._mine(self.wire.send(segment))

    def receive(self, until: float) -> Packet | None:
        packet = self.wire.receive(until + self.start)
        return None if packet is None else self._mine(packet)

    def _mine(self, packet: Packet) -> Packet:
        return packet._replace(at=packet.at - self.start)


def test_a_first_answer_that_was_lost_is_seen_by_the_round_trip() -> None:
    """Gaps of 2 and 4 s: a timer of 2 s, or of 1 s whose original was lost. The echo's round trip shows which."""
    syn, synack = Segment(SYN), Segment(SYN | ACK, ack=1)

    def seen(arrival: float) -> Observation:
        times = [arrival, arrival + 2.0, arrival + 6.0]
        packets = [Packet(0.0, "out", syn), *(Packet(at, "in", synack, n) for n, at in enumerate(times, 1))]
        packets += [Packet(20.0, "out", syn, 4), Packet(20.1, "in", synack._replace(seq=99), 5)]
        return next(o for o in read(Trace("t", TARGET, "here", "rto", packets=tuple(packets))) if o.unit == "s")

    assert (seen(0.1).value, seen(0.1).detail("missed")) == (2.0, 0)
    assert (seen(1.1).value, seen(1.1).detail("missed")) == (1.0, 1)


def test_a_run_replays_and_a_patient_one_is_another() -> None:
    trace = held(HalfOpenServer(loss=0.05, random=Random(4)))
    packets, ending = play(synack_rto(TARGET, "agent"), Recorded(trace.packets))
    assert packets == trace.packets and ending == trace.ending
    with pytest.raises(Diverged):
        play(synack_rto(TARGET, "agent", repeats=1), Recorded(trace.packets))


def test_a_timer_that_does_not_grow_and_is_remembered_longer_gives_a_bound() -> None:
    """What steps the copies may be another machine than the one that remembers: an echo then shows no lost copy."""
    syn, synack = Segment(SYN), Segment(SYN | ACK, ack=1)
    packets = [Packet(0.0, "out", syn)]
    packets += [Packet(at, "in", synack, n) for n, at in enumerate((0.15, 1.15, 2.15), 1)]
    for at in (3.65, 5.3):
        packets += [Packet(at, "out", syn, len(packets)), Packet(at + 0.15, "in", synack, len(packets) + 1)]
    packets += [Packet(6.95, "out", syn, 20), Packet(7.1, "in", synack._replace(seq=99), 21)]
    trace = Trace("t", TARGET, "here", "rto", packets=tuple(packets))
    for seen in (merge_all(read(trace)), merge_all([*read(trace), *read(trace)])):
        assert seen["synack_backoff"].value == "linear"
        assert (seen["synack_retries"].value, seen["synack_retries"].grade) == (2, "L")


def timer(first: float, rtt: float, arrival: float, duplicates: int = 0) -> Observation:
    details = {"arrival": arrival, "duplicates": duplicates, "gaps": (first, 2.08, 4.08), "rtt": rtt}
    return Observation("synack_rto", first, None, "s", "", "C", "t", (), (), tuple(sorted(details.items())))


def test_a_lost_answers_duplicate_began_no_timer() -> None:
    seen = merge_all([timer(1.037, 0.25, 0.25, 1), timer(0.948, 0.25, 0.315, 1)])["synack_rto"]
    assert seen.value == pytest.approx(1.013)


def test_a_round_trip_that_no_one_measured_is_none() -> None:
    """Taken for one of 0 s, it would make a first answer after a long path a copy of a shorter timer's."""
    unknown = Observation("delayed_ack", None, "no-data", "s", "", "N", "t", (), (), (("rtt", 0.0),))
    seen = merge_all([timer(1.04, 0.4, 0.4), timer(1.04, 0.4, 0.4), unknown])["synack_rto"]
    assert seen.value == pytest.approx(1.04)


def test_the_network_doubles_some_answers_a_server_all() -> None:
    """A SYN-ACK that came twice, of several, is the network's; those of a server that doubles are doubled, but for a
    lost copy."""
    trace = held(HalfOpenServer())
    answers = [n for n, p in enumerate(trace.packets) if p.way == "in"]
    for doubled, value in ((answers[1:2], 0), (answers[:-1], 1)):
        rows = [row for n, p in enumerate(trace.packets) for row in ((p, p) if n in doubled else (p,))]
        other = held(HalfOpenServer(copies=2 if value else 1))
        found = [*read(replace(trace, packets=tuple(rows))), *read(other)]
        assert merge_all(found)["synack_duplicates"].value == value
        assert merge_all(found)["synack_rto"].value == pytest.approx(1.0, rel=WHEEL)


def test_runs_that_each_repeat_in_their_own_way_have_no_timer() -> None:
    """smoltcp keeps one estimator for all its connections: runs began with 0.71, 1.6, 10, 0.7, 2.8 and 10 s."""
    firsts = (0.71, 1.6, 10.0, 0.7, 2.8, 10.0)
    kinds = ("linear", "irregular", "linear", "linear", "irregular", "irregular")
    rows = []
    for first, kind, count in zip(firsts, kinds, (72, 20, 5, 71, 14, 5), strict=True):
        gaps = (first, first, first * 1.43, first * 1.43)
        details = (
            ("arrival", 0.03),
            ("duplicates", 0),
            ("gaps", gaps),
            ("late", ()),
            ("overdue", (0, 0)),
            ("rtt", 0.03),
        )
        for knob, value in (("synack_rto", first), ("synack_backoff", kind), ("synack_retries", count)):
            rows.append(
                Observation(knob, value, None, "s" if knob == "synack_rto" else "", "", "C", "t", (), (), details)
            )
    seen = merge_all(rows)
    assert {knob: (o.value, o.reason) for knob, o in seen.items()} == dict.fromkeys(
        ("synack_rto", "synack_backoff", "synack_retries"), (None, "unclear:irregular")
    )
