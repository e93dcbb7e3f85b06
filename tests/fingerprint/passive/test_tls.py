# SPDX-License-Identifier: MIT
"""Hellos as Python's own TLS library writes them, whole and cut."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.tls import CLIENT_HELLO, SERVER_HELLO, hello
from configtron.lab.internet.certificates import issue
from configtron.model.nouns import ACK, RST, SYN, Segment
from configtron.probe.wire.frames import Envelope, build, packed
from tests.support import capture_bytes as write
from tests.support.read_capture import reports as reports_of


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    certificate = issue(1, "Example", ["site.test"])
    chain, key = folder / "chain", folder / "key"
    chain.write_text(certificate.chain)
    key.write_text(certificate.key)
    return chain, key


def hellos(files: tuple[Path, Path], most: ssl.TLSVersion, offered: list[str]) -> tuple[bytes, bytes]:
    """What both sides say first."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*files)
    server.set_alpn_protocols(["h2", "http/1.1"])
    server.maximum_version = most
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    if offered:
        client.set_alpn_protocols(offered)
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, forth, server_hostname="site.test")
    with pytest.raises(ssl.SSLWantReadError):
        asks.do_handshake()
    asked = forth.read()
    heard, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    heard.write(asked)
    with pytest.raises(ssl.SSLWantReadError):
        server.wrap_bio(heard, answer, server_side=True).do_handshake()
    return asked, answer.read()


def test_a_client_says_what_it_offers(files: tuple[Path, Path]) -> None:
    asked, _ = hellos(files, ssl.TLSVersion.TLSv1_3, ["h2", "http/1.1"])
    found = hello(asked)
    assert found is not None and found.kind == CLIENT_HELLO and found.whole
    assert found.versions[:2] == ("TLSv1.3", "TLSv1.2")
    assert (found.alpn, found.server_name) == (("h2", "http/1.1"), "site.test")


@pytest.mark.parametrize(("most", "alpn"), [(ssl.TLSVersion.TLSv1_2, ("h2",)), (ssl.TLSVersion.TLSv1_3, ())])
def test_a_server_answers_alpn_in_clear_only_before_1_3(
    files: tuple[Path, Path], most: ssl.TLSVersion, alpn: tuple[str, ...]
) -> None:
    _, answered = hellos(files, most, ["h2", "http/1.1"])
    found = hello(answered)
    assert found is not None and found.kind == SERVER_HELLO
    assert (found.versions, found.alpn) == ((most.name.replace("_", "."),), alpn)


def test_a_cut_hello_gives_its_part(files: tuple[Path, Path]) -> None:
    asked, _ = hellos(files, ssl.TLSVersion.TLSv1_3, ["h2"])
    whole = hello(asked)
    assert whole is not None
    for cut in range(len(asked)):
        part = hello(asked[:cut])
        assert part is None or (not part.whole and part.server_name in ("", "site.test") and set(part.alpn) <= {"h2"})


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1", b"\x16\x03\x01\x00\x05\x0e\x00\x00\x01x", b"\x17\x03\x03" + bytes(9)]
)
def test_other_openings_are_none(data: bytes) -> None:
    assert hello(data) is None


WARNING = b"\x15\x03\x03\x00\x02\x01\x70"
FATAL = b"\x15\x03\x03\x00\x02\x02\x28"


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("size", [100, 1000])
def test_a_warning_before_the_hello_hides_nothing(
    files: tuple[Path, Path], apart: bool, size: int, tmp_path: Path
) -> None:
    """unrecognized_name and the like: a server warns, in the hello's segment or one of its own, and goes on."""
    asked, answered = hellos(files, ssl.TLSVersion.TLSv1_2, ["h2", "http/1.1"])
    one = spoken(asked, [WARNING, answered] if apart else [WARNING + answered], size, tmp_path)
    assert one.hellos[1] is not None and one.hellos[1].versions == ("TLSv1.2",)
    (version,) = (o for o in one.observations if o.knob == "http_version")
    assert version.value == "h2"


def test_an_alert_that_ends_is_no_hello(files: tuple[Path, Path], tmp_path: Path) -> None:
    asked, answered = hellos(files, ssl.TLSVersion.TLSv1_2, ["h2"])
    assert hello(FATAL + answered) is None
    assert spoken(asked, [FATAL], 1000, tmp_path).hellos[1] is None


UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: foo, h2c\r\n\r\n"
TAKEN = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"


@pytest.mark.parametrize("parts", [[TAKEN + SETTINGS], [TAKEN, SETTINGS]])
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
