# SPDX-License-Identifier: MIT
"""Hellos as Python's own TLS library writes them, whole and cut."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.tls import CLIENT_HELLO, SERVER_HELLO, hello
from configtron.lab.internet.certificates import issue
from configtron.model.nouns import ACK, RST, SYN, Segment
from configtron.probe.wire.frames import Envelope, build, packed
from tests.support import capture_bytes as write
from tests.support.read_capture import reports as reports_of

Hellos = Callable[[ssl.TLSVersion], tuple[bytes, bytes]]
OLD, NEW = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module")
def hellos(tmp_path_factory: pytest.TempPathFactory) -> Hellos:
    """What both sides say first, by the latest version of the server."""
    chain, key = (tmp_path_factory.mktemp("tls") / name for name in ("chain", "key"))
    certificate = issue(1, "Example", ["site.test"])
    chain.write_text(certificate.chain)
    key.write_text(certificate.key)

    def made(most: ssl.TLSVersion) -> tuple[bytes, bytes]:
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        server.load_cert_chain(chain, key)
        server.maximum_version = most
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        for context in (server, client):
            context.set_alpn_protocols(["h2", "http/1.1"])
        forth, back, heard, answer = (ssl.MemoryBIO() for _ in range(4))
        with pytest.raises(ssl.SSLWantReadError):
            client.wrap_bio(back, forth, server_hostname="site.test").do_handshake()
        asked = forth.read()
        heard.write(asked)
        with pytest.raises(ssl.SSLWantReadError):
            server.wrap_bio(heard, answer, server_side=True).do_handshake()
        return asked, answer.read()

    return made


def test_a_client_says_what_it_offers_and_a_cut_hello_its_part(hellos: Hellos) -> None:
    asked, _ = hellos(NEW)
    found = hello(asked)
    assert found is not None and found.kind == CLIENT_HELLO and found.whole
    assert found.versions[:2] == ("TLSv1.3", "TLSv1.2")
    assert (found.alpn, found.server_name) == (("h2", "http/1.1"), "site.test")
    for cut in range(len(asked)):
        part = hello(asked[:cut])
        offered = {"h2", "http/1.1"}
        assert part is None or (not part.whole and part.server_name in ("", "site.test") and set(part.alpn) <= offered)


@pytest.mark.parametrize(("most", "alpn"), [(OLD, ("h2",)), (NEW, ())])
def test_a_server_answers_alpn_in_clear_only_before_1_3(
    hellos: Hellos, most: ssl.TLSVersion, alpn: tuple[str, ...]
) -> None:
    found = hello(hellos(most)[1])
    assert found is not None and found.kind == SERVER_HELLO
    assert (found.versions, found.alpn) == ((most.name.replace("_", "."),), alpn)


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1", b"\x16\x03\x01\x00\x05\x0e\x00\x00\x01x", b"\x17\x03\x03" + bytes(9)]
)
def test_other_openings_are_none(data: bytes) -> None:
    assert hello(data) is None


WARNING = b"\x15\x03\x03\x00\x02\x01\x70"
FATAL = b"\x15\x03\x03\x00\x02\x02\x28"


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("size", [100, 1000])
def test_a_warning_before_the_hello_hides_nothing(hellos: Hellos, apart: bool, size: int, tmp_path: Path) -> None:
    """unrecognized_name and the like: a server warns, in the hello's segment or one of its own, and goes on."""
    asked, answered = hellos(OLD)
    one = spoken(asked, [WARNING, answered] if apart else [WARNING + answered], size, tmp_path)
    assert one.hellos[1] is not None and one.hellos[1].versions == ("TLSv1.2",)
    (version,) = (o for o in one.observations if o.knob == "http_version")
    assert version.value == "h2"


def test_an_alert_that_ends_is_no_hello(hellos: Hellos, tmp_path: Path) -> None:
    asked, answered = hellos(OLD)
    assert hello(FATAL + answered) is None
    assert spoken(asked, [FATAL], 1000, tmp_path).hellos[1] is None


UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: foo, h2c\r\n\r\n"
TAKEN = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"


@pytest.mark.parametrize(
    "parts", [[TAKEN + SETTINGS], [TAKEN, SETTINGS], [EARLY + TAKEN + SETTINGS], [EARLY, TAKEN, SETTINGS]]
)
def test_http2_by_upgrade(parts: list[bytes], tmp_path: Path) -> None:
    found = {o.knob: o for o in spoken(UPGRADE, parts, 1000, tmp_path).observations}
    assert (found["h2c"].value, found["h2c"].method) == ("accepted", "HTTP/2 by Upgrade")
    assert found["h2_max_concurrent_streams"].value == 100


@pytest.mark.parametrize("parts", [[b"HTTP/1.1 200 OK\r\n\r\n" + SETTINGS], [TAKEN]])
def test_what_was_not_upgraded_or_not_captured_says_nothing(parts: list[bytes], tmp_path: Path) -> None:
    found = {o.knob for o in spoken(UPGRADE, parts, 1000, tmp_path).observations}
    assert "http_clear" in found and not found & {"h2c", "h2_settings"}


def test_what_a_reset_carries_is_no_stream(tmp_path: Path) -> None:
    """RFC 9293 3.5.3: a reset may say why; it is counted as payload, and is no part of the server's data."""
    plain = spoken(UPGRADE, [TAKEN], 1000, tmp_path)
    reported = spoken(UPGRADE, [TAKEN], 1000, tmp_path, reset=SETTINGS)
    assert "h2_settings" not in {o.knob for o in reported.observations}
    assert reported.numbers["server_bytes"] == plain.numbers["server_bytes"] == len(TAKEN)
    assert reported.numbers["server_payload"] == len(TAKEN) + len(SETTINGS)


def spoken(asked: bytes, answered: list[bytes], size: int, folder: Path, *, reset: bytes = b"") -> ConnectionReport:
    """A connection in which both sides say that, in segments of `size`; `reset`: what a RST at the end carries."""
    ends = packed("192.0.2.1"), packed("198.51.100.2")
    envelopes = Envelope(*ends, 40000, 80), Envelope(*ends[::-1], 80, 40000)
    frames: list[write.Stamped] = []

    def say(way: int, flags: int, seq: int, ack: int, data: bytes = b"") -> None:
        segment = Segment(flags, seq, ack, 65535, ((2, b"\x05\xb4"),) if flags & SYN else (), data, len(data))
        frames.append((write.START_NS + len(frames) * 1_000_000, build(envelopes[way], segment, seq, ack)))

    def all_of(way: int, data: bytes, seq: int, ack: int) -> int:
        for at in range(0, len(data), size):
            say(way, ACK, seq + at, ack, data[at : at + size])
        return seq + len(data)

    say(0, SYN, 0, 0)
    say(1, SYN | ACK, 0, 1)
    say(0, ACK, 1, 1)
    end = all_of(0, asked, 1, 1)
    seq = 1
    for part in answered:
        seq = all_of(1, part, seq, end)
    say(0, ACK, end, seq)
    if reset:
        say(1, RST | ACK, seq, end, reset)
    path = folder / "spoken.pcap"
    path.write_bytes(write.pcap(frames, nano=True))
    (one,), _ = reports_of(path)
    return one
