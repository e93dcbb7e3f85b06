# SPDX-License-Identifier: MIT
"""The real engine against a real server engine, both in memory: no socket, no network."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from configtron.fingerprint import read
from configtron.lab.internet.certificates import issue
from configtron.model.nouns import Target, Trace
from configtron.probe.http_version import http_version
from configtron.probe.play import play
from configtron.probe.script import get
from configtron.probe.wire.stream import EngineFailed, carry
from configtron.probe.wire.tls import Trust
from tests.probe.wire.test_stream import ASK, PAGE, asks
from tests.support.tls_peer import Peer, texts

TARGET = Target("site.test", "198.18.0.1", 443)


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


class Server:
    """An application (peer.py) that speaks TLS."""

    def __init__(self, context: ssl.SSLContext, ask: bytes = ASK, page: bytes = PAGE) -> None:
        self.ask, self.page = ask, page
        self.names: list[str | None] = []
        context.sni_callback = lambda tls, name, ctx: self.names.append(name)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._taken = 0
        self._shaken = False

    def __call__(self, heard: bytes) -> tuple[bytes, bool]:
        self._in.write(heard[self._taken :])
        self._taken = len(heard)
        close = False
        try:
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
            if self._tls.read(65536) == self.ask:
                self._tls.write(self.page)
                close = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            close = True
        return self._out.read(), close


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_page_comes_through_with_its_session(trust: Trust, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    server = Server(context)
    carried, log = carry(asks(tls=True), TARGET, trust)
    _, ending = play(carried, Peer(server, lose_in=frozenset({3})))
    assert ending == "ended" and texts(log.messages, "in") == PAGE
    session = log.session
    assert session is not None and server.names == ["site.test"]
    assert (session.version, session.alpn, session.error) == (version.name.replace("_", "."), "h2", "")
    assert ssl.DER_cert_to_PEM_cert(session.certificate) == issue(1, "Example", ["site.test"]).chain.split("-----END")[
        0
    ] + ("-----END CERTIFICATE-----\n")
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
    carried, log = carry(asks(tls=True), TARGET, trust)
    _, ending = play(carried, Peer(Server(context)))
    assert ending == "ended" and log.session is not None
    assert log.session.version == version.name.replace("_", ".")


def test_a_page_over_tls_is_read(trust: Trust, context: ssl.SSLContext) -> None:
    context.set_alpn_protocols(["h2", "http/1.1"])
    head = b"HTTP/1.1 302 Found\r\nServer: edge\r\nLocation: /in\r\nSet-Cookie: seen=1\r\n\r\n"
    server = Server(context, get("site.test", "/", "test", cookie="a=b"), head)
    carried, log = carry(http_version(TARGET, "test", way="https", cookie="a=b"), TARGET, trust)
    packets, ending = play(carried, Peer(server))
    way = (("way", "https"),)
    trace = Trace("t", TARGET, "v", "http_version", way, 0, packets, tuple(log.messages), log.session, ending)
    (found,) = read(trace)
    assert (found.knob, found.value) == ("http_tls", "http/1.1")
    details = {name: found.detail(name) for name in ("status", "server", "location", "cookies", "alpn", "tls")}
    assert details == {
        "status": 302, "server": "edge", "location": "/in", "cookies": "seen=1", "alpn": "http/1.1", "tls": "TLSv1.3",
    }  # fmt: skip
    assert log.session is not None
    assert found.detail("certificate") == sha256(log.session.certificate).hexdigest()


def test_secrets_belong_to_their_connection(trust: Trust, context: ssl.SSLContext) -> None:
    logs = []
    for _ in range(2):
        carried, log = carry(asks(tls=True), TARGET, trust)
        play(carried, Peer(Server(context)))
        assert log.session is not None
        logs.append(set(log.session.keylog.splitlines()))
    assert logs[0] and logs[1] and not logs[0] & logs[1]


def test_an_alert_is_named(trust: Trust, context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("PSK")
    carried, log = carry(asks(tls=True), TARGET, trust)
    _, ending = play(carried, Peer(Server(context)))
    assert ending == "tls:alert-handshake-failure"


def test_an_alert_that_python_has_no_name_for_is_named(trust: Trust) -> None:
    """no_application_protocol (RFC 7301 section 3.2): it used to be tls:error-unknown."""
    carried, _ = carry(asks(tls=True), TARGET, trust)
    _, ending = play(carried, Peer(lambda heard: (b"\x15\x03\x03\0\2\2\x78", True)))
    assert ending == "tls:alert-no-application-protocol"


def test_a_server_without_tls_is_named(trust: Trust) -> None:
    carried, log = carry(asks(tls=True), TARGET, trust)
    _, ending = play(carried, Peer(lambda heard: (b"HTTP/1.1 400 Bad Request\r\n\r\n", True)))
    assert ending == "tls:not-tls"


def test_an_address_is_not_a_server_name(trust: Trust, context: ssl.SSLContext) -> None:
    server = Server(context)
    carried, _ = carry(asks(tls=True), Target("198.18.0.1", "198.18.0.1", 443), trust)
    assert play(carried, Peer(server))[1] == "ended" and server.names == [None]


def test_an_impossible_name_is_named(trust: Trust) -> None:
    with pytest.raises(EngineFailed, match="tls:bad-server-name"):
        trust(".", ())
    carried, log = carry(asks(tls=True), Target("x" * 300, "198.18.0.1", 443), trust)
    assert play(carried, Peer(lambda heard: (b"", False)))[1] == "tls:bad-server-name"
