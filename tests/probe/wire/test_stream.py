# SPDX-License-Identifier: MIT
"""A stream is carried whole over a wire that loses, swaps and refuses; in virtual time. The real TLS: test_tls.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from configtron.fingerprint import cwnd_at_request
from configtron.model.nouns import ACK, RST, SYN, Message, Packet, Session, Target, Trace
from configtron.probe.play import Recorded, play
from configtron.probe.script import SYN_PATIENCE_S, SYN_TRIES_AT_S, Hold, Offer, Open, Read, StreamScript, Write
from configtron.probe.wire.stream import EngineFailed, Plain, StreamLog, carry
from configtron.probe.wire.tcp import RETRANSMIT_TRIES
from tests.support.fake_server import FakeServer
from tests.support.recorded_messages import play_messages
from tests.support.tls_peer import ASK, PAGE, Application, Peer, asks, texts

TARGET = Target("site.test", "198.18.0.1", 443)


class Mirror(Plain):
    """A TLS of one greeting each way, then every byte with its bits flipped."""

    def __init__(self, host: str, alpn: tuple[str, ...], *, fail: bool = False) -> None:
        super().__init__()
        self.host, self.alpn, self.fail = host, alpn, fail
        self.greeted = False

    def shake(self) -> bool:
        if not self.greeted:
            self.greeted = True
            super().write(b"hello " + self.host.encode())
            return False
        answer, _ = super().read()
        if answer and self.fail:
            super().write(b"alert")
            raise EngineFailed("tls:alert-mirror-broken")
        return bool(answer)

    def write(self, data: bytes) -> None:
        super().write(bytes(b ^ 255 for b in data))

    def read(self) -> tuple[bytes, bool]:
        data, ended = super().read()
        return bytes(b ^ 255 for b in data), ended

    def session(self, error: str = "") -> Session:
        return Session("mirror", self.alpn[0] if self.alpn else "", b"", error)


def serves(heard: bytes, ask: bytes = ASK) -> tuple[bytes, bool]:
    return (PAGE, True) if heard == ask else (b"", False)


def run(make: Callable[[], StreamScript], peer: Peer) -> tuple[str, StreamLog, tuple[Packet, ...]]:
    """Play a script, and its own recording, which must give the same."""
    carried, log = carry(make(), TARGET, Mirror)
    packets, ending = play(carried, peer)
    trace = Trace("i", TARGET, "v", "p", (), 0, packets, tuple(log.messages), log.session)
    assert play_messages(make(), trace) == ending
    again, second = carry(make(), TARGET, Mirror)
    assert play(again, Recorded(packets)) == (packets, ending) and second == log
    return ending, log, packets


def test_a_page_is_carried_and_we_leave_politely() -> None:
    peer = Peer(serves)
    ending, log, packets = run(asks, peer)
    assert (ending, texts(log.messages, "in"), texts(log.messages, "out")) == ("ended", PAGE, ASK)
    assert log.session == Session()
    assert peer.rst is not None and peer.rst.seq == len(ASK) + 1, "the RST must lie where the server accepts it"
    syn = packets[0].segment
    assert (syn.flags, syn.mss, syn.wscale, syn.timestamps) == (SYN, 1460, 7, None)
    assert packets[-1].segment.flags == RST


@settings(max_examples=80)
@given(
    st.frozensets(st.integers(0, 12), max_size=4),
    st.frozensets(st.integers(0, 14), max_size=5),
    st.frozensets(st.integers(0, 14), max_size=5),
    st.integers(1, 1500),
)
def test_loss_and_disorder_change_nothing(
    lose_out: frozenset[int], lose_in: frozenset[int], swap_in: frozenset[int], mss: int
) -> None:
    lose_out, lose_in = lose_out - {0, 1, 2}, lose_in - {0, 1, 2}
    # more losses could all be of one segment, which is given up then
    assume(len(lose_out) + len(lose_in) <= RETRANSMIT_TRIES)
    long_ask = ASK * 20
    peer = Peer(
        lambda heard: serves(heard, long_ask), mss=max(mss, 100), lose_out=lose_out, lose_in=lose_in, swap_in=swap_in
    )
    carried, log = carry(asks(long_ask, until=400.0), TARGET, Mirror)
    packets, ending = play(carried, peer)
    assert bytes(peer.got) == long_ask
    assert texts(log.messages, "in") == PAGE[: len(texts(log.messages, "in"))]
    if not lose_in and not lose_out:
        assert (ending, texts(log.messages, "in")) == ("ended", PAGE)


def test_a_hole_is_reported_by_duplicate_acks() -> None:
    _, _, packets = run(asks, Peer(serves, lose_in=frozenset({2})))
    acks = [p.segment.ack for p in packets if p.way == "out" and p.segment.flags == ACK]
    assert acks.count(1) >= 8, "one for each segment after the hole"


def test_a_read_whose_time_has_passed_gets_nothing() -> None:
    def late() -> StreamScript:
        yield Open(tls=False)
        yield Write(ASK)
        assert (yield Read(1.0)) is not None
        assert (yield Read(0.05)) is None
        message = yield Read(9.0)
        return "more" if isinstance(message, Message) and message.data else "nothing"

    assert run(late, Peer(serves))[0] == "more"


def test_no_one_answers() -> None:
    peer = Peer(serves, lose_out=frozenset(range(10)))
    ending, log, _ = run(asks, peer)
    assert ending == "no-synack" and log.session == Session(error="no-synack")
    assert peer._number["out"] == 3, "three SYNs, and no RST to no host"
    assert peer.now == SYN_TRIES_AT_S[-1] + SYN_PATIENCE_S


def greets(heard: bytes) -> tuple[bytes, bool]:
    hello = b"hello site.test"
    if heard == hello:
        return b"welcome", False
    if heard == hello + bytes(b ^ 255 for b in ASK):
        return bytes(b ^ 255 for b in PAGE), True
    return b"", False


def says(data: bytes, close: bool) -> Application:
    return lambda heard: (data, close)


@pytest.mark.parametrize(
    ("application", "peer", "tls", "ending", "read"),
    [
        # our request, or our SYN, is lost and repeated
        (serves, {"lose_out": frozenset({2, 3})}, False, "ended", PAGE),
        (serves, {"lose_out": frozenset({0, 1})}, False, "ended", PAGE),
        # an engine stands between
        (greets, {}, True, "ended", PAGE),
        (says(b"", True), {}, True, "closed", b""),
        (says(b"", False), {}, True, "no-data", b""),
        (says(b"", False), {}, False, "no-data", b""),
        (says(b"", True), {"refuse": True}, False, "refused", b""),
        (says(b"some", False), {"reset_after": 1}, False, "ended", b"some"),
    ],
)
def test_how_a_stream_ends(application: Application, peer: dict[str, Any], tls: bool, ending: str, read: bytes) -> None:
    other = Peer(application, **peer)
    found, log, _ = run(lambda: asks(tls=tls, until=9.0), other)
    assert (found, texts(log.messages, "in")) == (ending, read)
    if tls and read:
        assert log.session == Session("mirror", "h2")
    if "reset_after" in peer:
        assert other.rst is None, "nothing is sent to a host that has reset"


def test_an_engine_that_gives_up_is_named_and_its_alert_sent() -> None:
    peer = Peer(greets)
    carried, log = carry(asks(tls=True), TARGET, lambda host, alpn: Mirror(host, alpn, fail=True))
    packets, ending = play(carried, peer)
    assert ending == "tls:alert-mirror-broken" and bytes(peer.got).endswith(b"alert")
    assert log.session is not None and log.session.error == ending


def holds(offer: Offer, early: bool) -> StreamScript:
    session = yield Open(tls=False, offer=offer, late=True)
    assert isinstance(session, Session)
    if session.error:
        return session.error
    yield Hold(ASK, early)
    return "done"


@pytest.mark.parametrize(("sack", "rtt_s"), [(False, 0.0001), (False, 0.4), (True, 0.05), (True, 0.4)])
@pytest.mark.parametrize("icw", [1, 10, 45])
def test_acks_are_withheld_inside_a_stream(icw: int, rtt_s: float, sack: bool) -> None:
    offer, server = Offer(536, sack), FakeServer(icw=icw, rtt_s=rtt_s, sack=True)
    carried, log = carry(holds(offer, not sack), TARGET, Mirror)
    packets, ending = play(carried, server)
    trace = Trace("i", TARGET, "v", "cwnd_at_request", (), 0, packets, tuple(log.messages), log.session, ending)
    (seen,) = cwnd_at_request.infer(trace)
    assert (ending, seen.value, seen.grade) == ("done", icw, "C"), seen
    assert play_messages(holds(offer, not sack), trace) == ending
    assert [p.segment.flags for p in packets if p.way == "out"][-1] == RST
    syn = packets[0].segment
    assert (syn.mss, syn.option(4) is not None, syn.wscale) == (536, sack, 7)


def test_no_one_to_hold_back_from() -> None:
    carried, log = carry(holds(Offer(), True), TARGET, Mirror)
    packets, ending = play(carried, FakeServer(refuse=True))
    trace = Trace("i", TARGET, "v", "cwnd_at_request", (), 0, packets, tuple(log.messages), log.session, ending)
    assert [o.reason for o in cwnd_at_request.infer(trace)] == ["refused"]
