# SPDX-License-Identifier: MIT
"""A stream is carried whole over a wire that loses, swaps and refuses; in virtual time. The real TLS: test_tls.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from configtron.fingerprint import cwnd_at_request
from configtron.model.errors import Diverged
from configtron.model.nouns import ACK, RST, SYN, Message, Packet, Session, Target, Trace
from configtron.probe.play import Recorded, play
from configtron.probe.script import SYN_PATIENCE_S, SYN_TRIES_AT_S, Hold, Offer, Open, Read, StreamScript, Write
from configtron.probe.wire.stream import EngineFailed, Plain, StreamLog, carry
from configtron.probe.wire.tcp import RETRANSMIT_TRIES
from tests.support.fake_server import FakeServer
from tests.support.recorded_messages import play_messages
from tests.support.tls_peer import ASK, PAGE, Peer, asks, texts

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


@pytest.mark.parametrize("lost", [{2, 3}, {0, 1}], ids=["request", "syn"])
def test_what_is_lost_is_repeated(lost: set[int]) -> None:
    ending, log, _ = run(asks, Peer(serves, lose_out=frozenset(lost)))
    assert (ending, texts(log.messages, "in")) == ("ended", PAGE)


def test_a_hole_is_reported_by_duplicate_acks() -> None:
    _, _, packets = run(asks, Peer(serves, lose_in=frozenset({2})))
    acks = [p.segment.ack for p in packets if p.way == "out" and p.segment.flags == ACK]
    assert acks.count(1) >= 8, "one for each segment after the hole"


def test_a_script_that_says_other_words_diverges() -> None:
    _, log, packets = run(asks, Peer(serves))
    trace = Trace("i", TARGET, "v", "p", (), 0, packets, tuple(log.messages), log.session)
    with pytest.raises(Diverged, match="OTHER"):
        play_messages(asks(b"OTHER"), trace)


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


def test_a_reset_ends_the_stream() -> None:
    peer = Peer(lambda heard: (b"some", False), reset_after=1)
    ending, log, _ = run(asks, peer)
    assert (ending, texts(log.messages, "in")) == ("ended", b"some")
    assert peer.rst is None, "nothing is sent to a host that has reset"


def greets(heard: bytes) -> tuple[bytes, bool]:
    hello = b"hello site.test"
    if heard == hello:
        return b"welcome", False
    if heard == hello + bytes(b ^ 255 for b in ASK):
        return bytes(b ^ 255 for b in PAGE), True
    return b"", False


def test_an_engine_stands_between() -> None:
    ending, log, _ = run(lambda: asks(tls=True), Peer(greets))
    assert ending == "ended" and texts(log.messages, "in") == PAGE
    assert log.session == Session("mirror", "h2")


def test_an_engine_that_gives_up_is_named_and_its_alert_sent() -> None:
    peer = Peer(greets)
    carried, log = carry(asks(tls=True), TARGET, lambda host, alpn: Mirror(host, alpn, fail=True))
    packets, ending = play(carried, peer)
    assert ending == "tls:alert-mirror-broken" and bytes(peer.got).endswith(b"alert")
    assert log.session is not None and log.session.error == ending


@pytest.mark.parametrize(
    ("tls", "close", "refuse", "reason"),
    [
        (True, True, False, "closed"),
        (True, False, False, "no-data"),
        (False, False, False, "no-data"),
        (False, True, True, "refused"),
    ],
)
def test_what_goes_nowhere_has_a_name(tls: bool, close: bool, refuse: bool, reason: str) -> None:
    ending, log, _ = run(lambda: asks(tls=tls, until=3.0), Peer(lambda heard: (b"", close), refuse=refuse))
    assert ending == reason and texts(log.messages, "in") == b""


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
