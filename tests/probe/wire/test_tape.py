# SPDX-License-Identifier: MIT
"""TLS from tape: what a real engine sent, with its TCP around it, is sent again packet by packet."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.internet.certificates import issue
from configtron.model.errors import Diverged
from configtron.model.nouns import Session, Target, Trace
from configtron.probe.play import Recorded, play
from configtron.probe.script import Hold, Offer, Open, StreamScript
from configtron.probe.wire.stream import StreamLog, carry
from configtron.probe.wire.tape import Tape, records
from configtron.probe.wire.tls import Trust
from tests.probe.wire.test_stream import ASK, asks
from tests.probe.wire.test_tls import Server
from tests.support.tls_peer import Peer

TARGET = Target("site.test", "198.18.0.1", 443)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def trust() -> Iterator[Trust]:
    made = Trust()
    yield made
    made.close()


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    certificate = issue(1, "Example", ["site.test"])
    (tmp_path / "chain").write_text(certificate.chain)
    (tmp_path / "key").write_text(certificate.key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(tmp_path / "chain", tmp_path / "key")
    return made


def recorded(script: StreamScript, trust: Trust, peer: Peer, host: str = "site.test") -> Trace:
    target = replace(TARGET, host=host)
    carried, log = carry(script, target, trust)
    packets, ending = play(carried, peer)
    return Trace("i", target, "v", "p", (), 0, packets, tuple(log.messages), log.session, ending)


def again(script: StreamScript, trace: Trace) -> tuple[Trace, StreamLog]:
    wire = Recorded(trace.packets)
    carried, log = carry(script, trace.target, lambda host, alpn: Tape(trace, wire, host, alpn))
    packets, ending = play(carried, wire)
    wire.finish()
    made = replace(trace, packets=packets, messages=tuple(log.messages), session=log.session, ending=ending)
    return made, log


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lost", [(), (0,), (2,), (3,), (1, 4), (2, 3, 5)])
@pytest.mark.parametrize("way", ["in", "out"])
def test_a_page_over_tls_is_played_again(
    trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion, lost: tuple[int, ...], way: str
) -> None:
    context.maximum_version = version
    lose_in, lose_out = (frozenset(lost if way == where else ()) for where in ("in", "out"))
    peer = Peer(Server(context), lose_in=lose_in, lose_out=lose_out)
    trace = recorded(asks(tls=True, until=60.0), trust, peer)
    assert trace.session is not None and trace.session.version
    assert again(asks(tls=True, until=60.0), trace)[0] == trace


@pytest.mark.parametrize("version", VERSIONS)
def test_a_withheld_answer_is_played_again(trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    context.maximum_version = version

    def holds() -> StreamScript:
        session = yield Open(offer=Offer(mss=536), late=True)
        assert isinstance(session, Session)
        yield Hold(ASK)
        return "done"

    trace = recorded(holds(), trust, Peer(Server(context), mss=536))
    assert again(holds(), trace)[0] == trace


def nothing(heard: bytes) -> tuple[bytes, bool]:
    return b"", False


def not_tls(heard: bytes) -> tuple[bytes, bool]:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n", True


def closes(heard: bytes) -> tuple[bytes, bool]:
    return b"", bool(heard)


def alerts(heard: bytes) -> tuple[bytes, bool]:
    return bytes([21, 3, 3, 0, 2, 2, 40]), True


@pytest.mark.parametrize("application", [nothing, not_tls, closes, alerts])
def test_a_handshake_that_fails_is_played_again(
    trust: Trust, application: Callable[[bytes], tuple[bytes, bool]]
) -> None:
    trace = recorded(asks(tls=True), trust, Peer(application))
    assert trace.session is not None and trace.session.error
    assert again(asks(tls=True), trace)[0] == trace


def test_a_version_that_the_server_has_not_is_played_again(trust: Trust, context: ssl.SSLContext) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols(["unknown"])
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("PSK")
    trace = recorded(asks(tls=True), trust, Peer(Server(context)))
    assert trace.session is not None and trace.session.error.startswith("tls:")
    assert again(asks(tls=True), trace)[0] == trace


def test_a_name_that_tls_refuses_is_played_again(trust: Trust) -> None:
    trace = recorded(asks(tls=True), trust, Peer(nothing), host="-" * 300)
    assert trace.session == Session(error="tls:bad-server-name")
    assert again(asks(tls=True), trace)[0] == trace


def test_other_words_and_names_inside_tls_diverge(trust: Trust, context: ssl.SSLContext) -> None:
    trace = recorded(asks(tls=True), trust, Peer(Server(context)))
    with pytest.raises(Diverged, match="inside TLS"):
        again(asks(b"OTHER", tls=True), trace)

    def offers() -> StreamScript:
        yield Open(tls=True, alpn=("h3",))
        return "done"

    with pytest.raises(Diverged, match="does not offer h3"):
        again(offers(), trace)


def test_a_cut_record_counts_as_one() -> None:
    assert [(one.kind, len(one.data)) for one in records(bytes([22, 3, 1, 0, 2, 9, 9, 23, 3, 3, 0, 9, 1]))] == [
        (22, 7), (23, 6),
    ]  # fmt: skip
    assert records(b"") == []
