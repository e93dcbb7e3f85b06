# SPDX-License-Identifier: MIT
"""The withheld handshake against half-open sockets in virtual time, without loss and at 5 % each way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.model.errors import Diverged
from configtron.model.nouns import ACK, SYN, Observation, Packet, Segment, Trace
from configtron.probe.play import Recorded, play
from configtron.probe.synack_rto import synack_rto
from tests.support.half_open_server import HalfOpenServer, Relative
from tests.support.played import TARGET, played, trace_of

WHEEL = 0.125
RUNS = 60
SYNACK = Segment(SYN | ACK, ack=1)


def held(server: HalfOpenServer, **params: Any) -> Trace:
    packets, ending = play(synack_rto(TARGET, "agent", **params), Relative(server))
    return trace_of(packets, "rto", ending, **params)


def verdicts(seed: int, runs: int = 2, **settings: Any) -> dict[str, Observation]:
    """Of a profile's two runs, each on a connection of its own."""
    servers = [HalfOpenServer(random=Random(seed * runs + n), **settings) for n in range(runs)]
    return merge_all([o for n, server in enumerate(servers) for o in read(held(server, full=bool(n)))])


def values(seen: dict[str, Observation], *knobs: str) -> list[object]:
    return [seen[knob].value for knob in knobs]


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
    assert values(seen, "syn_cookies", "synack_duplicates") == ["no", 0]


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
        assert values(seen, "syn_cookies", "synack_duplicates") == ["no", 0]
    assert found["timer"] >= 0.95 * RUNS and found["retries"] >= 0.85 * RUNS


@pytest.mark.parametrize(("settings", "cookies"), [({"cookies": True}, "yes"), ({"retries": 0}, "no")])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_cookies_are_distinguished_from_a_server_that_does_not_repeat(settings: Any, cookies: str, loss: float) -> None:
    for seed in range(RUNS):
        seen = verdicts(seed, loss=loss, **settings)
        assert (seen["syn_cookies"].value, seen["synack_rto"].reason) == (cookies, "no-repeat"), seed


@pytest.mark.parametrize("rto_s", [0.3, 1.0])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_duplicates_are_counted_and_are_no_timer(rto_s: float, loss: float) -> None:
    for seed in range(RUNS):
        seen = verdicts(seed, rto_s=rto_s, copies=2, loss=loss)
        assert values(seen, "synack_duplicates", "synack_rto") == [1, pytest.approx(rto_s, rel=WHEEL)]


class Shifted(Relative):
    """The same wire, begun later in the server's minute."""

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        return self._mine(super().send(segment))

    def receive(self, until: float) -> Packet | None:
        packet = super().receive(until + self.server.begun)
        return None if packet is None else self._mine(packet)

    def _mine(self, packet: Packet) -> Packet:
        return packet._replace(at=packet.at - self.server.begun)


def test_a_minute_that_turns_does_not_hide_cookies() -> None:
    """Cookies change each minute; the silence of ten seconds often spans its turn, the farewells never both do."""
    for begun in range(0, 60, 5):
        trace = played("rto", Shifted(HalfOpenServer(cookies=True, begun=float(begun))))
        assert {o.knob: o.value for o in read(trace)}["syn_cookies"] == "yes", begun


def test_a_patient_run_is_another() -> None:
    trace = played("rto", Relative(HalfOpenServer(loss=0.05, random=Random(4))))
    with pytest.raises(Diverged):
        play(synack_rto(TARGET, "agent", repeats=1), Recorded(trace.packets))


def answered(times: Iterable[float], echoes: Iterable[float], farewell: tuple[float, float]) -> Trace:
    """SYN-ACKs at these times, an echo 0.15 s after each further SYN, and a last SYN that is answered as a new one."""
    syn = Segment(SYN)
    packets = [Packet(0.0, "out", syn), *(Packet(at, "in", SYNACK, n) for n, at in enumerate(times, 1))]
    for at in echoes:
        packets += [Packet(at, "out", syn, len(packets)), Packet(at + 0.15, "in", SYNACK, len(packets) + 1)]
    packets += [Packet(farewell[0], "out", syn, 20), Packet(farewell[1], "in", SYNACK._replace(seq=99), 21)]
    return trace_of(packets, "rto")


