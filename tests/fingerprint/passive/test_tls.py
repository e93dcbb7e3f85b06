"""Hellos as Python's own TLS library writes them, whole and cut."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from configtron.fingerprint.passive.tls import CLIENT_HELLO, SERVER_HELLO, hello
from configtron.lab.certificates import issue


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
