# SPDX-License-Identifier: MIT
"""The real engine against a real server engine, both in memory, and from tape: what the engine sent, with its TCP
around it, is sent again packet by packet."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from configtron.fingerprint import read
from configtron.model.errors import Diverged
from configtron.model.nouns import Session, Target, Trace
from configtron.probe.h2_settings import h2_settings
from configtron.probe.http_version import http_version
from configtron.probe.play import Recorded, play
from configtron.probe.script import Hold, Offer, Open, StreamScript, get
from configtron.probe.wire.stream import EngineFailed, carry
from configtron.probe.wire.tape import Tape
from configtron.probe.wire.tls import Trust
from tests.support.tls_peer import ASK, PAGE, Peer, TlsServer, asks, texts, tls_context

TARGET = Target("site.test", "198.18.0.1", 443)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.fixture
def trust() -> Iterator[Trust]:
    made = Trust()
    yield made
    made.close()


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    return tls_context(tmp_path)


def over_tls() -> StreamScript:
    return asks(tls=True)


def live(trust: Trust, peer: Peer, make: Callable[[], StreamScript] = over_tls, target: Target = TARGET) -> Trace:
    carried, log = carry(make(), target, trust)
    packets, ending = play(carried, peer)
    return Trace("i", target, "v", "p", (), 0, packets, tuple(log.messages), log.session, ending)


def recorded(trust: Trust, peer: Peer, make: Callable[[], StreamScript] = over_tls, target: Target = TARGET) -> Trace:
    """Play a script, and its recording from tape, which must give the same."""
    trace = live(trust, peer, make, target)
    assert again(make(), trace) == trace
    return trace


def again(script: StreamScript, trace: Trace) -> Trace:
    wire = Recorded(trace.packets)
    carried, log = carry(script, trace.target, lambda host, alpn: Tape(trace, wire, host, alpn))
    packets, ending = play(carried, wire)
    wire.finish()
    return replace(trace, packets=packets, messages=tuple(log.messages), session=log.session, ending=ending)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lost", [(), (0,), (2,), (3,), (1, 4), (2, 3, 5)])
@pytest.mark.parametrize("way", ["in", "out"])
def test_a_page_comes_through_with_its_session(
    trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion, lost: tuple[int, ...], way: str
) -> None:
    context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    server = TlsServer(context)
    lose_in, lose_out = (frozenset(lost if way == where else ()) for where in ("in", "out"))
    trace = recorded(trust, Peer(server, lose_in=lose_in, lose_out=lose_out))
    session = trace.session
    assert trace.ending == "ended" and texts(list(trace.messages), "in") == PAGE
    assert session is not None and server.names == ["site.test"]
    assert (session.version, session.alpn, session.error) == (version.name.replace("_", "."), "h2", "")
    labels = [line.split()[0] for line in session.keylog.splitlines()]
    if version == ssl.TLSVersion.TLSv1_2:
        assert labels == ["CLIENT_RANDOM"]
    else:
        assert "SERVER_TRAFFIC_SECRET_0" in labels and len(labels) == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_an_old_server_is_understood(trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = version, version
    trace = live(trust, Peer(TlsServer(context)))
    assert trace.ending == "ended" and trace.session is not None
    assert trace.session.version == version.name.replace("_", ".")


def test_a_page_over_tls_is_read(trust: Trust, context: ssl.SSLContext) -> None:
    context.set_alpn_protocols(["h2", "http/1.1"])
    head = b"HTTP/1.1 302 Found\r\nServer: edge\r\nLocation: /in\r\nSet-Cookie: seen=1\r\n\r\n"
    peer = Peer(TlsServer(context, get("site.test", "/", "test", cookie="a=b"), head))
    trace = live(trust, peer, lambda: http_version(TARGET, "test", way="https", cookie="a=b"))
    assert trace.session is not None
    (found,) = read(replace(trace, probe="http_version", params=(("way", "https"),)))
    assert (found.knob, found.value) == ("http_tls", "http/1.1")
    details = {
        "status": 302, "server": "edge", "location": "/in", "cookies": "seen=1", "alpn": "http/1.1", "tls": "TLSv1.3",
        "certificate": sha256(trace.session.certificate).hexdigest(),
    }  # fmt: skip
    assert {name: found.detail(name) for name in details} == details


def test_secrets_belong_to_their_connection(trust: Trust, context: ssl.SSLContext) -> None:
    sessions = [recorded(trust, Peer(TlsServer(context))).session for _ in range(2)]
    one, other = (set(session.keylog.splitlines()) for session in sessions if session is not None)
    assert one and other and not one & other


@pytest.mark.parametrize("version", VERSIONS)
def test_a_withheld_answer_is_played_again(trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    context.maximum_version = version

    def holds() -> StreamScript:
        session = yield Open(offer=Offer(mss=536), late=True)
        assert isinstance(session, Session)
        yield Hold(ASK)
        return "done"

    assert recorded(trust, Peer(TlsServer(context), mss=536), holds).ending == "done"


@pytest.mark.parametrize(
    ("says", "closes", "error"),
    [
        (b"", False, "no-data"),
        (b"", True, "closed"),
        (HTTP, True, "tls:not-tls"),
        (bytes([21, 3, 3, 0, 2, 2, 40]), True, "tls:alert-handshake-failure"),
        # Python has no name for no_application_protocol (RFC 7301 section 3.2): it used to be tls:error-unknown
        (bytes([21, 3, 3, 0, 2, 2, 120]), True, "tls:alert-no-application-protocol"),
    ],
)
def test_a_handshake_that_fails_is_named(trust: Trust, says: bytes, closes: bool, error: str) -> None:
    trace = recorded(trust, Peer(lambda heard: (says, closes)))
    assert trace.session is not None and trace.session.error == trace.ending == error


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_that_demands_a_certificate_is_named(
    trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion
) -> None:
    """With TLS 1.3 our handshake is done before the server refuses us."""
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, version
    context.set_alpn_protocols(["h2"])
    for probe, script in (("h2_settings", h2_settings), ("http_version", partial(http_version, way="https"))):
        trace = recorded(trust, Peer(TlsServer(context)), partial(script, TARGET, "test"))
        assert trace.ending.removeprefix("tls:alert-") in ("certificate-required", "handshake-failure")
        found = read(replace(trace, probe=probe, params=(("way", "https"),)))
        assert {one.reason for one in found if one.knob != "http_version"} == {trace.ending}


def test_ciphers_that_the_server_has_not_are_named(trust: Trust, context: ssl.SSLContext) -> None:
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("PSK")
    assert recorded(trust, Peer(TlsServer(context))).ending == "tls:alert-handshake-failure"


def test_an_address_is_not_a_server_name(trust: Trust, context: ssl.SSLContext) -> None:
    server = TlsServer(context)
    trace = recorded(trust, Peer(server), target=replace(TARGET, host="198.18.0.1"))
    assert trace.ending == "ended" and server.names == [None]


@pytest.mark.parametrize("host", [".", "-" * 300])
def test_an_impossible_name_is_named(trust: Trust, host: str) -> None:
    with pytest.raises(EngineFailed, match="tls:bad-server-name"):
        trust(host, ())
    trace = recorded(trust, Peer(lambda heard: (b"", False)), target=replace(TARGET, host=host))
    assert trace.session == Session(error="tls:bad-server-name") and trace.ending == "tls:bad-server-name"


def test_other_words_and_names_inside_tls_diverge(trust: Trust, context: ssl.SSLContext) -> None:
    trace = recorded(trust, Peer(TlsServer(context)))
    with pytest.raises(Diverged, match="inside TLS"):
        again(asks(b"OTHER", tls=True), trace)

    def offers() -> StreamScript:
        yield Open(tls=True, alpn=("h3",))
        return "done"

    with pytest.raises(Diverged, match="does not offer h3"):
        again(offers(), trace)