@pytest.mark.parametrize(("arrival", "value", "missed"), [(0.1, 2.0, 0), (1.1, 1.0, 1)])
def test_a_first_answer_that_was_lost_is_seen_by_the_round_trip(arrival: float, value: float, missed: int) -> None:
    """Gaps of 2 and 4 s: a timer of 2 s, or of 1 s whose original was lost. The echo's round trip shows which."""
    trace = answered((arrival, arrival + 2.0, arrival + 6.0), (), (20.0, 20.1))
    seen = next(o for o in read(trace) if o.unit == "s")
    assert (seen.value, seen.detail("missed")) == (value, missed)


def test_a_timer_that_does_not_grow_and_is_remembered_longer_gives_a_bound() -> None:
    """What steps the copies may be another machine than the one that remembers: an echo then shows no lost copy."""
    readings = read(answered((0.15, 1.15, 2.15), (3.65, 5.3), (6.95, 7.1)))
    for seen in (merge_all(readings), merge_all([*readings, *readings])):
        assert values(seen, "synack_backoff", "synack_retries") == ["linear", 2] and seen["synack_retries"].grade == "L"


def reading(knob: str, value: object, reason: str | None = None, **details: Any) -> Observation:
    unit, grade = "s" if knob in ("synack_rto", "delayed_ack") else "", "N" if reason else "C"
    return Observation(knob, value, reason, unit, "", grade, "t", (), (), tuple(sorted(details.items())))  # type: ignore[arg-type]


def timer(first: float, rtt: float, arrival: float, duplicates: int = 0) -> Observation:
    gaps = (first, 2.08, 4.08)
    return reading("synack_rto", first, arrival=arrival, duplicates=duplicates, gaps=gaps, rtt=rtt)


@pytest.mark.parametrize(
    ("readings", "value"),
    [
        # a lost answer's duplicate began no timer
        ([timer(1.037, 0.25, 0.25, 1), timer(0.948, 0.25, 0.315, 1)], 1.013),
        # A round trip that no one measured is none: taken for one of 0 s, it would make a first answer after a long
        # path a copy of a shorter timer's.
        ([timer(1.04, 0.4, 0.4), timer(1.04, 0.4, 0.4), reading("delayed_ack", None, "no-data", rtt=0.0)], 1.04),
    ],
)
def test_which_timer_several_runs_show(readings: list[Observation], value: float) -> None:
    assert merge_all(readings)["synack_rto"].value == pytest.approx(value)


def test_the_network_doubles_some_answers_a_server_all() -> None:
    """A SYN-ACK that came twice, of several, is the network's; those of a server that doubles are doubled, but for a
    lost copy."""
    trace = held(HalfOpenServer())
    answers = [n for n, p in enumerate(trace.packets) if p.way == "in"]
    for doubled, value in ((answers[1:2], 0), (answers[:-1], 1)):
        rows = [row for n, p in enumerate(trace.packets) for row in ((p, p) if n in doubled else (p,))]
        other = held(HalfOpenServer(copies=2 if value else 1))
        seen = merge_all([*read(replace(trace, packets=tuple(rows))), *read(other)])
        assert values(seen, "synack_duplicates", "synack_rto") == [value, pytest.approx(1.0, rel=WHEEL)]


def test_runs_that_each_repeat_in_their_own_way_have_no_timer() -> None:
    """smoltcp keeps one estimator for all its connections: runs began with 0.71, 1.6, 10, 0.7, 2.8 and 10 s."""
    runs = ((0.71, "linear", 72), (1.6, "irregular", 20), (10.0, "linear", 5),
            (0.7, "linear", 71), (2.8, "irregular", 14), (10.0, "irregular", 5))  # fmt: skip
    knobs, rows = ("synack_rto", "synack_backoff", "synack_retries"), []
    for run in runs:
        gaps = (run[0], run[0], run[0] * 1.43, run[0] * 1.43)
        details: dict[str, Any] = {
            "arrival": 0.03, "duplicates": 0, "gaps": gaps, "late": (), "overdue": (0, 0), "rtt": 0.03,
        }  # fmt: skip
        rows += [reading(knob, value, **details) for knob, value in zip(knobs, run, strict=True)]
    found = {knob: (o.value, o.reason) for knob, o in merge_all(rows).items()}
    assert found == dict.fromkeys(knobs, (None, "unclear:irregular"))
