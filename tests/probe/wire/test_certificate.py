# SPDX-License-Identifier: MIT
"""What a certificate says of itself, as details."""

from __future__ import annotations

import datetime
import ssl
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from configtron.lab.internet.certificates import issue
from configtron.probe.wire.certificate import NAMES_MOST, identity


def der(pem: str) -> bytes:
    end = "-----END CERTIFICATE-----\n"
    return ssl.PEM_cert_to_DER_cert(pem.split(end)[0] + end)


def test_an_identity_is_reported() -> None:
    leaf = der(issue(1, "Example Edge", ["site.test", "b.test", "c.test"]).chain)
    fields = dict(identity(leaf))
    assert fields.pop("sha256") == sha256(leaf).hexdigest()
    names = ("site.test", "www.site.test", "b.test", "www.b.test", "c.test")
    assert len(names) == NAMES_MOST and fields.pop("expires")
    assert fields == {
        "organisation": "Example Edge", "subject": "site.test", "issuer": "configtron laboratory", "key": "ec-256",
        "names": names, "names_count": 6,
    }  # fmt: skip


def test_a_bare_certificate_shows_less() -> None:
    key = rsa.generate_private_key(65537, 2048)
    name, day = x509.Name([]), datetime.datetime(2026, 1, 2)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    made = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    fields = dict(identity(made))
    shown = {"organisation": "", "issuer": "", "key": "rsa-2048", "expires": "2026-01-02"}
    assert {name: fields[name] for name in shown} == shown and "names" not in fields


@given(st.integers(0, 400), st.binary(max_size=8))
def test_any_bytes_have_an_identity(cut: int, more: bytes) -> None:
    leaf = der(issue(1, "Example", ["site.test"]).chain)
    data = leaf[:cut] + more + leaf[cut + len(more) :]
    assert dict(identity(data))["sha256"] == sha256(data).hexdigest()
