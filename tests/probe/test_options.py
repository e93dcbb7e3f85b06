# SPDX-License-Identifier: MIT
"""What a server agrees to, against peers that answer by rule: ECN, Fast Open, SACK, timestamps, one stack or two."""

from __future__ import annotations

from collections.abc import Sequence
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
)
from configtron.probe import PROBES
from configtron.probe.play import Recorded, play
from configtron.probe.signature import OFFERS
from tests.support.played import MSS_OPTION, TARGET, Rule, Ruled, played, seen, trace_of

COOKIE = (OPT_FASTOPEN, bytes(range(8)))
# Where a server begins to count when it is asked anew.
SECOND = 312_528


def marking(agrees: int, reports: bool) -> Rule:
    """A server that answers an ECN SYN with the flags `agrees`, and reports marks or not."""

    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        if segment.flags & SYN:
            return [(Segment(SYN | ACK | agrees, ack=1, options=(MSS_OPTION,)), 60)]
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
    assert seen("ecn", Ruled(marking(agrees, reports), lose))["ecn"].value == value


def test_a_mark_is_a_part_of_what_was_stated() -> None:
    packets = played("ecn", Ruled(marking(ECE, True))).packets
    assert [p.tos for p in packets if p.way == "out"] == [0, 0, 3, 0]
    script: Any = PROBES["ecn"].script
    with pytest.raises(Diverged):
        play(script(TARGET, "agent"), Recorded([p._replace(tos=0) for p in packets]))


def tfo(cookie: bool, takes: bool, *lose: int, copies: bool = False) -> Observation:
    """What is seen of a server; `copies` of its first SYN-ACK are what comes first to the second SYN."""

    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        if not segment.flags & SYN:
            return []
        asked = segment.option(OPT_FASTOPEN)
        options = (MSS_OPTION, COOKIE) if cookie and asked == b"" else (MSS_OPTION,)
        taken = segment.length if takes and asked == COOKIE[1] else 0
        begins = SECOND if asked == COOKIE[1] else 0
        copy = [(Segment(SYN | ACK, ack=1, options=(MSS_OPTION,)), 60)] if copies and begins else []
        return [*copy, (Segment(SYN | ACK, seq=begins, ack=1 + taken, options=options), 60)]

    return seen("tfo", Ruled(rule, frozenset(lose)))["tfo"]


@pytest.mark.parametrize(
    ("cookie", "takes", "value"), [(True, True, "yes"), (True, False, "cookie"), (False, False, "no")]
)
def test_fast_open(cookie: bool, takes: bool, value: str) -> None:
    assert tfo(cookie, takes).value == tfo(cookie, takes, 0).value == value
    if cookie:
        assert tfo(cookie, takes, copies=True).value == value, "a copy shows nothing of the second SYN"


def test_a_repeat_of_the_syn_with_data_shows_only_what_is_taken() -> None:
    assert tfo(True, True, 4).value == "yes" and tfo(True, False, 4).reason == "no-data"


def test_a_repeated_syn_ack_without_a_cookie_proves_no_refusal() -> None:
    """Linux gives its cookie in the first SYN-ACK only."""
    none, lost, given = tfo(False, False), tfo(False, False, 0), tfo(True, True)
    merged = [
        merge_all(pair)["tfo"] for pair in ((none, none), (none, lost), (lost, lost), (lost, given), (given, given))
    ]
    assert [o.text for o in merged] == ["no", "no", "- (synack-repeated)", "yes", "yes"]
    assert [merged[n].grade for n in (0, 1, 4)] == ["B", "C", "B"]


@pytest.mark.parametrize("offer", list(OFFERS))
@pytest.mark.parametrize("agrees", [True, False])
def test_only_what_was_offered_is_reported(offer: str, agrees: bool) -> None:
    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        echoed = tuple(o for o in segment.options if o[0] == OPT_MSS or agrees)
        return [(Segment(SYN | ACK, ack=1, options=echoed), 60)] if segment.flags & SYN else []

    found = seen("signature", Ruled(rule), offer=offer)
    values = {knob: found[knob].value for knob in ("sack", "timestamps") if knob in found}
    wanted = [knob for knob in ("sack", "timestamps") if getattr(OFFERS[offer], knob)]
    assert values == dict.fromkeys(wanted, "yes" if agrees else "no")


def test_sack_is_read_from_any_syn_that_offers_it() -> None:
    syn = Segment(SYN, options=(MSS_OPTION, (OPT_SACK_PERMITTED, b"")))
    packets = (Packet(0, "out", syn), Packet(0.1, "in", Segment(SYN | ACK, ack=1, options=(MSS_OPTION,)), 1))
    found = {o.knob: o.value for o in read(trace_of(packets, "icw"))}
    assert found["sack"] == "no" and "timestamps" not in found


def stack(ttl: int, later_ttl: int, clock: tuple[int, int] | None = None, later_stamps: bool = True) -> Observation:
    """What is seen of a server whose SYN-ACK and whose acknowledgement of the request may differ."""

    def stamps(value: int) -> tuple[tuple[int, bytes], ...]:
        return ((OPT_TIMESTAMPS, value.to_bytes(4, "big") + (1).to_bytes(4, "big")),)

    def rule(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
        if segment.flags & SYN:
            return [(Segment(SYN | ACK, ack=1, options=(MSS_OPTION, *(stamps(clock[0]) if clock else ()))), ttl)]
        if segment.length:
            options = stamps(clock[1]) if clock and later_stamps else ()
            return [(Segment(ACK, 1, segment.end, options=options), later_ttl), (Segment(RST, 1), 200)]
        return []

    return seen("rwin", Ruled(rule))["stack"]


@pytest.mark.parametrize(
    ("ttl", "clock", "later_stamps", "value"),
    [
        (60, None, True, "one"),
        (60, (1000, 1050), True, "one"),
        (60, (0xFFFFFFF0, 40), True, "one"),
        (60, (1000, 40_000), True, "one"),
        # a clock of 1 us, on a path that held the SYN-ACK back by half a second
        (60, (1000, 520_000), True, "one"),
        (124, None, True, "split"),
        (66, None, True, "split"),
        (60, (1000, 1050), False, "split"),
        (60, (500_000, 1000), True, "split"),
        (60, (1000, 900_000_000), True, "split"),
    ],
)
def test_who_answered(ttl: int, clock: tuple[int, int] | None, later_stamps: bool, value: str) -> None:
    assert stack(ttl, 60, clock, later_stamps).value == value


def test_one_odd_connection_is_no_split() -> None:
    one, odd = stack(60, 60), stack(60, 61)
    assert merge_all([one, one, odd])["stack"].value == "one"
    assert merge_all([odd, odd])["stack"].text == "split"
    assert merge_all([one, odd, odd])["stack"].value == "split"
