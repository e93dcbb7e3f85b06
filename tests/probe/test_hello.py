# SPDX-License-Identifier: MIT
"""The constant ClientHello is one that OpenSSL answers with its certificate, and never two."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from configtron.lab.internet.certificates import issue
from configtron.probe.client_hello import certificate_hello


def flight(folder: Path, hello_record: bytes, most: ssl.TLSVersion) -> bytes:
    certificate = issue(1, "hello", ["site.example"])
    (folder / "chain.pem").write_text(certificate.chain)
    (folder / "key.pem").write_text(certificate.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    context.maximum_version = most
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(hello_record)
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
@pytest.mark.parametrize("host", ["site.example", ""])
def test_a_server_answers_with_its_certificate(tmp_path: Path, most: ssl.TLSVersion, host: str) -> None:
    answer = flight(tmp_path, certificate_hello(host), most)
    # A handshake record with a ServerHello (RFC 8446 4), not a request to try again (4.1.4), and a chain behind it.
    assert (answer[0], answer[5]) == (22, 2) and len(answer) > 700
    assert bytes.fromhex("cf21ad74e59a6111") not in answer[:60]


def test_it_is_the_same_each_time() -> None:
    assert certificate_hello("site.example") == certificate_hello("site.example") != certificate_hello("")
    assert len(certificate_hello("site.example")) < 536
