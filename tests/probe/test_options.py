# SPDX-License-Identifier: MIT
"""What a server agrees to, against peers that answer by rule: ECN, Fast Open, SACK, timestamps, one stack or two."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.model.errors import Diverged
from configtron.model.nouns import (
    ACK,
    CWR,
    ECE,
    OPT_FASTOPEN,
    OPT_MSS,
    OPT_SACK_PERMITTED,
    OPT_TIMESTAMPS,
    RST,
    SYN,
    Observation,
    Packet,
    Segment,
    Target,
    Trace,
)
from configtron.probe import PROBES
from configtron.probe.play import Recorded, play
from configtron.probe.signature import OFFERS

TARGET = Target("site.example", "192.0.2.1")
MSS = (OPT_MSS, (1460).to_bytes(2, "big"))
COOKIE = (OPT_FASTOPEN, bytes(range(8)))
RTT_S = 0.05
# What we sent, with its type of service -> what comes back, each with its time to live.
Rule = Callable[[Segment, int], Sequence[tuple[Segment, int]]]


class Ruled:
    """A wire whose other end answers each segment by rule; `lose` names those of ours that are lost, by number."""

    def __init__(self, rule: Rule, lose: frozenset[int] = frozenset()) -> None:
        self.rule, self.lose = rule, lose
        self.now, self.sent = 0.0, 0
        self.due: list[tuple[float, int, Segment, int]] = []
        self.serial = count()

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        for answer, ttl in self.rule(segment, tos) if self.sent not in self.lose else ():
            heapq.heappush(self.due, (self.now + RTT_S, next(self.serial), answer, ttl))
        self.sent += 1
        return Packet(self.now, "out", segment, next(self.serial), tos=tos)

    def receive(self, until: float) -> Packet | None:
        if not self.due or self.due[0][0] > until:
            self.now = max(self.now, until)
            return None
        self.now, _, segment, ttl = heapq.heappop(self.due)
        return Packet(self.now, "in", segment, next(self.serial), ttl=ttl)


def seen(probe: str, rule: Rule, lose: frozenset[int] = frozenset(), **params: Any) -> dict[str, Observation]:
    script: Any = PROBES[probe].script
    packets, ending = play(script(TARGET, "agent", **params), Ruled(rule, lose))
    again, ended = play(script(TARGET, "agent", **params), Recorded(packets))
    assert (again, ended) == (packets, ending)
    trace_id, given = f"here/site/{probe}.1", tuple(sorted(params.items()))
    trace = Trace(trace_id, TARGET, "here", probe, given, 0, packets, ending=ending)
    return {o.knob: o for o in read(trace)}


def marking(agrees: int, reports: bool) -> Rule:
    """A server that answers an ECN SYN with the flags `agrees`, and reports marks or not."""

    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        if segment.flags & SYN:
            return [(Segment(SYN | ACK | agrees, ack=1, options=(MSS,)), 60)]
        if segment.length:
            return [(Segment(ACK | (ECE if reports and tos & 3 == 3 else 0), 1, segment.end), 60)]
        return []

    return rule


@pytest.mark.parametrize(
    ("agrees", "reports", "value"),
    [(ECE, True, "yes"), (ECE, False, "negotiated"), (0, True, "no"), (ECE | CWR, True, "no")],
)
@pytest.mark.parametrize("lose", [set(), {0}, {2}])
def test_ecn(agrees: int, reports: bool, value: str, lose: set[int]) -> None:
    assert seen("ecn", marking(agrees, reports), frozenset(lose))["ecn"].value == value


# Where a server begins to count when it is asked anew.
SECOND = 312_528


def opening(cookie: bool, takes: bool, *, copies: bool = False) -> Rule:
    """A server; `copies` of its first SYN-ACK are what comes first to the second SYN."""

    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        if not segment.flags & SYN:
            return []
        asked = segment.option(OPT_FASTOPEN)
        options = (MSS, COOKIE) if cookie and asked == b"" else (MSS,)
        taken = segment.length if takes and asked == COOKIE[1] else 0
        begins = SECOND if asked == COOKIE[1] else 0
        copy = [(Segment(SYN | ACK, ack=1, options=(MSS,)), 60)] if copies and begins else []
        return [*copy, (Segment(SYN | ACK, seq=begins, ack=1 + taken, options=options), 60)]

    return rule


@pytest.mark.parametrize(("cookie", "takes", "value"), [(1, 1, "yes"), (1, 0, "cookie"), (0, 0, "no")])
@pytest.mark.parametrize("lose", [set(), {0}])
def test_fast_open(cookie: int, takes: int, value: str, lose: set[int]) -> None:
    assert seen("tfo", opening(bool(cookie), bool(takes)), frozenset(lose))["tfo"].value == value


@pytest.mark.parametrize("value", ["yes", "cookie"])
def test_a_copy_of_the_first_syn_ack_shows_nothing_of_the_second_syn(value: str) -> None:
    assert seen("tfo", opening(True, value == "yes", copies=True))["tfo"].value == value


def test_a_repeat_of_the_syn_with_data_shows_only_what_is_taken() -> None:
    assert seen("tfo", opening(True, True), frozenset({4}))["tfo"].value == "yes"
    assert seen("tfo", opening(True, False), frozenset({4}))["tfo"].reason == "no-data"


@pytest.mark.parametrize("offer", list(OFFERS))
@pytest.mark.parametrize("agrees", [True, False])
def test_only_what_was_offered_is_reported(offer: str, agrees: bool) -> None:
    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        echoed = tuple(o for o in segment.options if o[0] == OPT_MSS or agrees)
        return [(Segment(SYN | ACK, ack=1, options=echoed), 60)] if segment.flags & SYN else []

    found = seen("signature", rule, offer=offer)
    values = {knob: found[knob].value for knob in ("sack", "timestamps") if knob in found}
    wanted = [knob for knob in ("sack", "timestamps") if getattr(OFFERS[offer], knob)]
    assert values == dict.fromkeys(wanted, "yes" if agrees else "no")


def answering(ttl: int, later_ttl: int, clock: tuple[int, int] | None = None, later_stamps: bool = True) -> Rule:
    """A server whose SYN-ACK and whose acknowledgement of the request may differ."""

    def stamps(value: int) -> tuple[tuple[int, bytes], ...]:
        return ((OPT_TIMESTAMPS, value.to_bytes(4, "big") + (1).to_bytes(4, "big")),)

    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        if segment.flags & SYN:
            return [(Segment(SYN | ACK, ack=1, options=(MSS, *(stamps(clock[0]) if clock else ()))), ttl)]
        if segment.length:
            options = stamps(clock[1]) if clock and later_stamps else ()
            return [(Segment(ACK, 1, segment.end, options=options), later_ttl), (Segment(RST, 1), 200)]
        return []

    return rule


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (answering(60, 60), "one"),
        (answering(60, 60, (1000, 1050)), "one"),
        (answering(60, 60, (0xFFFFFFF0, 40)), "one"),
        (answering(60, 60, (1000, 40_000)), "one"),
        # a clock of 1 us, on a path that held the SYN-ACK back by half a second
        (answering(60, 60, (1000, 520_000)), "one"),
        (answering(124, 60), "split"),
        (answering(66, 60), "split"),
        (answering(60, 60, (1000, 1050), later_stamps=False), "split"),
        (answering(60, 60, (500_000, 1000)), "split"),
        (answering(60, 60, (1000, 900_000_000)), "split"),
    ],
)
def test_who_answered(rule: Rule, value: str) -> None:
    assert seen("rwin", rule)["stack"].value == value


def test_one_odd_connection_is_no_split() -> None:
    one, odd = (seen("rwin", answering(60, ttl))["stack"] for ttl in (60, 61))
    assert merge_all([one, one, odd])["stack"].value == "one"
    assert merge_all([odd, odd])["stack"].text == "split"
    assert merge_all([one, odd, odd])["stack"].value == "split"


def test_a_mark_is_a_part_of_what_was_stated() -> None:
    script: Any = PROBES["ecn"].script
    packets, _ = play(script(TARGET, "agent"), Ruled(marking(ECE, True)))
    assert [p.tos for p in packets if p.way == "out"] == [0, 0, 3, 0]
    with pytest.raises(Diverged):
        play(script(TARGET, "agent"), Recorded([p._replace(tos=0) for p in packets]))


def test_sack_is_read_from_any_syn_that_offers_it() -> None:
    syn = Segment(SYN, options=(MSS, (OPT_SACK_PERMITTED, b"")))
    packets = (Packet(0, "out", syn), Packet(0.1, "in", Segment(SYN | ACK, ack=1, options=(MSS,)), 1))
    found = {o.knob: o.value for o in read(Trace("t", TARGET, "here", "icw", packets=packets))}
    assert found["sack"] == "no" and "timestamps" not in found


def cookies(*trials: Mapping[str, Observation]) -> Observation:
    return merge_all([trial["tfo"] for trial in trials])["tfo"]


def test_a_repeated_syn_ack_without_a_cookie_proves_no_refusal() -> None:
    """Linux gives its cookie in the first SYN-ACK only."""
    none, lost = seen("tfo", opening(False, False)), seen("tfo", opening(False, False), frozenset({0}))
    given = seen("tfo", opening(True, True))
    assert (cookies(none, none).value, cookies(none, none).grade) == ("no", "B")
    assert cookies(none, lost).value == "no"
    assert cookies(lost, lost).reason == "synack-repeated"
    assert (cookies(lost, given).value, cookies(given, given).grade) == ("yes", "B")
