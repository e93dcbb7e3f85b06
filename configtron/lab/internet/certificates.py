# SPDX-License-Identifier: MIT
"""Certificates of the laboratory's providers: the same seed gives the same bytes.

One authority signs with Ed25519, whose signatures are deterministic (ECDSA's are not); servers hold P-256 keys derived
from the seed, because every TLS client accepts those. A certificate names up to `SITES_PER_CERTIFICATE` sites of one
provider, as networks that serve many customers do; its organisation is the provider.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from configtron.lab.internet.sites import Internet, Site

# A subject list of about 500 bytes: the whole TLS answer stays near 2 kB, as on the Web.
SITES_PER_CERTIFICATE = 20
# Around every clock the laboratory runs with: virtual time starts on a fixed day in 2026.
NOT_BEFORE = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
NOT_AFTER = datetime.datetime(2045, 1, 1, tzinfo=datetime.UTC)
# Order of P-256 (SEC 2, section 2.4.2): a private key is an integer below it.
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM texts of one certificate (with its authority behind it) and its key."""

    chain: str
    key: str


def authority(seed: int) -> tuple[x509.Certificate, Ed25519PrivateKey]:
    """Return the laboratory's certificate authority of that seed."""
    key = Ed25519PrivateKey.from_private_bytes(_digest(seed, "authority"))
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "configtron laboratory")])
    builder = _builder(seed, "authority", name, name).public_key(key.public_key())
    constrained = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return constrained.sign(key, None), key


def issue(seed: int, provider: str, hosts: Sequence[str]) -> Certificate:
    """Return a certificate of that provider for those sites."""
    ca, ca_key = authority(seed)
    purpose = f"{provider}/{'/'.join(hosts)}"
    key = _leaf_key(seed, purpose)
    # A common name is at most 64 characters (RFC 5280, appendix A).
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, provider),
            x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64]),
        ]
    )
    names = x509.SubjectAlternativeName([x509.DNSName(name) for host in hosts for name in (host, f"www.{host}")])
    builder = _builder(seed, purpose, subject, ca.subject).public_key(key.public_key())
    leaf = builder.add_extension(names, critical=False).sign(ca_key, None)
    return Certificate(_pem(leaf) + _pem(ca), _key_pem(key))


def _leaf_key(seed: int, purpose: str) -> EllipticCurvePrivateKey:
    number = int.from_bytes(_digest(seed, f"key/{purpose}"), "big")
    return derive_private_key(1 + number % (P256_ORDER - 1), SECP256R1())


def _builder(seed: int, purpose: str, subject: x509.Name, issuer: x509.Name) -> x509.CertificateBuilder:
    # Serial numbers are positive and at most 20 bytes (RFC 5280 section 4.1.2.2).
    serial = int.from_bytes(_digest(seed, f"serial/{purpose}")[:16], "big") | 1
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, serial_number=serial)
    return builder.not_valid_before(NOT_BEFORE).not_valid_after(NOT_AFTER)


def _digest(seed: int, purpose: str) -> bytes:
    return hashlib.sha256(f"configtron.lab.certificates/{seed}/{purpose}".encode()).digest()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


def chains(internet: Internet, sites: Sequence[Site]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return (host -> certificate's name, its files). Sites that share a certificate do so in any shard."""
    by_provider: dict[str, list[str]] = {}
    for site in internet.sites:
        by_provider.setdefault(site.provider, []).append(site.host)
    hosts = {site.host for site in sites}
    named: dict[str, str] = {}
    files: list[tuple[str, str]] = []
    for provider, customers in by_provider.items():
        for i in range(0, len(customers), SITES_PER_CERTIFICATE):
            group = customers[i : i + SITES_PER_CERTIFICATE]
            if hosts.isdisjoint(group):
                continue
            name = f"{provider.lower().replace(' ', '-')}-{i // SITES_PER_CERTIFICATE}"
            made = issue(internet.seed, provider, group)
            files += [(f"tls/{name}.pem", made.chain), (f"tls/{name}.key", made.key)]
            named |= dict.fromkeys(group, name)
    return named, files
